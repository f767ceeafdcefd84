"""What a trace reached: per-seed levels at equal cost, cost to a target, intervals over seeds.

Levels are decimal logarithms of a positive measurement, smaller being better; a diverged seed has
level +inf. Nothing is extrapolated: a cost beyond a seed's last record has no level.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy import stats

CONFIDENCE = 0.95
_TINY = 1e-300  # stands for an exact zero on a logarithmic axis


def cost_axis(trace: xr.Dataset, cost: str) -> np.ndarray:
    """Cost by record, (seeds, records); "bytes" adds both directions. NaN after a divergence."""
    if cost == "bytes":
        return (trace["bytes_up"] + trace["bytes_down"]).transpose("seed", "record").to_numpy()
    return trace[cost].transpose("seed", "record").to_numpy()


def log_measurement(trace: xr.Dataset, measurement: str) -> np.ndarray:
    """log10 of a measurement by record, (seeds, records)."""
    values = trace[measurement].transpose("seed", "record").to_numpy()
    return np.log10(np.maximum(values, _TINY))


def diverged(trace: xr.Dataset) -> np.ndarray:
    """(seeds,) whether the seed's run diverged."""
    return trace["status"].to_numpy() != "ok"


def common_budget(traces: list[xr.Dataset], cost: str) -> float:
    """The largest cost that every healthy seed of every trace reached."""
    ends = np.concatenate([cost_axis(trace, cost)[~diverged(trace), -1] for trace in traces])
    return float(ends.min(initial=np.inf)) if len(ends) else 0.0


def reached(
    trace: xr.Dataset, measurement: str, cost: str, budget: float, window: float
) -> np.ndarray:
    """(seeds,) mean log10 measurement over the records in the last `window` share of the budget.

    If no record falls there, the last one within the budget counts.
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


def cost_to_reach(trace: xr.Dataset, measurement: str, cost: str, log_target: float) -> np.ndarray:
    """(seeds,) cost of the first record at or below the target; +inf where it is never reached."""
    costs, values = cost_axis(trace, cost), log_measurement(trace, measurement)
    below = values <= log_target
    first = below.argmax(axis=1)
    return np.where(below.any(axis=1), costs[np.arange(len(costs)), first], np.inf)


def lowest_median(trace: xr.Dataset, measurement: str) -> float:
    """The lowest log10 measurement that the median over seeds reaches at any record."""
    values = np.where(diverged(trace)[:, None], np.inf, log_measurement(trace, measurement))
    return float(np.median(values, axis=0).min())


@dataclass(frozen=True)
class Interval:
    """A centre and the bounds of its 95 % interval; infinite where seeds diverged."""

    centre: float
    low: float
    high: float

    def verdict(self, low: float, high: float) -> str:
        """`reproduced` inside [low, high], `not reproduced` outside, else `inconclusive`."""
        if np.isnan([self.low, self.high]).any():
            return "inconclusive"
        if low <= self.low and self.high <= high:
            return "reproduced"
        if self.high < low or self.low > high:
            return "not reproduced"
        return "inconclusive"


def difference(first: np.ndarray, second: np.ndarray) -> Interval:
    """Welch interval of mean(first) − mean(second), seeds being independent samples.

    Infinite entries (diverged or never reached) count as worse than any number: if all of a side
    are, the difference is infinite; if some are, its bound on that side is.
    """
    bad_first, bad_second = np.isinf(first), np.isinf(second)
    if bad_first.all() or bad_second.all():
        if bad_first.all() and bad_second.all():
            return Interval(np.nan, np.nan, np.nan)
        if bad_first.any() and bad_second.any():
            return Interval(np.nan, -np.inf, np.inf)
        value = np.inf if bad_first.all() else -np.inf
        return Interval(value, value, value)
    low, high = _welch(first[~bad_first], second[~bad_second])
    return Interval(
        float(np.median(first) - np.median(second)),
        -np.inf if bad_second.any() else low,
        np.inf if bad_first.any() else high,
    )


def _welch(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    gap = float(first.mean() - second.mean())
    if np.ptp(first) == 0 and np.ptp(second) == 0 and min(len(first), len(second)) > 1:
        return gap, gap  # both deterministic: nothing to estimate
    if min(len(first), len(second)) < 2:
        return np.nan, np.nan
    interval = stats.ttest_ind(first, second, equal_var=False).confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high)
