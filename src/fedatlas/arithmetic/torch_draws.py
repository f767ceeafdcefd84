"""Random numbers for torch's tensors, the same on every device up to the rounding of log and cos.

Every number is a hash of its place in the tensor under a key of the round (SplitMix64, Steele, Lea
and Flood 2014): generators differ between devices, and numbers from the CPU would be transferred.
"""

import math
from functools import cache

import numpy as np
import torch

from fedatlas.arithmetic.randomness import Draws, RoundRandom

# SplitMix64's constants as signed 64-bit numbers; products wrap around.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)


class TorchDraws(Draws):
    """For tensors; computed in float64, given in the tensor's own type."""

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
        """By Box and Muller, half of each pair."""
        radius = torch.sqrt(-2 * torch.log(_open_unit(_hashes(random.key(), like))))
        angle = 2 * math.pi * _open_unit(_hashes(random.key(), like))
        return (radius * torch.cos(angle)).to(like.dtype)

    def binomial(self, random: RoundRandom, trials: int, like: torch.Tensor) -> torch.Tensor:
        """By inversion of the distribution function."""
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
