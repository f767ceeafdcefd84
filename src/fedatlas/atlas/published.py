"""Numbers that papers print, beside ours as they were computed."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedatlas.atlas.scope import SelectedExperiment
from fedatlas.errors import error_context
from fedatlas.evaluation.budgets import cases_of, read_budgets
from fedatlas.evaluation.claims.budget_falls import BudgetFallsTest
from fedatlas.evaluation.claims.delta_reaches_one import DeltaReachesOneTest
from fedatlas.evaluation.claims.published_measurement import PublishedMeasurementTest
from fedatlas.evaluation.claims.published_value import PublishedValueTest
from fedatlas.evaluation.costs import column
from fedatlas.evaluation.levels import diverged
from fedatlas.markdown import counted
from fedatlas.schema.hyper_parameters import flat
from fedatlas.traces.trace import judged, read_trace


class PublishedNumber(NamedTuple):
    """One number of a paper; claim: the one that is about it, None if it is only drawn."""

    run: str
    quantity: str
    published: str
    ours: str
    claim: str | None


def published_numbers(
    experiment: SelectedExperiment, results: Path, selection: Mapping[str, Any]
) -> Iterator[PublishedNumber]:
    """All published numbers of an experiment, those of claims first.

    Ours are the mean and the standard deviation over seeds of the last record of the chosen point,
    a chosen hyper-parameter with the choice of each seed alone, or what was computed of budgets.
    selection: the experiment's written record.
    """
    budgets = results / "experiments" / experiment.name / "budgets.nc"
    traces = results / "experiments" / experiment.runs_of / "traces"
    claimed: set[tuple[str, str]] = set()
    for claim in experiment.claims:
        match claim.test:
            case PublishedMeasurementTest() as test:
                quantity, declared = test.measurement, test.printed
                ours = _ends(traces, test.run, quantity, selection)
                claimed.add((test.run, quantity))
            case PublishedValueTest() as test:
                quantity, declared = test.hyper_parameter, f"{test.value:g}"
                ours = _chosen(test.run, quantity, selection)
            case DeltaReachesOneTest() as test:
                quantity, declared = "iterations to δ = 1", f"{test.after} ± {test.tolerance}"
                ours = _delta_reaches_one(test.run, budgets)
            case BudgetFallsTest(floor=True) as test:
                quantity, declared = "K from which ε falls", f"{test.from_horizon}"
                ours = _last_rise(test.run, test.from_horizon, budgets)
            case _:
                continue
        yield PublishedNumber(test.run, quantity, declared, ours, claim.id)
    measurement = experiment.figure.measurement
    for run, value in experiment.figure.published.items():
        if (run, measurement) not in claimed:
            ours = _ends(traces, run, measurement, selection)
            yield PublishedNumber(run, measurement, f"{value:g}", ours, None)


def _ends(traces: Path, run: str, measurement: str, selection: Mapping[str, Any]) -> str:
    """The mean and deviation of the seeds that are not lost, and how many seeds there are."""
    point = selection["runs"][run]["selected"]
    trace = judged(read_trace(traces / run / f"{point}.nc"))
    ends = column(trace, measurement)[:, -1]
    kept, seeds = ends[~diverged(trace)], counted(len(ends), "seed")
    if not len(kept):
        return f"none (0 of {seeds})"
    mean = float(kept.mean())
    shown = f"{mean:.4g}"
    if len(kept) > 1:  # the spread of one is unknown
        shown = _with_deviation(mean, float(kept.std(ddof=1)))
    return f"{shown} ({len(kept)} of {seeds})" if len(kept) < len(ends) else f"{shown} ({seeds})"


def _with_deviation(mean: float, deviation: float) -> str:
    """Both to the second digit of the deviation, or to four digits without a deviation."""
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
    return f"{values[entry['selected']]}; by seed {', '.join(by_seed)}"


def _delta_reaches_one(run: str, file: Path) -> str:
    told = []
    for case in _cases(run, file):
        delta = case["delta"].dropna("iteration")
        reached = delta["iteration"].to_numpy()[delta.to_numpy() >= 1]
        told.append(f"{reached[0] if len(reached) else 'never'} ({case['accounting'].item()})")
    return ", ".join(told)


def _last_rise(run: str, from_horizon: int, file: Path) -> str:
    """The last rise by the run's first accounting, from the declared horizon on."""
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
        return cases_of(budgets, run)
