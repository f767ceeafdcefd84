"""Compare runs of all papers on common axes: costs to a target, measurements at given costs.

Nothing is extrapolated: a target that a seed never reached costs +inf, and a cost beyond the
records of a seed has no measurement. Costs that a run does not count are NaN and listed, no error.
"""

import warnings
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError, similar
from fedatlas.evaluation.ended import why_no_record
from fedatlas.evaluation.levels import (
    column,
    cost_axis,
    cost_to_reach,
    crossings,
    diverged,
    drawn_values,
    has_own_clock,
    is_counted,
    log_target,
    mean_interval,
    own_latency,
    shown_floor,
    smallest,
)
from fedatlas.evaluation.quantities import EPSILON, delta_to_reach, largest_delta
from fedatlas.schema.config import Names, listed
from fedatlas.schema.quantities import (
    AXES,
    LEVELS,
    MEASUREMENTS,
    check_reachable,
    declared_network,
    known_cost,
)
from fedatlas.store.atlas import Atlas, AtlasRun
from fedatlas.store.compared import AtlasComparison, measured

#: By which commands compare where none is named.
USUAL_COSTS = ("exchanges", "bytes", "gradient_evaluations")
# Of runs, over the seeds that did not diverge.
_AT_END = ("final", "final_low", "final_high", "final_median", "final_lowest", "final_highest")


def compare(
    atlas: Atlas | Path | str,
    metric: str,
    cost: str | Sequence[str],
    target: float,
    *,
    experiments: Names = None,
    runs: Names = None,
    all_points: bool = False,
    against: Atlas | Path | str | None = None,
    published: Names = None,
    whole: bool = False,
) -> AtlasComparison:
    """Compare the costs that runs spend until a metric reaches a target.

    atlas: open, or the path of what `open_atlas` opens.
    metric: a measurement that has a best value, such as "suboptimality" or "test_auroc".
    cost: one or several of those that traces count, "bytes", "exchanges", "latency(100)" or
        "network(latency=0.05, bandwidth=1e6, gradient=1e-5)".
    target: in units of the metric; of sub-optimality at least 1e-10, to which f* is known.
    experiments: names or patterns such as "vfb2-*", all by default. runs: names, or experiment/run.
    all_points: whether runs are at all points of their grids, not at the selected one only.
    against: published traces, whose runs of the same problem stand beside ours. published: names or
        patterns of their experiments, all by default.
    whole: whether ours keep all records where published ones are thinned. By default ours are
        thinned in the same way, so that costs are read off alike.

    Raises FedatlasError for unknown names, for a metric that no run measures, and where no
    published run solved the problem of ours.

    >>> asked = "gradient_norm", ["exchanges", "bytes"], 0.1
    >>> fedatlas.compare(ATLAS, *asked, experiments=["vfb2-*"])
    cost to gradient_norm ≤ 0.1: geometric mean (95 % interval)
                           exchanges                bytes   seeds
    run
    VFB²-SVRG  19.9k (16.7k to 23.7k)  3.9M (3.27M to 4.65M)  2 of 2
    FedPAGE       46.8 (41.1 to 53.4)  51.4k (37.1k to 71.1k)  3 of 3
    """
    check_level(metric)
    if not isinstance(target, Real):
        raise FedatlasError(f"target: {target!r} is no number")
    try:
        check_reachable(metric, target)
    except ValueError as error:
        raise FedatlasError(str(error)) from None
    costs = [known_axis(name) for name in (listed(cost) or ())]
    found = measured(
        *(atlas, metric, costs),
        experiments=experiments,
        runs=runs,
        all_points=all_points,
        against=against,
        published=published,
        whole=whole,
    )
    spent = _costs_to_target(found.runs, metric, costs, target)
    if against is not None:
        spent = spent.assign_coords(origin=("run", found.origins))
    told = {"not_comparable": found.refused, "notes": found.notes()}
    return AtlasComparison(spent.assign_attrs(told))


def check_level(metric: str) -> None:
    """FedatlasError for a name that is no measurement with a best value."""
    if metric not in LEVELS:
        known = f"; there are {', '.join(LEVELS)}"
        if metric in MEASUREMENTS:
            raise FedatlasError(f"metric: '{metric}' has no best value to approach{known}")
        close = similar(metric, LEVELS) or known
        raise FedatlasError(f"metric: '{metric}' is no measurement{close}")


def _costs_to_target(
    runs: list[AtlasRun], metric: str, costs: list[str], target: float
) -> xr.Dataset:
    level, seeds = log_target(metric, target), _all_seeds(runs)
    floor = shown_floor(metric)
    spent = np.full((len(runs), len(seeds), len(costs)), np.nan)
    intervals = np.full((3, len(runs), len(costs)), np.nan)
    deltas = np.full((len(runs), len(costs)), np.nan)
    most = np.full_like(deltas, np.nan)
    reached = np.zeros(spent.shape[:2], dtype=bool)
    at_start = np.zeros(len(runs), dtype=int)
    ends = np.full(spent.shape[:2], np.nan)
    final = np.full((6, len(runs)), np.nan)
    left_out: list[str] = []
    for i, run in enumerate(runs):
        own = np.searchsorted(seeds, run.trace["seed"].to_numpy())
        # Which seeds reach it does not depend on the cost; every run counts its records.
        crossed = crossings(run.trace, metric, "round", level).cost
        reached[i, own], at_start[i] = crossed < np.inf, np.isneginf(crossed).sum()
        ends[i, own] = np.where(diverged(run.trace), np.nan, drawn_values(run.trace, metric)[:, -1])
        final[:, i] = *_final_interval(ends[i, own], metric), *_final_range(ends[i, own])
        why = why_no_record(run.trace, metric, level)
        left_out += [f"{run.name}: {name}: {why}" for name in costs if why]
        for j, name in enumerate(costs if not why else ()):
            if not _lacks(run, name, left_out):
                spent[i, own, j] = cost_to_reach(run.trace, metric, name, level)
                intervals[:, i, j] = _interval(spent[i, own, j])
                most[i, j] = np.fmax.reduce(cost_axis(run.trace, name)[:, -1])
                if name == EPSILON and reached[i].any():
                    deltas[i, j] = largest_delta(delta_to_reach(run.trace, metric, level))
    of_runs = {
        "cost_to_target": (("run", "seed", "cost"), spent),
        "reached": (("run", "seed"), reached),
        "final_value": (("run", "seed"), ends),
        "seeds": ("run", [run.trace.sizes["seed"] for run in runs]),
        "seeds_reached": ("run", reached.sum(axis=1)),
        "seeds_at_start": ("run", at_start),
        "delta": (("run", "cost"), deltas),
        "most_spent": (("run", "cost"), most),
        "final_floor": ("run", np.full(len(runs), floor if np.isfinite(floor) else np.nan)),
        "seeds_at_floor": ("run", (ends <= floor).sum(axis=1)),
        "seeds_diverged": ("run", [int(diverged(run.trace).sum()) for run in runs]),
    }
    bounds = zip(("centre", "low", "high"), intervals, strict=True)
    at_end = zip(_AT_END, final, strict=True)
    waits = {"update_epoch" not in run.trace for run in runs}
    unlike = [name for name in costs if name == "round" and len(waits) > 1]
    clocks = [[_clock(run, name) for name in costs] for run in runs]
    return xr.Dataset(
        of_runs
        | {name: (("run", "cost"), values) for name, values in bounds}
        | {name: ("run", values) for name, values in at_end},
        coords={**_places(runs), "seed": seeds, "cost": costs, "clock": (("run", "cost"), clocks)},
        attrs={"metric": metric, "target": target, "left_out": left_out, "unlike": unlike},
    )


def interpolate(
    atlas: Atlas | Path | str,
    metric: str,
    cost: str,
    at: Sequence[float] | np.ndarray,
    *,
    experiments: Names = None,
    all_points: bool = False,
) -> xr.DataArray:
    """A measurement of every run that has it, at the costs `at`, by run, seed and cost.

    Values lie on straight lines between the records of a seed; of records at equal costs the last
    counts. They are NaN before the first and after the last record, after a divergence, for seeds
    that the run does not have, and for runs that do not count the cost, which the attribute
    `left_out` lists. Any measurement will do; other arguments and coordinates are those of
    `compare`.

    >>> star = ["fedpage-first"]
    >>> at = fedatlas.interpolate(ATLAS, "gradient_norm", "bytes", [5e4, 1e5], experiments=star)
    >>> at.median("seed", skipna=False).to_series().unstack("cost").round(4)
    cost  50000.0   100000.0
    run
    page     0.345    0.1568
    avg      0.196       NaN
    """
    if metric not in MEASUREMENTS:
        raise FedatlasError(
            f"metric: '{metric}' is none of {', '.join(MEASUREMENTS)}"
            f"{similar(metric, MEASUREMENTS)}"
        )
    grid = np.asarray(at, dtype=float)
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all():
        raise FedatlasError("at: must be a list of finite costs: [0, 100, 200]")
    known_axis(cost)
    runs = measured(atlas, metric, [cost], experiments=experiments, all_points=all_points).mine
    seeds, left_out = _all_seeds(runs), list[str]()
    values = np.full((len(runs), len(seeds), len(grid)), np.nan)
    for i, run in enumerate(runs):
        if _lacks(run, cost, left_out):
            continue
        records = zip(cost_axis(run.trace, cost), column(run.trace, metric), strict=True)
        for seed, (spent, level) in zip(run.trace["seed"].to_numpy(), records, strict=True):
            # A diverged seed ends with NaN. No line crosses a NaN between other measurements.
            if (known := np.isfinite(spent)).any():
                own = np.interp(grid, spent[known], level[known], left=np.nan, right=np.nan)
                values[i, np.searchsorted(seeds, seed)] = own
    long_name, units, *_ = MEASUREMENTS[metric]
    return xr.DataArray(
        values,
        dims=("run", "seed", "cost"),
        coords={
            **_places(runs),
            "seed": seeds,
            "cost": ("cost", grid, {"long_name": cost}),
            "clock": ("run", [_clock(run, cost) for run in runs]),
        },
        name=metric,
        attrs={"long_name": long_name, "units": units, "left_out": left_out},
    )


def known_axis(cost: str) -> str:
    """The cost as it is; FedatlasError if it is no axis."""
    try:
        return known_cost(cost)
    except ValueError as error:
        raise FedatlasError(f"cost: '{cost}': {error}{similar(cost, AXES)}") from None


def _all_seeds(runs: Sequence[AtlasRun]) -> np.ndarray:
    """The seeds of all runs in ascending order."""
    return np.unique(np.concatenate([run.trace["seed"].to_numpy() for run in runs]))


def _lacks(run: AtlasRun, cost: str, left_out: list[str]) -> bool:
    """Whether a run lacks the cost; lists the reason, and warns of a clock that differs."""
    network, reason = declared_network(cost), ""
    if not is_counted(run.trace, cost):
        reason = "is not counted"
    elif network and has_own_clock(run.trace) and own_latency(run.trace) != network.latency:
        own = own_latency(run.trace)
        reason = f"its own clock has the latency {own:g} s, not {network.latency:g} s"
        warnings.warn(f"{run.name}: has no time on this network: {reason}", stacklevel=4)
    if reason:
        left_out.append(f"{run.name}: {cost}: {reason}")
    return bool(reason)


def _clock(run: AtlasRun, cost: str) -> str:
    return "own" if declared_network(cost) and has_own_clock(run.trace) else "counted"


def _places(runs: Sequence[AtlasRun]) -> dict[str, tuple[str, list[Any]]]:
    names = ("paper", "experiment", "run", "point", "title")
    own = {name: ("run", [getattr(run, name) for run in runs]) for name in names}
    return own | {"algorithm": ("run", [run.trace.attrs["algorithm"] for run in runs])}


def _interval(spent: np.ndarray) -> tuple[float, float, float]:
    """Centre and bounds of a run's cost over its seeds, +inf for seeds that missed the target."""
    finite = spent[np.isfinite(spent)]
    if not len(finite):
        return np.inf, np.inf if len(spent) > 1 else 0.0, np.inf
    if (finite == 0).any():
        # 0 has no logarithm: a method without messages sends no byte.
        return 0.0, 0.0, 0.0 if len(finite) == len(spent) and not finite.any() else np.inf
    centre, low, high = mean_interval(np.log10(finite))
    return 10**centre, 10**low, 10**high if len(finite) == len(spent) else np.inf


def _final_interval(ends: np.ndarray, metric: str) -> tuple[float, float, float]:
    """The mean over seeds that did not diverge and its 95 % interval.

    It is geometric of measurements that fall over orders of magnitude.
    """
    kept = ends[~np.isnan(ends)]
    if not MEASUREMENTS[metric].logarithmic:
        return mean_interval(kept)
    centre, low, high = mean_interval(np.log10(np.maximum(kept, smallest(metric))))
    return 10**centre, 10**low, 10**high


def _final_range(ends: np.ndarray) -> tuple[float, float, float]:
    """The median over seeds that did not diverge, and their range."""
    kept = ends[~np.isnan(ends)]
    if not len(kept):
        return np.nan, np.nan, np.nan
    return float(np.median(kept)), float(kept.min()), float(kept.max())
