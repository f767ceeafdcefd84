"""Claims that what one run saves against another grows from one cost to another."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from fedatlas.evaluation.evidence import Finding, level, ratio, target_name, unit_of
from fedatlas.evaluation.levels import common_target, cost_to_reach, difference
from fedatlas.schema.claims import GapWidensTest


def judge_gap(test: GapWidensTest, first: xr.Dataset, second: xr.Dataset) -> Finding:
    """The ratio of costs to a target under the second cost over that under the first: below 1.

    A seed in which one run never reaches the target leaves its side of the interval open. A run
    that never does in any seed is 0 or infinitely many times as fast under either cost, which
    tells of no gap that widens.
    """
    traces = [first, second]
    target = common_target(traces, test.measurement, test.target)
    near, far = (_log_costs(traces, test.measurement, cost, target) for cost in test.costs)
    interval = difference(*(_growth(*pair) for pair in zip(near, far, strict=True)))
    verdict = interval.verdict(-np.inf, 0.0) if np.isfinite(interval.centre) else "inconclusive"
    told = [
        f"in {unit_of(cost)} {level(test.first, costs[0])}, {level(test.second, costs[1])}, "
        f"{ratio(difference(*costs))}"
        for cost, costs in zip(test.costs, (near, far), strict=True)
    ]
    evidence = (
        f"cost to {target_name(test.measurement, target)}: {'; '.join(told)}; of the ratios, the "
        f"second to the first: {ratio(interval)}, claimed below 1"
    )
    return Finding("", verdict, evidence)


def _log_costs(
    traces: Sequence[xr.Dataset], measurement: str, cost: str, target: float
) -> list[np.ndarray]:
    """For each trace (seeds,), +inf where the target is never reached."""
    return [np.log10(cost_to_reach(trace, measurement, cost, target)) for trace in traces]


def _growth(near: np.ndarray, far: np.ndarray) -> np.ndarray:
    """(seeds,) by how many decades a run's cost grows; +inf where it never arrives."""
    return far - np.where(np.isinf(near), 0.0, near)
