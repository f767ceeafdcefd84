"""Samples on torch's device, as networks take them."""

from math import prod
from typing import Any

import numpy as np
import torch

from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError

# Of sparse rows that are made dense: 4 GB in float64.
_MOST_NUMBERS = 500_000_000


class DeviceSamples:
    """Samples on a device, as they are stored; normalised when they are taken.

    label: (n,) float64. shape: of one sample.
    """

    def __init__(
        self, samples: Samples, metadata: dict[str, Any], device: torch.device, dtype: torch.dtype
    ) -> None:
        """Move them; FedatlasError if networks cannot take them. metadata: of the shard."""
        features = samples.features
        if not isinstance(features, np.ndarray):
            if prod(features.shape) > _MOST_NUMBERS:
                raise FedatlasError(
                    f"data set '{metadata['dataset']}': networks take dense samples, and its "
                    f"{features.shape[0]} sparse rows of {features.shape[1]} features are too many "
                    f"to be made dense: at most {_MOST_NUMBERS:.2g} numbers are"
                )
            features = features.toarray()
        self.shape = shape = tuple(metadata["shape"])
        normalisation = metadata.get("normalisation") or {"mean": [0.0], "deviation": [1.0]}
        if features.dtype == np.uint8 and not metadata.get("normalisation"):
            raise FedatlasError(
                f"data set '{metadata['dataset']}': networks would see pixels from 0 to 255; say "
                "'normalise' in the catalogue"
            )
        # A copy where Arrow's memory is read-only: torch wants writable memory.
        writable = np.require(features.reshape(len(samples), *shape), requirements="W")
        values = torch.from_numpy(writable)
        # Channels last: convolutions on a CPU are a third faster.
        self._last = len(shape) >= 3
        if self._last:
            values = values.movedim(-3, -1)
            # Written out and shaped anew: a single channel would keep a stride by which torch takes
            # images for channels first.
            values = values.reshape(-1).view(values.shape)
        stored = torch.uint8 if values.dtype == torch.uint8 else dtype
        self._values = values.to(device, stored)
        self._dtype = dtype
        self._mean, self._deviation = (
            torch.tensor(normalisation[key], device=device, dtype=dtype)
            for key in ("mean", "deviation")
        )
        self.label = torch.tensor(samples.label, device=device)

    def __len__(self) -> int:
        return len(self.label)

    def at(self, rows: torch.Tensor | slice) -> torch.Tensor:
        """The samples of these rows (…,) or of a slice, normalised, (…, *shape)."""
        taken = (self._values[rows].to(self._dtype) - self._mean) / self._deviation
        return taken.movedim(-1, -3) if self._last else taken


class Minibatch:
    """Samples of rows (S, b), gathered when they are asked for; the whole is kept for reuse.

    shape: (S, b, *shape).
    """

    def __init__(self, samples: DeviceSamples, rows: torch.Tensor) -> None:
        self._samples, self._rows = samples, rows
        self._whole: torch.Tensor | None = None
        self.shape = (*rows.shape, *samples.shape)

    def __getitem__(self, at: Any) -> torch.Tensor:
        """Those of clients and places; of `...` all."""
        if at is not ...:
            self._whole = None  # it did not fit
            return self._samples.at(self._rows[at])
        if self._whole is None:
            self._whole = self._samples.at(self._rows)
        return self._whole
