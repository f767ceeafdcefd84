"""One tight accountant for all kinds of noise: privacy profiles, composed as loss distributions.

A profile is δ(ε) of one release whose exact value moves by its sensitivity: the least δ at which it
is (ε, δ)-private. Drawing m of D samples without replacement, one of which is replaced, turns it
into share δ(ln(1 + (e^ε − 1)/share)) (Balle, Barthe, Gaboardi 2018, Theorem 9). A profile is that
of a pair of distributions that no pair of adjacent data exceeds (Zhu, Dong, Wang 2022), whose
losses add up over releases, even if later ones depend on earlier ones. Losses are rounded up to a
grid (Doroshenko et al. 2022, by Google's dp-accounting), so that ε is an upper bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor, log, log10
from typing import Any, Self

import numpy as np


class Noise(ABC):
    """Noise on what moves by 1, its sensitivity, at most."""

    @property
    @abstractmethod
    def size(self) -> float:
        """Standard deviation, or Laplace scale."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The same kind of noise, larger by a factor."""

    @abstractmethod
    def profile(self, epsilon: np.ndarray) -> np.ndarray:
        """(ε,) δ at every ε ≥ 0, of one release."""

    @abstractmethod
    def log_ratio(self, released: np.ndarray) -> np.ndarray:
        """The log-likelihood that the exact value was 1 over that it was 0."""

    @abstractmethod
    def pair(self, share: float) -> Any:
        """Loss distribution of 0 against 1 with the probability `share`, else 0; rounded down."""


@dataclass(frozen=True)
class Gaussian(Noise):
    """N(0, s² I) on what moves by 1 in l2; deviation: s. Balle, Wang 2018, Theorem 8."""

    deviation: float

    @property
    def size(self) -> float:
        return self.deviation

    def scaled(self, factor: float) -> Self:
        return replace(self, deviation=self.deviation * factor)

    def profile(self, epsilon: np.ndarray) -> np.ndarray:
        from scipy.special import log_ndtr

        half, far = 0.5 / self.deviation, epsilon * self.deviation
        return np.exp(log_ndtr(half - far)) - np.exp(epsilon + log_ndtr(-half - far))

    def log_ratio(self, released: np.ndarray) -> np.ndarray:
        return (released - 0.5) / self.deviation**2

    def pair(self, share: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as losses

        return _rounded_down(losses.from_gaussian_mechanism, self.deviation, share)


@dataclass(frozen=True)
class Laplace(Noise):
    """Laplace noise on all numbers of what moves by 1 in l1; scale: of a number's noise.

    Nothing moved by 1 in l1 loses more than a single number that does: moves follow one another,
    number by number, and tests between shifts of log-concave noise are thresholds (Dong, Roth, Su
    2022, on group privacy).
    """

    scale: float

    @property
    def size(self) -> float:
        return self.scale

    def scaled(self, factor: float) -> Self:
        return replace(self, scale=self.scale * factor)

    def profile(self, epsilon: np.ndarray) -> np.ndarray:
        return np.maximum(-np.expm1((epsilon - 1 / self.scale) / 2), 0.0)

    def log_ratio(self, released: np.ndarray) -> np.ndarray:
        return (np.abs(released) - np.abs(released - 1)) / self.scale

    def pair(self, share: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as losses

        return _rounded_down(losses.from_laplace_mechanism, self.scale, share)


@dataclass(frozen=True)
class Binomial(Noise):
    """Numbers are rounded at random to a lattice, then moved by Bin(trials, ½) − trials/2 of it.

    What is rounded moves by `steps` of the lattice in l1, over `dimension` numbers. Who also sees
    how it was rounded knows by how many steps N the rounded numbers differ: a sum of independent
    coins, and a constant, whose mean is `steps`. N steps in many numbers lose no more than in one,
    as with `Laplace`. δ is a mean over N, and largest where all coins but those that are certain
    have one probability (Hoeffding 1956, Corollary 2.1): all such N are tried.
    """

    trials: int
    steps: int
    dimension: int

    @property
    def size(self) -> float:
        return self.trials**0.5 / 2 / self.steps

    def scaled(self, factor: float) -> Self:
        return replace(self, trials=round(self.trials * factor**2))

    def profile(self, epsilon: np.ndarray) -> np.ndarray:
        knots, deltas = self._knots
        # Convex in e^ε, so that chords lie above.
        return np.interp(np.exp(epsilon), np.exp(knots), deltas)

    @cached_property
    def _knots(self) -> tuple[np.ndarray, np.ndarray]:
        from scipy.stats import binom

        knots = np.append(np.linspace(0, 1, 200), np.linspace(1, _FAR, 400)[1:])
        most = self.steps + ceil(12 * self.steps**0.5 + 12)
        by_steps = np.array([self._shifted(n, knots) for n in range(most + 1)])
        best = by_steps[self.steps]
        for certain in range(max(0, self.steps - self.dimension), self.steps):
            left = self.steps - certain
            coins = np.arange(left, self.dimension + 1)[:, None]
            chance = binom.pmf(np.arange(most + 1 - certain), coins, left / coins)
            found = chance @ by_steps[certain:] + np.maximum(1 - chance.sum(1), 0)[:, None]
            best = np.maximum(best, found.max(axis=0))
        return knots, np.minimum(best, 1.0)

    def _shifted(self, steps: int, epsilon: np.ndarray) -> np.ndarray:
        """(ε,) δ of one number that is moved by so many steps."""
        from scipy.stats import binom

        if steps == 0:
            return np.zeros_like(epsilon)
        heads = self._log_mass
        # P over P moved by `steps` falls in the number of heads: a test is a threshold.
        loss = np.full(len(heads), np.inf)
        loss[steps:] = heads[steps:] - heads[:-steps]
        last = len(loss) - 1 - np.searchsorted(loss[::-1], epsilon, side="right")
        low, high = (binom.cdf(at, self.trials, 0.5) for at in (last, last - steps))
        return np.maximum(low - np.exp(epsilon) * high, 0.0)

    @cached_property
    def _log_mass(self) -> np.ndarray:
        from scipy.stats import binom

        return np.asarray(binom.logpmf(np.arange(self.trials + 1), self.trials, 0.5))

    def log_ratio(self, released: np.ndarray) -> np.ndarray:
        heads = np.rint(released * self.steps + self.trials / 2).astype(int)
        at_0, at_1 = self._log_mass_at(heads), self._log_mass_at(heads - self.steps)
        with np.errstate(invalid="ignore"):
            return np.asarray(at_1 - at_0)

    def _log_mass_at(self, heads: np.ndarray) -> np.ndarray:
        inside = (heads >= 0) & (heads <= self.trials)
        return np.where(inside, self._log_mass[heads.clip(0, self.trials)], -np.inf)

    def pair(self, share: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as losses

        heads = np.arange(self.trials + self.steps + 1)
        at_0, at_1 = self._log_mass_at(heads), self._log_mass_at(heads - self.steps)
        with np.errstate(divide="ignore"):
            mixed = np.logaddexp(np.log1p(-share) + at_0, log(share) + at_1)
        with np.errstate(over="ignore"):
            return losses.from_two_probability_mass_functions(
                dict(enumerate(at_0.tolist())),
                dict(enumerate(mixed.tolist())),
                pessimistic_estimate=False,
                value_discretization_interval=_GRID,
            )


def _rounded_down(mechanism: Callable[..., Any], size: float, share: float) -> Any:
    """The losses of a mechanism of dp-accounting's, from below."""
    return mechanism(
        size,
        sampling_prob=share,
        pessimistic_estimate=False,
        value_discretization_interval=_GRID,
        use_connect_dots=False,  # which rounds up only
    )


def tight_epsilon(releases: Iterable[tuple[Noise, int]], delta: float, share: float = 1.0) -> float:
    """ε at δ of so many releases of each noise, each of which draws this share of the samples."""
    return float(_composed(releases, share).get_epsilon_for_delta(delta))


def most_detected(
    releases: Iterable[tuple[Noise, int]], mistaken: float, share: float = 1.0
) -> float:
    """The largest share of runs on one data set that any test can assign to it.

    mistaken: the share of runs on an adjacent one that it also assigns to the first.
    """
    epsilon = np.linspace(0, _FAR, 3001)
    deltas = np.array(_composed(releases, share).get_delta_for_epsilon(epsilon))
    return float(min(1.0, (np.exp(epsilon) * mistaken + deltas).min()))


def _composed(releases: Iterable[tuple[Noise, int]], share: float) -> Any:
    parts = [_losses(noise, share).self_compose(count) for noise, count in releases]
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total


def pair_epsilon(noise: Noise, releases: int, delta: float, share: float = 1.0) -> float:
    """ε at δ of the pair of which one sample moves all releases that draw it by 1; from below."""
    return float(noise.pair(share).self_compose(releases).get_epsilon_for_delta(delta))


def smallest_noise(spent: Callable[[float], float], epsilon: float) -> float:
    """The smallest noise of four digits that spends ε at most; `spent` falls in the noise."""
    low, high = 0.0, 1.0
    while spent(high) > epsilon:
        low, high = high, 2 * high
    digit = 10.0 ** (floor(log10(high)) - 4)
    while high - low > digit:
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) > epsilon else (low, middle)
    digit = 10.0 ** (floor(log10(high)) - 3)
    return float(f"{ceil(high / digit) * digit:.4g}")


def _losses(noise: Noise, share: float) -> Any:
    """Losses of one release, rounded up to a grid."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as losses

    def sampled(epsilon: np.ndarray) -> np.ndarray:
        # ln(1 + (e^ε − 1)/share) without overflow.
        inner = epsilon + np.log1p(-(1 - share) * np.exp(-epsilon)) - log(share)
        return share * noise.profile(inner)

    last = next(end for end in _ENDS if end == _FAR or sampled(np.array([end]))[0] <= _NOTHING)
    count = ceil(last / _GRID)
    above = np.arange(count + 1) * _GRID
    right = sampled(above)
    left = -np.expm1(-above[:0:-1]) + np.exp(-above[:0:-1]) * right[:0:-1]
    deltas = np.minimum.accumulate(np.clip(np.append(left, right), 0.0, 1.0))
    mass = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(_GRID, -count, count, deltas)
    return losses.PrivacyLossDistribution(mass)


_GRID = 1e-3  # of privacy losses
_FAR = 30.0  # losses beyond count as infinite
_ENDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, _FAR)
_NOTHING = 1e-13  # a δ that is left out: counted as an infinite loss
