"""Costs and levels of runs, by seed: levels at equal cost, and costs to a level.

A level is the decimal logarithm of a measurement's distance to its best value, 0 or 1; smaller is
better. A diverged seed has level +inf. Between records curves are straight lines; nothing is
extrapolated: a cost beyond a seed's last record has no level.

Some measurements hide that a run went astray: the gradient of the robust loss is small far away.
So a record whose objective lies above that of the start counts as no better than the start. A seed
that is there at the end of the judged budget is lost.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.quantities import (
    BYTES,
    COSTS,
    LARGER_IS_BETTER,
    MEASUREMENTS,
    OPTIMUM_ACCURACY,
    DeclaredNetwork,
    counts_all_bytes,
    declared_network,
    link_latencies,
)

if TYPE_CHECKING:
    import xarray as xr

#: A run's records. Plans import this module and do without xarray.
Trace: TypeAlias = "xr.Dataset"
# Exact zeros have a level too, one that does not decide a mean alone.
_SMALLEST = float(np.finfo(np.float64).eps)
# Likewise for perfect records: below a million samples no error rate is smaller.
_SMALLEST_DISTANCE_TO_ONE = 1e-6


def specification(trace: Trace) -> dict[str, Any]:
    """Read the specification of the run that made the trace, as its experiment declared it."""
    declared: dict[str, Any] = json.loads(trace.attrs["specification"])
    return declared


def rounds_of(trace: Trace) -> int:
    """How many rounds a run takes; of one that a budget or a target ends, its longest seed."""
    declared = specification(trace)
    rounds: int = declared["rounds"]
    if not declared.get("until"):
        return rounds
    last = trace.variables["round"].to_numpy()[~diverged(trace)]
    return int(last.max()) if last.size else rounds


def column(trace: Trace, name: str) -> np.ndarray:
    """A cost or measurement by record, (seeds, records); one that the run lacks is an error."""
    if name not in trace:
        known = [known for known in (*COSTS, *MEASUREMENTS) if known in trace]
        raise FedatlasError(
            f"run '{trace.attrs['run']}' has no '{name}': name one that it has in figure, "
            f"selection and claims: {', '.join(known)}"
        )
    # A variable is at hand, without the many coordinates of an array.
    variable = trace.variables[name]
    if variable.dims != ("seed", "record"):
        variable = variable.transpose("seed", "record")
    return variable.to_numpy()


def cost_axis(trace: Trace, cost: str) -> np.ndarray:
    """Cost by record, (seeds, records), NaN after a divergence.

    "bytes" are those of all directions. "exchanges" are communication rounds. Those of parties only
    schedule records, so their dominated updates count: each is an exchange of a dominator with all
    others.
    """
    latencies = link_latencies(cost)
    if latencies is not None:
        # Sequential trips and steps add up: clients of one hub, hubs and silos work at the same
        # time. A round of Q steps has two round trips between a hub and its clients and one between
        # hubs: t_Q = 3 t_comm + Q t_comp, t_comp = 1 (TDCD section 5.2).
        return (
            latencies.hub_client * column(trace, "hub_client_trips")
            + latencies.hub_hub * column(trace, "hub_hub_trips")
            + column(trace, "iteration")
        )
    network = declared_network(cost)
    if network is not None:
        return network_time(trace, network)
    if cost == "bytes":
        parts = [name for name in BYTES if name in trace and "bytes" not in trace]
        return np.sum([column(trace, name) for name in parts or ["bytes"]], axis=0)
    if cost == "exchanges":
        return column(trace, "iteration" if "update_epoch" in trace else "round")
    return column(trace, cost)


def is_counted(trace: Trace, cost: str) -> bool:
    """Whether a trace has what a cost axis needs."""
    if link_latencies(cost) is not None:
        return "hub_client_trips" in trace
    if declared_network(cost) is not None:
        return has_own_clock(trace) or "sequential_messages" in trace
    if cost == "bytes":
        return counts_all_bytes({*map(str, trace.variables)})
    return cost == "exchanges" or cost in trace


def has_own_clock(trace: Trace) -> bool:
    """Whether all time was simulated event by event, as for parties.

    Other runs on a network of their own have critical-path totals besides, or do not wait for each
    other.
    """
    if "simulated_time" not in trace or "foreign" in trace.attrs:
        return False
    return "seconds_per_gradient" not in (specification(trace)["network"] or {})


def network_time(trace: Trace, network: DeclaredNetwork) -> np.ndarray:
    """Seconds by record, (seeds, records), of a run of any method under a declared network.

    Critical-path totals add up: a latency for each message, the bytes of the busiest node over its
    bandwidth, and per-sample gradients. Asynchronous methods have no such totals: their time is the
    clock of their own simulation, `simulated_time`, which must have had the same latency. There,
    gradients take what passes over features take, and small messages no bandwidth.

    Raises FedatlasError for a clock with another latency, and for traces that lack the counts.
    """
    if not has_own_clock(trace):
        return (
            network.latency * column(trace, "sequential_messages")
            + column(trace, "sequential_bytes") / network.bandwidth
            + network.gradient * column(trace, "sequential_gradients")
        )
    own = own_latency(trace)
    if own != network.latency:
        raise FedatlasError(
            f"run '{trace.attrs['run']}' has a clock of its own, with the latency {own:g} s, "
            f"not {network.latency:g} s: state that latency, or run it again with 'network: "
            f"{{latency: {network.latency:g}}}'"
        )
    return column(trace, "simulated_time")


def own_latency(trace: Trace) -> float:
    """The latency in seconds of a run's own clock."""
    # No more of it is looked at: traces that were published long ago may state keys of that time.
    declared = specification(trace)["network"] or {}
    return float(declared.get("latency", NetworkModel().latency))


def smallest(measurement: str) -> float:
    """Values of a measurement that are this close to the best one are not distinguished."""
    if measurement in LARGER_IS_BETTER:
        return _SMALLEST_DISTANCE_TO_ONE
    return OPTIMUM_ACCURACY if measurement == "suboptimality" else _SMALLEST


def shown_floor(measurement: str) -> float:
    """The value below which figures and tables cut off; −inf where they show all values."""
    return smallest(measurement) if measurement == "suboptimality" else -np.inf


def log_target(measurement: str, target: float) -> float:
    """The level of a value in units of the measurement, such as an AUROC of 0.93."""
    return float(np.log10(_distance(measurement, target)))


def value_at(measurement: str, level: float) -> float:
    """The value of the measurement that has this level."""
    return float(_distance(measurement, 10**level))


def _distance(measurement: str, values: Any) -> Any:
    """From values to distances to the best value, or back."""
    return 1 - values if measurement in LARGER_IS_BETTER else values


def log_measurement(trace: Trace, measurement: str, target: float = np.inf) -> np.ndarray:
    """Levels by record, (seeds, records); smaller is better, that of the start where it ends worse.

    target: a level that may lie below `smallest`. Values are then told apart as far down as it,
    but for sub-optimality, which is known no better.
    """
    distances = _distance(measurement, column(trace, measurement))
    floor = np.log10(smallest(measurement))
    if measurement != "suboptimality":
        floor = min(floor, target)
    with np.errstate(divide="ignore"):
        levels = np.maximum(np.log10(np.maximum(distances, 0.0)), floor)
    return np.where(worse_than_start(trace, measurement), np.maximum(levels, levels[:, :1]), levels)


def sign_of(measurement: str) -> int:
    """The sign that turns values into losses."""
    return -1 if measurement in LARGER_IS_BETTER else 1


def drawn_values(trace: Trace, measurement: str) -> np.ndarray:
    """Values by record as figures show them: sub-optimality ends at the accuracy of the optimum."""
    return np.maximum(column(trace, measurement), shown_floor(measurement))


def worse_than_start(trace: Trace, measurement: str) -> np.ndarray:
    """(seeds, records) where the measurement hides that the objective is above its start.

    Accuracy and AUROC say themselves how good a model is, wherever it is.
    """
    return above_start(trace) & (measurement not in LARGER_IS_BETTER)


def above_start(trace: Trace) -> np.ndarray:
    """(seeds, records) whether the objective lies above its value at the start.

    Runs made elsewhere may not measure it.
    """
    if "foreign" in trace.attrs and "objective" not in trace:
        return np.zeros((trace.sizes["seed"], trace.sizes["record"]), bool)
    objective = column(trace, "objective")
    return objective > objective[:, :1]


def diverged(trace: Trace) -> np.ndarray:
    """(seeds,) whether the seed's run diverged."""
    status: np.ndarray = trace.variables["status"].to_numpy()
    return status != "ok"


def common_budget(traces: Sequence[Trace], cost: str) -> float:
    """The largest cost that every healthy seed of every trace reached; 0 if there is none."""
    ends = np.concatenate([cost_axis(trace, cost)[~diverged(trace), -1] for trace in traces])
    return float(ends.min()) if len(ends) else 0.0


def common_start(traces: Sequence[Trace], cost: str, record: int = 0) -> float:
    """The smallest cost by which every healthy seed of every trace has a record; or 0.

    record: place of that record; of a shorter trace the last counts.
    """
    places = [min(record, trace.sizes["record"] - 1) for trace in traces]
    starts = np.concatenate(
        [
            cost_axis(trace, cost)[~diverged(trace), place]
            for trace, place in zip(traces, places, strict=True)
        ]
    )
    return float(starts.max()) if len(starts) else 0.0


def common_costs(trace: Trace, cost: str) -> np.ndarray:
    """Costs at which every healthy seed has a value: medians over seeds by record.

    Clipped to the cost at which the first of these seeds ends. Empty if no seed is healthy, or if
    the cost is unbounded, such as the ε of a run without noise.
    """
    costs = cost_axis(trace, cost)[~diverged(trace)]
    if not len(costs) or np.isinf(costs[:, -1]).any():
        return np.empty(0)
    clipped: np.ndarray = np.minimum(np.median(costs, axis=0), costs[:, -1].min())
    return clipped


def mean_along(trace: Trace, measurement: str, cost: str, start: float, end: float) -> np.ndarray:
    """(seeds,) mean of the measurement over costs from start to end; NaN for a diverged seed.

    The area under straight lines through the records over the length of the base, which must lie
    within what every healthy seed recorded.
    """
    return _means(trace, cost, column(trace, measurement), start, end)


def reached(trace: Trace, measurement: str, cost: str, budget: float, window: float) -> np.ndarray:
    """(seeds,) mean level over the last `window` share of the budget, +inf for a lost seed.

    As `mean_along`, so that it does not depend on how often a run was recorded.
    """
    start = max((1 - window) * budget, common_start([trace], cost))
    levels = log_measurement(trace, measurement)
    means = _means(trace, cost, levels, min(start, budget), budget)
    lost = np.isnan(means)
    if measurement not in LARGER_IS_BETTER:
        objective = column(trace, "objective")
        lost |= _means(trace, cost, objective, budget, budget) > objective[:, 0]
    return np.where(lost, np.inf, means)


def _means(trace: Trace, cost: str, values: np.ndarray, start: float, end: float) -> np.ndarray:
    costs, healthy = cost_axis(trace, cost), ~diverged(trace)
    means = np.full(len(costs), np.nan)
    # Rounds are those of all seeds, which are then done at once.
    alike = healthy.any() and bool((costs[healthy] == costs[healthy][0]).all())
    for seeds in [healthy] if alike else np.flatnonzero(healthy)[:, None]:
        x, rows = costs[seeds][0], values[seeds]
        first, last = np.array([np.interp([start, end], x, row) for row in rows]).T
        if start == end:
            means[seeds] = last
            continue
        inside = (x > start) & (x < end)
        along = np.concatenate([[start], x[inside], [end]])
        heights = np.concatenate([first[:, None], rows[:, inside], last[:, None]], axis=1)
        means[seeds] = np.trapezoid(heights, along) / (end - start)
    return means


class Crossings(NamedTuple):
    """When seeds first reached a target; each (seeds,), the logarithm of a cost.

    cost: read off the straight line of the levels between two records; +inf where none is reached,
    -inf where the start is. before, after: the costs of these two records. A run that ends before
    it arrives would arrive some time after its last record, which is `before`.
    """

    cost: np.ndarray
    before: np.ndarray
    after: np.ndarray

    def closer(self, times: float) -> "Crossings":
        """At the worst if records lay so many times closer; runs that end too early do."""
        if times == 1:
            return self
        arrived = np.isfinite(self.cost) & np.isfinite(self.after)
        cost, before, after = (np.where(arrived, 10**each, 1.0) for each in self)
        width = (after - before) / times
        with np.errstate(divide="ignore"):
            first, last = np.log10(np.maximum(0, cost - width)), np.log10(cost + width)
        return Crossings(
            self.cost, np.where(arrived, first, self.before), np.where(arrived, last, self.after)
        )


def crossings(
    trace: Trace, measurement: str, cost: str, target: float, *, stays: bool = False
) -> Crossings:
    """When each seed first reached the target level; a seed that diverged has reached nothing.

    stays: from when on all its records are at the level.
    """
    levels, costs = log_measurement(trace, measurement, target), cost_axis(trace, cost)
    below = (levels <= target) & ~diverged(trace)[:, None]
    if stays:
        below = np.logical_and.accumulate(below[:, ::-1], axis=1)[:, ::-1]
    found = np.full((3, len(levels)), np.inf)
    arrives = below.any(axis=1)
    ends = ~arrives & ~diverged(trace)
    with np.errstate(divide="ignore"):
        found[1, ends] = np.log10(costs[ends, -1])
    for seed in np.flatnonzero(arrives):
        record = int(below[seed].argmax())
        if record == 0:
            found[:, seed] = -np.inf
            continue
        (x0, x1), (y0, y1) = (rows[seed, record - 1 : record + 1] for rows in (costs, levels))
        share = (y0 - target) / (y0 - y1) if np.isfinite(y0) else 1.0
        # An unbounded cost, such as ε without noise, has no line.
        at = x0 + share * (x1 - x0) if np.isfinite(x1) else x1
        with np.errstate(divide="ignore"):
            found[:, seed] = np.log10([at, x0, x1])
    return Crossings(*found)


def best_by_others(found: Sequence[Crossings]) -> tuple[Crossings, np.ndarray]:
    """Each seed's crossing at the point where the other seeds arrive first, in the median.

    No seed chooses for itself. Also returns (seeds,) places of the points. A point that the median
    of the others never arrives at is chosen only where there is no better one.
    """
    costs = np.stack([each.cost for each in found])
    seeds = costs.shape[1]
    chosen = np.zeros(seeds, dtype=np.int64)
    if len(costs) > 1 and seeds > 1:
        for seed in range(seeds):
            others = np.delete(costs, seed, axis=1)
            # The higher one of two in the middle: a mean of infinities would have no value.
            middle = np.sort(others, axis=1)[:, others.shape[1] // 2]
            chosen[seed] = int(middle.argmin())
    places = np.arange(seeds)
    of_points = [np.stack(each) for each in zip(*found, strict=True)]
    return Crossings(*(each[chosen, places] for each in of_points)), chosen


def cost_to_reach(trace: Trace, measurement: str, cost: str, target: float) -> np.ndarray:
    """(seeds,) cost at which each seed first reached the target level; +inf where none did.

    A start that meets the target costs as much as the record after it, as ratios need a cost.
    """
    found = crossings(trace, measurement, cost, target).cost
    return np.where(np.isneginf(found), cost_axis(trace, cost)[:, 1], 10.0**found)


def common_target(traces: Sequence[Trace], measurement: str) -> float:
    """The best level that the medians over seeds of all traces reach; diverged seeds are +inf."""
    lowest = [best_level(trace, measurement) for trace in traces]
    # A run whose seeds mostly diverged reaches no level: the other sets the target.
    return max(filter(np.isfinite, lowest), default=-np.inf)


def best_level(trace: Trace, measurement: str) -> float:
    """The best level that the median over seeds reaches; +inf if most seeds diverged."""
    lost = diverged(trace)[:, None]
    levels = np.where(lost, np.inf, log_measurement(trace, measurement))
    return float(np.median(levels, axis=0).min())


def mean_interval(values: np.ndarray) -> tuple[float, float, float]:
    """The mean and its 95 % t-interval, for figures and tables; infinite below two numbers."""
    if len(values) == 0:
        return np.nan, -np.inf, np.inf
    mean = float(values.mean())
    if len(values) < 2:
        return mean, -np.inf, np.inf
    if (values == values[0]).all():  # whose mean is rounded
        return float(values[0]), float(values[0]), float(values[0])
    # scipy.stats would load for longer than most judgements take.
    from scipy.special import stdtrit

    with np.errstate(over="ignore"):  # of values near the largest number
        standard_error = np.std(values, ddof=1) / np.sqrt(len(values))
    half = float(stdtrit(len(values) - 1, 0.975) * standard_error)
    return mean, mean - half, mean + half


def until(trace: Trace, share: float) -> Trace:
    """The records of the first share of the rounds."""
    if share == 1:
        return trace
    reached_rounds = np.fmax.reduce(column(trace, "round"), axis=0)
    kept = int((reached_rounds <= share * rounds_of(trace) * (1 + 1e-9)).sum())
    return trace.isel(record=slice(0, kept))


def running_means(rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(seeds, records) means along the rounds up to each record, by straight lines."""
    pieces = np.diff(rounds, axis=1) * (values[:, 1:] + values[:, :-1]) / 2
    means = values.copy()
    means[:, 1:] = np.cumsum(pieces, axis=1) / (rounds[:, 1:] - rounds[:, :1])
    return means


def mean_squares(trace: Trace, measurement: str) -> np.ndarray:
    """(seeds, records) means of the square along all rounds so far."""
    return running_means(column(trace, "round"), column(trace, measurement) ** 2)
