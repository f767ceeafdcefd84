"""Numbers of the summary: published numbers beside those found here, and costs to a target."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedatlas.errors import error_context
from fedatlas.evaluation.claims.compared import ComparisonTest
from fedatlas.evaluation.claims.one_run import PublishedMeasurementTest
from fedatlas.evaluation.claims.study_value import StudyValueTest
from fedatlas.evaluation.claims.tried_value import TriedValueTest
from fedatlas.evaluation.evidence import capital, target_name, unit_of
from fedatlas.evaluation.levels import column, common_target, diverged, log_target, value_at
from fedatlas.evaluation.tables import budgets_of, read_budgets
from fedatlas.figures.kinds.convergence import ConvergenceFigure
from fedatlas.markdown import code, counted, item, paragraph, table, text
from fedatlas.pages.scope import SelectedExperiment
from fedatlas.schema.quantities import LEVELS, declared_network
from fedatlas.schema.runs import flat
from fedatlas.store.atlas import Atlas, atlas_runs, open_atlas
from fedatlas.store.comparison import compare
from fedatlas.store.experiment import TRACES, Experiment
from fedatlas.store.trace import judged


class PublishedNumber(NamedTuple):
    """A number that a paper prints. claim: the claim about it; None if it is only drawn."""

    run: str
    quantity: str
    published: str
    ours: str
    claim: str | None


def published_numbers(
    experiment: SelectedExperiment, results: Path, selection: Mapping[str, Any]
) -> Iterator[PublishedNumber]:
    """All published numbers of an experiment, each beside our own, those of claims first.

    Our own number is one of three: mean and standard deviation over seeds of the tuned
    configuration's last record; a tuned hyper-parameter, with the choice of each seed alone; or a
    number computed from privacy budgets. selection: the experiment's selection.json.
    """
    budgets = results / "experiments" / experiment.name / "budgets.nc"
    traces = results / "experiments" / experiment.name / TRACES
    claimed: set[tuple[str, str]] = set()
    for claim in experiment.claims:
        match claim.test:
            case PublishedMeasurementTest() as test:
                quantity, declared = test.measurement, test.printed
                ours = _ends(traces, test.run, quantity, selection)
                claimed.add((test.run, quantity))
            case TriedValueTest(kind="published_value") as test:
                quantity, declared = test.hyper_parameter, f"{test.value:g}"
                ours = _chosen(test.run, quantity, selection)
            case StudyValueTest(kind="delta_reaches_one") as test:
                quantity, declared = "iterations to δ = 1", f"{test.after} ± {test.tolerance}"
                ours = _delta_reaches_one(test.run, budgets)
            case StudyValueTest(kind="budget_falls", floor=True) as test:
                quantity, declared = "K from which ε falls", f"{test.from_horizon}"
                ours = _last_rise(test.run, test.from_horizon, budgets)
            case _:
                continue
        yield PublishedNumber(test.run, quantity, declared, ours, claim.id)
    for run, value in experiment.figure.printed.items():
        (measurement,) = experiment.figure.measurements
        if (run, measurement) not in claimed:
            ours = _ends(traces, run, measurement, selection)
            yield PublishedNumber(run, measurement, f"{value:g}", ours, None)


def _ends(traces: Path, run: str, measurement: str, selection: Mapping[str, Any]) -> str:
    """Mean and deviation over the seeds that did not diverge, and how many seeds there are."""
    point = selection["runs"][run]["selected"]
    stored = Experiment(traces)
    trace = judged(stored.trace(run, point)).load()
    ends = column(trace, measurement)[:, -1]
    kept, seeds = ends[~diverged(trace)], counted(len(ends), "seed")
    if not len(kept):
        return f"none (0 of {seeds})"
    mean = float(kept.mean())
    shown = f"{mean:.4g}"
    if len(kept) > 1:  # one seed has no spread
        shown = _with_deviation(mean, float(kept.std(ddof=1)))
    return f"{shown} ({len(kept)} of {seeds})" if len(kept) < len(ends) else f"{shown} ({seeds})"


def _with_deviation(mean: float, deviation: float) -> str:
    """Both numbers to the deviation's second digit; four digits where the deviation is zero."""
    if not deviation > abs(mean) * 1e-12:
        return f"{mean:.4g} ± 0"
    decimals = max(0, 1 - math.floor(math.log10(deviation)))
    return f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"


def _chosen(run: str, hyper_parameter: str, selection: Mapping[str, Any]) -> str:
    entry = selection["runs"][run]
    values = {
        tried["point"]: f"{flat(tried['hyper_parameters'])[hyper_parameter]:g}"
        for tried in entry["candidates"]
    }
    by_seed = ["none" if point is None else values[point] for point in entry["selected_by_seed"]]
    lost = entry["tried"] > 1 and not entry.get("tied", 1)
    return f"{'none' if lost else values[entry['selected']]}; by seed {', '.join(by_seed)}"


def _delta_reaches_one(run: str, file: Path) -> str:
    iterations = []
    for case in _cases(run, file):
        delta = case["delta"].dropna("iteration")
        reached = delta["iteration"].to_numpy()[delta.to_numpy() >= 1]
        first = reached[0] if len(reached) else "never"
        iterations.append(f"{first} ({case['accounting'].item()})")
    return ", ".join(iterations)


def _last_rise(run: str, from_horizon: int, file: Path) -> str:
    """The last horizon at which ε rises, by the run's first accounting, from a horizon on."""
    epsilon = _cases(run, file)[0]["final_epsilon"].dropna("horizon")
    late = epsilon[(epsilon["horizon"] >= from_horizon).to_numpy()]
    horizons = late["horizon"].to_numpy()[1:]
    rises = horizons[np.diff(late.to_numpy()) >= 0]
    if not len(rises):
        return f"it falls up to {horizons[-1]}"
    return f"it rises up to {rises[-1]} of {horizons[-1]}"


def _cases(run: str, file: Path) -> list[Any]:
    budgets = read_budgets(file)
    with error_context(file, ". Move it away and run again."):
        return budgets_of(budgets, run)


_EXPLAINED = """
Each cost is the geometric mean over the seeds that reached the target, with the 95 % interval over
seeds in brackets. The interval has no upper bound if a seed never reached the target. k and M are
thousands and millions. A dash means that a run does not count this cost.
"""


def cost_tables(experiments: Sequence[SelectedExperiment], results: Path) -> Iterator[str]:
    """Markdown blocks: a table for each experiment, measurement and target.

    Targets are those of the experiment's claims. A measurement of the figure without a declared
    target takes the best level that the medians of all runs reach. Costs are those of the figure.
    """
    compared = [
        each for each in experiments if each.trained and isinstance(each.figure, ConvergenceFigure)
    ]
    if not compared:
        return
    yield "### Cost to a target"
    yield paragraph(_EXPLAINED)
    for experiment in compared:
        atlas = open_atlas(results / "experiments" / experiment.name / TRACES)
        for measurement, target, declared in _targets(experiment, atlas):
            yield from _table(experiment, atlas, measurement, target, declared)


def _targets(experiment: SelectedExperiment, atlas: Atlas) -> Iterator[tuple[str, float, bool]]:
    """Each measurement with a target, and whether a claim declares that target."""
    tests = [claim.test for claim in experiment.claims if isinstance(claim.test, ComparisonTest)]
    declared = dict.fromkeys((test.measurement, test.target) for test in tests if test.target)
    for measurement, target in declared:
        yield measurement, target, True
    for shown in experiment.figure.measurements:
        if shown not in LEVELS or any(shown == measurement for measurement, _ in declared):
            continue
        traces = [run.trace.load() for run in atlas_runs(atlas)]
        level = common_target(traces, shown)
        if np.isfinite(level):
            # Round up in the third digit, so that the run which just reaches the level still does.
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
    costs = list(experiment.figure.counted)
    with warnings.catch_warnings():
        # A line under the table gives the same warning.
        warnings.simplefilter("ignore", UserWarning)
        shown = compare(atlas, measurement, costs, target)
    goal = text(target_name(measurement, log_target(measurement, target)))
    why = "" if declared else ", the best that the medians of all runs reach"
    yield paragraph(f"{code(experiment.name)}: {goal}{why}. {_axes(costs)}")
    header = ("run", *map(_column, costs), "seeds")
    rows = [[text(name), *cells] for name, *cells in shown.table().itertuples()]
    yield table(header, rows, numbers=range(1, len(header)))
    # Costs that are not counted have a dash in the table; clocks that differ need a line.
    reasons = [reason for reason in shown.dataset.attrs["left_out"] if "clock" in reason]
    remarks = [*(f"left out: {reason}" for reason in reasons), *shown.remarks()]
    if remarks:
        yield "\n".join(item(f"{capital(text(remark))}.") for remark in remarks)


def _column(cost: str) -> str:
    if cost == "epsilon":
        return "ε"
    return "network seconds" if declared_network(cost) else text(unit_of(cost))


def _axes(costs: Sequence[str]) -> str:
    networks = [network for cost in costs if (network := declared_network(cost))]
    labels = "; then ".join(text(network.label) for network in networks)
    if not labels:
        return ""
    return f"Network seconds: {labels}; a run that declares its own clock uses that."
