"""Tables of the summary: what methods of several papers spend to reach one target."""

import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from fedatlas.atlas.cells import OF_DIFFERENT_DELTA, cost_cell, delta_suffix, differ
from fedatlas.atlas.comparison import compare
from fedatlas.atlas.reading import open_atlas
from fedatlas.atlas.runs import Atlas, atlas_runs
from fedatlas.atlas.scope import SelectedExperiment
from fedatlas.evaluation.claims.cost_to_target import CostToTargetTest
from fedatlas.evaluation.evidence import target_name, unit_of
from fedatlas.evaluation.levels import common_target, log_target, value_at
from fedatlas.evaluation.verdict_words import capital
from fedatlas.markdown import code, item, paragraph, table, text
from fedatlas.schema.cost_names import declared_network
from fedatlas.schema.measurements import LEVELS

_EXPLAINED = """
Geometric means over the seeds that reached the target, in brackets the 95 % interval over seeds,
which has no upper bound where a seed never did; k and M are thousands and millions. A dash stands
where a run does not count a cost.
"""


def cost_tables(experiments: Sequence[SelectedExperiment], atlas: Path) -> Iterator[str]:
    """Markdown blocks: a table for each experiment, measurement and target.

    Targets are those of the experiment's claims; a measurement of its figure without one takes the
    best level that the medians of all runs reach. Costs are those of the figure.
    """
    compared = [each for each in experiments if each.trained and each.figure.kind == "convergence"]
    if not compared:
        return
    yield "### Cost to a target"
    yield paragraph(_EXPLAINED)
    with open_atlas(atlas) as tree:
        for experiment in compared:
            for measurement, target, declared in _targets(experiment, tree):
                yield from _table(experiment, tree, measurement, target, declared)


def _targets(experiment: SelectedExperiment, atlas: Atlas) -> Iterator[tuple[str, float, bool]]:
    """Each measurement with a target, and whether a claim states it."""
    tests = [claim.test for claim in experiment.claims if isinstance(claim.test, CostToTargetTest)]
    declared = dict.fromkeys((test.measurement, test.target) for test in tests if test.target)
    for measurement, target in declared:
        yield measurement, target, True
    for shown in experiment.figure.measurements:
        if shown not in LEVELS or any(shown == measurement for measurement, _ in declared):
            continue
        runs = atlas_runs(atlas, experiments=[experiment.runs_of])
        traces = [run.trace.load() for run in runs if run.run in experiment.runs]
        level = common_target(traces, shown)
        if np.isfinite(level):
            # Round up in the third digit, or the run that just reaches the level would miss it.
            digit = 10.0 ** (math.floor(level) - 2)
            easier = (math.floor(10**level / digit) + 1) * digit
            yield shown, value_at(shown, math.log10(easier)), False


def _table(
    experiment: SelectedExperiment,
    atlas: Atlas,
    measurement: str,
    target: float,
    declared: bool,
) -> Iterator[str]:
    costs = list(experiment.figure.costs)
    with warnings.catch_warnings():
        # A line under the table says the same.
        warnings.simplefilter("ignore", UserWarning)
        found = compare(atlas, measurement, costs, target, experiments=[experiment.runs_of]).dataset
    shown = found.isel(run=[run in experiment.runs for run in found["run"].to_numpy()])
    goal = text(target_name(measurement, log_target(measurement, target)))
    why = "" if declared else ", the best that the medians of all runs reach"
    yield paragraph(f"{code(experiment.name)}: {goal}{why}. {_axes(costs)}")
    deltas = shown["delta"].to_numpy()
    header = ("run", *map(_column, costs), "seeds")
    rows = [
        [text(experiment.runs[str(run)]), *_cells(shown.isel(run=place), deltas)]
        for place, run in enumerate(shown["run"].to_numpy())
    ]
    yield table(header, rows, numbers=range(1, len(header)))
    # Costs that are not counted have a dash already; clocks that differ need a line.
    reasons = [reason for reason in shown.attrs["left_out"] if "clock" in reason]
    remarks = [f"Left out: {text(reason)}." for reason in reasons]
    remarks += [f"{capital(text(OF_DIFFERENT_DELTA))}."] * differ(deltas)
    if remarks:
        yield "\n".join(map(item, remarks))


def _column(cost: str) -> str:
    if cost == "epsilon":
        return "ε"
    return "network seconds" if declared_network(cost) else text(unit_of(cost))


def _axes(costs: Sequence[str]) -> str:
    networks = [network for cost in costs if (network := declared_network(cost))]
    told = "; then ".join(text(network.label) for network in networks)
    return f"Network seconds: {told}; a run with a clock of its own has that one." if told else ""


def _cells(run: xr.Dataset, deltas: np.ndarray) -> Iterator[str]:
    """deltas: (runs, costs) of the whole table."""
    seeds, reached = int(run["seeds"]), int(run["seeds_reached"])
    for place, clock in enumerate(run["clock"].to_numpy()):
        centre, low, high = (float(run[name][place]) for name in ("centre", "low", "high"))
        told = cost_cell(centre, low, high, reached, seeds)
        told += delta_suffix(float(run["delta"][place]), deltas[:, place])
        yield f"{told} own clock" if clock == "own" else told
    yield f"{reached} of {seeds}"
