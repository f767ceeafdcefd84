"""The device that torch computes on, the samples that lie on it, and random numbers made on it.

Random numbers are the same on every device up to the rounding of log and cos: every number is a
hash of its place in the tensor under a key of the round (SplitMix64, Steele, Lea and Flood 2014).
Generators differ between devices, and numbers from the CPU would be transferred.
"""

import math
import os
from collections.abc import Callable
from functools import cache
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import torch

from fedatlas.arithmetic.gpus import Gpu, claim, driver_version
from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError

# By default a GPU's convolutions round what they multiply to ten bits (TF32): gradients of small
# networks were then off by 1e-3.
torch.backends.cudnn.allow_tf32 = False


def available(name: str) -> torch.device:
    """The device of that name; FedatlasError says what to do when it cannot be used."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
        if device.index is not None and device.type == "cuda":
            torch.cuda.set_device(device)  # so that nothing lands on another one
    except (RuntimeError, AssertionError) as error:
        raise FedatlasError(
            f"device '{name}' cannot be used: {str(error).splitlines()[0]}. Set device to cpu or "
            f"auto, or install a build of torch for it (this one is {torch.__version__})."
        ) from error
    return device


def claimed(name: str, purpose: str) -> str:
    """The device that is meant; a GPU is waited for and locked until the process ends.

    name: "cuda" is any visible GPU, "cuda:1" that one, "cuda/4" any that fewer than four runs
    hold, "auto" any or, without one, the CPU; any other name is itself. purpose: for the logs of
    processes that wait for the GPU.
    """
    name, _, runs = name.partition("/")
    # SLURM names the GPUs that it gave to a job; others that are visible are not the job's.
    if name == "auto" and "SLURM_JOB_ID" in os.environ and "CUDA_VISIBLE_DEVICES" not in os.environ:
        return "cpu"
    if name != "auto" and not name.startswith("cuda"):
        return name
    gpus = visible_gpus()
    meant = [gpu for gpu in gpus if name in ("auto", "cuda", gpu.name)]
    if meant:
        places = zip(*(gpu.places(int(runs or 1)) for gpu in meant), strict=True)
        return claim([*chain.from_iterable(places)], purpose).name  # empty GPUs come first
    if name == "auto":
        return "cpu"
    available(name)  # says why not
    raise FedatlasError(
        f"device '{name}' cannot be used: visible are {', '.join(gpu.name for gpu in gpus)}"
    )


def visible_gpus() -> list[Gpu]:
    """All GPUs that torch sees; CUDA_VISIBLE_DEVICES may limit them."""
    if not torch.cuda.is_available():
        return []
    return [Gpu(f"cuda:{index}", _identity(index)) for index in range(torch.cuda.device_count())]


def gpu_versions(name: str) -> dict[str, str]:
    """Model, driver and CUDA of a device that is a GPU; nothing of others."""
    if not name.startswith("cuda"):
        return {}
    return {
        "gpu": torch.cuda.get_device_name(name),
        "gpu_driver": driver_version() or "unknown",
        "cuda": torch.version.cuda or "none",
    }


def _identity(index: int) -> str:
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    if uuid is not None:
        return f"GPU-{uuid}"
    # The index counts visible GPUs only.
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return f"GPU-{listed[index].strip() if any(listed) else index}"


#: Numbers of the samples of which gradients are computed at once; what passes through a network
#: then holds up to twenty times as many, and fewer samples pass through wider networks. The same on
#: every device: its memory must not change results.
AT_ONCE = 50_000_000

# Of sparse rows that are made dense: 4 GB in float64.
_MOST_NUMBERS = 500_000_000


def shape_of(metadata: dict[str, Any]) -> tuple[int, ...]:
    """The shape of a sample for networks; for rows without a shape it is their columns."""
    return tuple(metadata["shape"] or [metadata["features"]])


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
        self.shape = shape = shape_of(metadata)
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
        """The samples of clients and places; all of them for `...`."""
        if at is not ...:
            self._whole = None  # it did not fit
            return self._samples.at(self._rows[at])
        if self._whole is None:
            self._whole = self._samples.at(self._rows)
        return self._whole


# SplitMix64's constants as signed 64-bit numbers; products wrap around.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)


def in_blocks(
    compute: Callable[[slice, slice], tuple[torch.Tensor, torch.Tensor]],
    clients: int,
    samples: int,
    at_once: int,
    together: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs (S, b, …) side by side and gradients (S, d) added up, of a batch in blocks.

    compute: both, of a block of clients and places of their samples, at most `at_once` in all.
    together: whether clients may share a block; they do where each has a sample in it.
    """
    group = clients if together and at_once >= clients else 1
    width = at_once // group
    outputs, gradients = [], []
    for first in range(0, clients, group):
        own = []
        for start in range(0, samples, width):
            places = slice(start, min(start + width, samples))
            found, gradient = compute(slice(first, first + group), places)
            own.append(found)
            if start == 0:
                total = gradient
            else:
                total += gradient
        outputs.append(torch.cat(own, dim=1))
        gradients.append(total)
    return torch.cat(outputs), torch.cat(gradients)


class TorchDraws(Draws):
    """Draws for tensors, computed in float64, given in the tensor's own type."""

    def uniform(self, random: RoundRandom, like: torch.Tensor) -> torch.Tensor:
        # 23 bits and half: float32 holds them exactly, so that neither 0 nor 1 is among them.
        bits = _shift(_hashes(random.key(), like), 41)
        return bits.double().add_(0.5).mul_(2.0**-23).to(like.dtype)

    def laplace(self, random: RoundRandom, like: torch.Tensor) -> torch.Tensor:
        hashes = _hashes(random.key(), like)
        size = _open_unit(hashes).log_().to(like.dtype)
        # The lowest bit, which the size does not use, is the sign.
        return size.mul_((hashes & 1).mul_(2).sub_(1))

    def normal(self, random: RoundRandom, like: torch.Tensor) -> torch.Tensor:
        """Normal numbers by Box and Muller, half of each pair."""
        radius = torch.sqrt(-2 * torch.log(_open_unit(_hashes(random.key(), like))))
        angle = 2 * math.pi * _open_unit(_hashes(random.key(), like))
        return (radius * torch.cos(angle)).to(like.dtype)

    def binomial(self, random: RoundRandom, trials: int, like: torch.Tensor) -> torch.Tensor:
        """Binomial numbers by inversion of the distribution function."""
        uniform = _open_unit(_hashes(random.key(), like))
        table = torch.from_numpy(_fair_coins(trials)).to(like.device)
        return torch.searchsorted(table, uniform).to(like.dtype)


@cache
def _fair_coins(trials: int) -> np.ndarray:
    """P(at most h heads), h = 0 … trials − 1."""
    from scipy.stats import binom  # loads for half a second

    below: np.ndarray = binom.cdf(np.arange(trials), trials, 0.5)
    return below


def _hashes(key: int, like: torch.Tensor) -> torch.Tensor:
    """64 random bits for every place of the tensor."""
    z = torch.arange(1, like.numel() + 1, device=like.device).view(like.shape)
    z.mul_(_GOLDEN).add_(key)
    z.bitwise_xor_(_shift(z, 30)).mul_(_FIRST)
    z.bitwise_xor_(_shift(z, 27)).mul_(_SECOND)
    return z.bitwise_xor_(_shift(z, 31))


def _open_unit(hashes: torch.Tensor) -> torch.Tensor:
    """Uniform in (0, 1), of 52 bits and half: float64 holds them exactly."""
    return _shift(hashes, 12).double().add_(0.5).mul_(2.0**-52)


def _shift(z: torch.Tensor, places: int) -> torch.Tensor:
    """To the right, with zeros: torch's own shift repeats the sign."""
    return (z >> places).bitwise_and_((1 << (64 - places)) - 1)


class TorchArrays:
    """Engines whose arrays are tensors on their device."""

    _device: torch.device

    def array(self, values: np.ndarray) -> torch.Tensor:
        """The values on the device."""
        return torch.tensor(values, device=self._device)

    def numpy(self, array: torch.Tensor | np.ndarray) -> np.ndarray:
        """The values as numpy; waits for the device."""
        return array if isinstance(array, np.ndarray) else array.cpu().numpy()

    def repeated(self, array: torch.Tensor, times: int) -> torch.Tensor:
        """The array (…) repeated, (times, …), as a view."""
        return array.expand(times, *array.shape)
