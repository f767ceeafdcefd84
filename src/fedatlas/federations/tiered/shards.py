"""Reading the shards of a tiered partition's silos."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.client_shards import ClientSamples, read_shard

# The same in the files of all silos.
_COMMON_KEYS = ("dataset", "split", "partition", "prepared_digest", "test_digest")


@dataclass(frozen=True)
class TieredSamples:
    """The samples of all silos.

    silos: N of them, each with its slice of all samples, ordered by its own clients, and of the
        test rows, which have the same order in all silos.
    place: (N, M) int64: the row at which a silo stores a training sample; the M training samples
        are in ascending order of their ids, the same for all silos.
    """

    silos: tuple[ClientSamples, ...]
    place: np.ndarray

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the first silo."""
        return self.silos[0].metadata


def read_tiered_shards(paths: Sequence[Path]) -> TieredSamples:
    """Read the files of all silos, in order.

    Raises FedatlasError when a file is missing, damaged or no shard, or when the files are not all
    silos of one tiered partition of the same data, in order.
    """
    silos: list[ClientSamples] = []
    places = []
    for number, path in enumerate(paths):
        silo = read_shard(path)
        silos.append(silo)
        first = silos[0]
        same = all(silo.metadata.get(key) == first.metadata.get(key) for key in _COMMON_KEYS)
        tiered = silo.metadata["partition"].get("kind") == "tiered"
        if not (same and tiered) or silo.metadata["silo"] != number:
            raise FedatlasError(
                f"{path}: is not silo {number} of the tiered partition of {paths[0]}; shard again"
            )
        places.append(np.argsort(silo.samples.sample_id, kind="stable"))
    expected = math.prod(silos[0].metadata["partition"]["cut"].values()) if silos else "at least 1"
    if len(paths) != expected:
        raise FedatlasError(
            f"{paths[0] if paths else 'shards'}: {len(paths)} silo files were given, but the "
            f"partition has {expected}"
        )
    return TieredSamples(tuple(silos), np.stack(places))
