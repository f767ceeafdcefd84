"""What a trace reached: per-seed levels at equal cost, cost to a target, intervals over seeds.

A level is the decimal logarithm of a measurement's distance to its best value, 0 or 1; smaller is
better. A diverged seed has level +inf. Nothing is extrapolated: a cost beyond a seed's last record
has no level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace, column, cost_axis
from fedatlas.schema.claims import Outcome
from fedatlas.schema.measurements import LARGER_IS_BETTER

CONFIDENCE = 0.95
# Exact zeros have a level too, one that does not decide a mean alone.
_SMALLEST = float(np.finfo(np.float64).eps)
# f* is known to 1e-10; a difference from it may be smaller, or negative, by rounding.
_SMALLEST_SUBOPTIMALITY = 1e-10
# Likewise for perfect records: below a million samples no error rate is smaller.
_SMALLEST_DISTANCE_TO_ONE = 1e-6
ROUNDING = 1e-12  # levels closer than this are equal


def smallest(measurement: str) -> float:
    """The distance to its best value below which a measurement's values are not told apart."""
    if measurement in LARGER_IS_BETTER:
        return _SMALLEST_DISTANCE_TO_ONE
    return _SMALLEST_SUBOPTIMALITY if measurement == "suboptimality" else _SMALLEST


def log_target(measurement: str, target: float) -> float:
    """The level of a value in units of the measurement, such as an AUROC of 0.93."""
    return float(np.log10(_distance(measurement, target)))


def value_at(measurement: str, level: float) -> float:
    """The value of the measurement that has this level."""
    return float(_distance(measurement, 10**level))


def _distance(measurement: str, values: Any) -> Any:
    """From values to distances to the best value, or back."""
    return 1 - values if measurement in LARGER_IS_BETTER else values


def log_measurement(trace: Trace, measurement: str) -> np.ndarray:
    """Levels by record, (seeds, records); smaller is better, +inf where deceptive."""
    distances = _distance(measurement, column(trace, measurement))
    levels = np.log10(np.maximum(distances, smallest(measurement)))
    return np.where(deceptive(trace, measurement), np.inf, levels)


def drawn_values(trace: Trace, measurement: str) -> np.ndarray:
    """Values by record as figures show them: sub-optimality ends at the accuracy of the optimum."""
    floor = smallest(measurement) if measurement == "suboptimality" else -np.inf
    return np.maximum(column(trace, measurement), floor)


def deceptive(trace: Trace, measurement: str) -> np.ndarray:
    """(seeds, records) where the measurement hides that the objective is above its start.

    A run that left has not converged, however small its gradient (the robust loss is flat far
    away). Accuracy and AUROC say themselves how good a model is, wherever it is.
    """
    return above_start(trace) & (measurement not in LARGER_IS_BETTER)


def above_start(trace: Trace) -> np.ndarray:
    """(seeds, records) whether the objective stands above where it started."""
    objective = column(trace, "objective")
    return objective > objective[:, :1]


def diverged(trace: Trace) -> np.ndarray:
    """(seeds,) whether the seed's run diverged."""
    return trace["status"].to_numpy() != "ok"


def common_budget(traces: list[Trace], cost: str) -> float:
    """The largest cost that every healthy seed of every trace reached; 0 if there is none."""
    ends = np.concatenate([cost_axis(trace, cost)[~diverged(trace), -1] for trace in traces])
    return float(ends.min()) if len(ends) else 0.0


def common_start(traces: list[Trace], cost: str) -> float:
    """The smallest cost by which every healthy seed of every trace has a record; or 0."""
    starts = np.concatenate([cost_axis(trace, cost)[~diverged(trace), 0] for trace in traces])
    return float(starts.max()) if len(starts) else 0.0


def mean_along(trace: Trace, measurement: str, cost: str, start: float, end: float) -> np.ndarray:
    """(seeds,) mean of the measurement over costs from start to end; NaN for a diverged seed.

    The area under straight lines through the records over the length of the base, which must lie
    within what every healthy seed recorded.
    """
    costs, values = cost_axis(trace, cost), column(trace, measurement)
    means = np.full(len(costs), np.nan)
    for seed in np.flatnonzero(~diverged(trace)):
        inside = (costs[seed] > start) & (costs[seed] < end)
        first, last = np.interp([start, end], costs[seed], values[seed])
        x = np.concatenate([[start], costs[seed, inside], [end]])
        y = np.concatenate([[first], values[seed, inside], [last]])
        means[seed] = np.trapezoid(y, x) / (end - start)
    return means


def reached(trace: Trace, measurement: str, cost: str, budget: float, window: float) -> np.ndarray:
    """(seeds,) mean level over the records in the last `window` share of the budget.

    If no record lies there, the last one within the budget counts.
    """
    costs, values = cost_axis(trace, cost), log_measurement(trace, measurement)
    levels = np.full(len(costs), np.inf)
    for seed in np.flatnonzero(~diverged(trace)):
        within = costs[seed] <= budget
        late = within & (costs[seed] > (1 - window) * budget)
        if not late.any():
            late = np.arange(len(within)) == np.flatnonzero(within)[-1]
        levels[seed] = values[seed, late].mean()
    return levels


def cost_to_reach(trace: Trace, measurement: str, cost: str, target: float) -> np.ndarray:
    """(seeds,) cost of the first record at or below the target level; +inf where none is.

    A seed that diverged has reached nothing, however low it came before. A start that meets the
    target costs as much as the record after it, as ratios need a cost.
    """
    below = log_measurement(trace, measurement) <= target
    first = np.maximum(below.argmax(axis=1), 1)
    costs = cost_axis(trace, cost)[np.arange(len(below)), first]
    return np.where(below.any(axis=1) & ~diverged(trace), costs, np.inf)


def log_cost_to_reach(
    traces: Sequence[Trace], measurement: str, cost: str, target: float
) -> list[np.ndarray]:
    """For each trace (seeds,) the logarithm of what `cost_to_reach` returns."""
    return [np.log10(cost_to_reach(trace, measurement, cost, target)) for trace in traces]


def lowest_median(trace: Trace, measurement: str) -> float:
    """The lowest level that the median over seeds reaches; diverged seeds count as +inf."""
    values = np.where(diverged(trace)[:, None], np.inf, log_measurement(trace, measurement))
    return float(np.median(values, axis=0).min())


def common_target(traces: Sequence[Trace], measurement: str, stated: float | None = None) -> float:
    """The level of a stated target, otherwise the best that the medians of all traces reach."""
    if stated is not None:
        return log_target(measurement, stated)
    lowest = [lowest_median(trace, measurement) for trace in traces]
    # A run whose seeds mostly diverged reaches no level: the other sets the target.
    return max((level for level in lowest if np.isfinite(level)), default=-np.inf)


@dataclass(frozen=True)
class Interval:
    """A difference and its 95 % interval, infinite where seeds were lost.

    The centre is NaN where no pair of seeds has a difference.
    """

    centre: float
    low: float
    high: float

    def verdict(self, low: float, high: float) -> Outcome:
        """`reproduced` inside [low, high), `not reproduced` outside, else `inconclusive`.

        The upper border is outside: a tie is not "faster".
        """
        if low <= self.low and self.high < high:
            return "reproduced"
        if self.high < low or self.low > high:
            return "not reproduced"
        return "inconclusive"


def difference(first: np.ndarray, second: np.ndarray) -> Interval:
    """Paired t-interval of mean(first − second), seed against the same seed.

    Runs under one seed share draws where they draw alike (clients, full rounds), so their levels
    are correlated; pairing is valid whether they are or not. Infinite entries (diverged or never
    reached) are worse than any number. If one side has some, the interval has no bound on that
    side; if one side has nothing else and the other none, the difference is infinite. One seed
    tells of no spread.
    """
    if len(first) != len(second):
        raise FedatlasError(
            f"runs with {len(first)} and {len(second)} seeds cannot be compared by seed"
        )
    lost_first, lost_second = np.isinf(first), np.isinf(second)
    whole = ~(lost_first | lost_second)
    gap, low, high = mean_interval(first[whole] - second[whole])
    if len(first) < 2:
        return Interval(gap, low, high)
    if lost_first.all() and not lost_second.any():
        return Interval(np.inf, np.inf, np.inf)
    if lost_second.all() and not lost_first.any():
        return Interval(-np.inf, -np.inf, -np.inf)
    return Interval(
        gap, -np.inf if lost_second.any() else low, np.inf if lost_first.any() else high
    )


def mean_interval(gaps: np.ndarray) -> tuple[float, float, float]:
    """The mean and the bounds of its t-interval, which are infinite below two numbers."""
    if len(gaps) == 0:
        return np.nan, -np.inf, np.inf
    mean = float(gaps.mean())
    if len(gaps) < 2:
        return mean, -np.inf, np.inf
    if np.ptp(gaps) < ROUNDING:
        # Deterministic: a tie must stay a tie.
        mean = 0.0 if abs(mean) < ROUNDING else mean
        return mean, mean, mean
    # scipy.stats would load for longer than most judgements take.
    from scipy.special import stdtrit

    standard_error = np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    half = float(stdtrit(len(gaps) - 1, (1 + CONFIDENCE) / 2) * standard_error)
    return mean, mean - half, mean + half
