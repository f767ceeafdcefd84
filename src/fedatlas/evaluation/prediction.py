"""Prediction intervals: whether a printed mean is one that runs like ours could have had.

Two means of independent trials are compared by Welch's t. Only the variation of a trial counts:
seeds, and splits where every trial splits anew. The paper split and tested the same rows, so what
these rows happen to be is in both means, and neither the sampling error of a fixed test set nor the
correction of Nadeau and Bengio (2003), which is for other rows, is added.
"""

from dataclasses import dataclass

import numpy as np

from fedatlas.evaluation.comparison import Interval


@dataclass(frozen=True)
class Printed:
    """A printed mean of trials; spread: their standard deviation, where the paper prints it."""

    value: float
    trials: int
    spread: float | None = None


def prediction_interval(ours: np.ndarray, printed: Printed, confidence: float) -> Interval | None:
    """Our mean over trials minus the printed one, which is compatible if the interval holds 0.

    Where one side has no spread, that of the other stands for it. None where neither has any. It
    holds a perfect replication with its confidence; of 95 %, 94 % with three trials beside ten.
    """
    from scipy.special import stdtrit

    count = len(ours)
    own = float(np.var(ours, ddof=1)) if count > 1 else None
    theirs = None if printed.spread is None else printed.spread**2
    if own is not None and theirs is not None:
        parts = own / count, theirs / printed.trials
        error = sum(parts)
        freedom = _welch(parts, (count - 1, printed.trials - 1))
    elif own is not None:
        error, freedom = own * (1 / count + 1 / printed.trials), count - 1.0
    elif theirs is not None:
        error, freedom = theirs * (1 / count + 1 / printed.trials), printed.trials - 1.0
    else:
        return None
    gap = float(ours.mean()) - printed.value
    half = float(stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(error))
    return Interval(gap, gap - half, gap + half)


def _welch(parts: tuple[float, float], freedom: tuple[int, int]) -> float:
    """Degrees of freedom of a sum of two variances of means (Welch 1947)."""
    total = sum(parts)
    if total == 0:
        return float(sum(freedom))
    return total**2 / sum(part**2 / free for part, free in zip(parts, freedom, strict=True))
