"""Whether runs can be compared at a cost: what all spent of it, and of an ε at which δ it holds.

An ε at δ = 0 holds at every δ. Of others the δ must be equal, seed by seed: none says what another
is worth.
"""

from collections.abc import Sequence

import numpy as np

from fedatlas.evaluation.costs import Trace, cost_axis
from fedatlas.evaluation.evidence import format_cost, unit_of
from fedatlas.evaluation.levels import common_budget, common_start, cost_to_reach, diverged
from fedatlas.evaluation.results import NotTestableError

#: The cost that holds at a δ.
EPSILON = "epsilon"


def shared_range(traces: Sequence[Trace], cost: str, share: float = 1.0) -> tuple[float, float]:
    """The cost by which all runs have a record, and a share of the largest that all reached.

    NotTestableError unless they can be compared there.
    """
    budget, start = common_budget(traces, cost), common_start(traces, cost)
    if why := _why_not_shared(traces, cost, budget):
        raise NotTestableError(why)
    if start >= share * budget:
        raise NotTestableError(
            f"no cost that all spent: one has no record before {format_cost(cost, start)}, one "
            f"ends at {share * budget:.4g}"
        )
    return start, share * budget


def _why_not_shared(traces: Sequence[Trace], cost: str, budget: float) -> str:
    """Why runs cannot be compared at a common budget of a cost, in words; empty if they can."""
    if all(diverged(trace).all() for trace in traces):
        return "every seed diverged"
    if not budget:
        idle = [
            trace.attrs["run"]
            for trace in traces
            if (cost_axis(trace, cost)[~diverged(trace), -1] == 0).any()
        ]
        return f"no cost that all spent: {', '.join(dict.fromkeys(idle))} spent 0 {unit_of(cost)}"
    if not np.isfinite(budget):
        return f"what all spent {unit_of(cost)} has no bound"
    if cost == EPSILON:
        return why_no_common_delta(
            [(trace.attrs["run"], delta_at(trace, budget)) for trace in traces]
        )
    return ""


def format_common_cost(traces: Sequence[Trace], cost: str, budget: float) -> str:
    """A cost that all runs spent, with its unit and δ."""
    told = format_cost(cost, budget)
    if cost != EPSILON:
        return told
    return told + format_delta(common_delta([delta_at(trace, budget) for trace in traces]))


def delta_at(trace: Trace, epsilon: float) -> np.ndarray:
    """(seeds,) the δ at which an ε holds by the time it is spent; NaN of a diverged seed."""
    seeds = zip(cost_axis(trace, EPSILON), cost_axis(trace, "delta"), strict=True)
    found = np.array([np.interp(epsilon, *records) for records in seeds])
    return np.where(diverged(trace), np.nan, found)


def delta_to_reach(trace: Trace, measurement: str, target: float) -> np.ndarray:
    """(seeds,) the δ at which the ε holds that it takes to reach a level; NaN where none does."""
    found = cost_to_reach(trace, measurement, "delta", target)
    return np.where(np.isfinite(found), found, np.nan)


def common_delta(deltas: Sequence[np.ndarray]) -> float | None:
    """The δ at which the ε of all runs hold; None if there is none.

    deltas: by run and seed. The ε of a run hold at the largest δ of its seeds.
    """
    above_0 = [own for own in deltas if largest_delta(own) > 0]
    if not above_0:
        return 0.0
    first, *others = above_0
    same = (
        own.shape == first.shape and np.allclose(own, first, rtol=1e-9, atol=0.0, equal_nan=True)
        for own in others
    )
    return largest_delta(first) if all(same) else None


def why_no_common_delta(deltas: Sequence[tuple[str, np.ndarray]]) -> str:
    """That the ε of runs hold at different δ, in words; empty if they can be compared."""
    if common_delta([own for _, own in deltas]) is not None:
        return ""
    told = [f"{run} at δ = {largest_delta(own):.3g}" for run, own in deltas]
    return f"not comparable: ε holds for {', '.join(told)}"


def format_delta(delta: float | None) -> str:
    """The δ at which an ε holds; empty of δ = 0, at which it needs no words."""
    return f" at δ = {delta:.3g}" if delta else ""


def largest_delta(deltas: np.ndarray) -> float:
    """Of seeds, some of which may have none."""
    return float(deltas[np.isfinite(deltas)].max(initial=0.0))
