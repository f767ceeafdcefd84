"""Lower bounds of ε from attacks that rank runs on two adjacent data sets."""

from math import log
from typing import Any, NamedTuple

import numpy as np

from fedatlas.arithmetic.randomness import RoundRandom


class Attack(NamedTuple):
    """The outcome of one attack.

    lower_bound: of the true ε, 0 if the attack shows nothing. detected, mistaken: shares of runs on
    the first and on the second data set that the attacker assigns to the first.
    """

    lower_bound: float
    detected: float
    mistaken: float


def columns_of(found: Attack | None, runs: int | None) -> dict[str, Any]:
    """An attack in a row of a table of pairs; its columns are empty without one."""
    return {
        "audited_epsilon": found.lower_bound if found else None,
        "detected": found.detected if found else None,
        "mistaken": found.mistaken if found else None,
        "runs": runs if found else None,
    }


def random_of(seed: int, number: int) -> RoundRandom:
    """The randomness of the runs on the first or second data set."""
    return RoundRandom(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))


def lower_bound(
    first: np.ndarray, second: np.ndarray, confidence: float, delta: float = 0.0
) -> Attack:
    """A lower bound of ε, and the shares of runs on either data set above the threshold.

    first, second: (runs,) the attacker's scores. P(score > t) of the first is at most e^ε times
    that of the second, plus δ.
    """
    half = len(first) // 2
    thresholds = np.quantile(np.concatenate([first[:half], second[:half]]), _QUANTILES)
    hits, misses = (
        np.array([(part[:half] > t).sum() for t in thresholds]) for part in (first, second)
    )
    threshold = thresholds[int(np.argmax(_bounds(hits, misses, half, confidence, delta)))]
    detected, mistaken = first[half:] > threshold, second[half:] > threshold
    hits, misses = (part.sum(keepdims=True) for part in (detected, mistaken))
    (bound,) = _bounds(hits, misses, len(detected), confidence, delta)
    return Attack(bound, float(detected.mean()), float(mistaken.mean()))


def _bounds(
    hits: np.ndarray, misses: np.ndarray, runs: int, confidence: float, delta: float
) -> list[float]:
    """ln((p − δ)/q) with p from below and q from above, by Clopper and Pearson; at least 0.

    hits, misses: (thresholds,) how many of so many runs on either data set are above.
    """
    from scipy.stats import beta

    error = (1 - confidence) / 2  # of either
    low = np.where(hits > 0, beta.ppf(error, np.maximum(hits, 1), runs - hits + 1), 0.0)
    left = np.maximum(runs - misses, 1)
    high = np.where(misses < runs, beta.ppf(1 - error, misses + 1, left), 1.0)
    both = zip(low.tolist(), high.tolist(), strict=True)
    return [max(0.0, log((p - delta) / q)) if p > delta else 0.0 for p, q in both]


def above(claimed: float) -> float:
    """The least ε that is more than claimed, sums in another order being the same."""
    return claimed * (1 + 1e-9)


_QUANTILES = np.linspace(0.01, 0.9999, 200)
