"""Numbers that papers print, beside ours: from what was computed, not from words of evidence."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.atlas.scope import SelectedExperiment
from fedatlas.errors import named
from fedatlas.evaluation.budgets import cases_of, read_budgets
from fedatlas.evaluation.claims.budget_falls import BudgetFallsTest
from fedatlas.evaluation.claims.delta_reaches_one import DeltaReachesOneTest
from fedatlas.evaluation.claims.published_measurement import PublishedMeasurementTest
from fedatlas.evaluation.claims.published_value import PublishedValueTest
from fedatlas.evaluation.final_values import final_losses
from fedatlas.schema.hyper_parameters import flat
from fedatlas.schema.measurements import LARGER_IS_BETTER
from fedatlas.traces.trace import read_trace


@dataclass(frozen=True)
class PublishedNumber:
    """One number of a paper; claim: whose verdict is about it, None where it is only drawn."""

    run: str
    quantity: str
    published: str
    ours: str
    claim: str | None


def published_numbers(
    experiment: SelectedExperiment, results: Path, selection: Mapping[str, Any]
) -> Iterator[PublishedNumber]:
    """All of an experiment, those of claims first; selection: its written record.

    Ours are the mean and the standard deviation over seeds of what the chosen point ends with, a
    chosen hyper-parameter and what each seed alone would choose, or what was computed of budgets.
    """
    budgets = results / "experiments" / experiment.name / "budgets.nc"
    judged: set[tuple[str, str]] = set()
    for claim in experiment.claims:
        match claim.test:
            case PublishedMeasurementTest() as test:
                ours = _ends(experiment, test.run, test.measurement, results, selection)
                stated = f"{test.value:g} ± {test.tolerance:g}"
                judged.add((test.run, test.measurement))
                yield PublishedNumber(test.run, test.measurement, stated, ours, claim.id)
            case PublishedValueTest() as test:
                ours = _chosen(test.run, test.hyper_parameter, selection)
                stated = f"{test.value:g} ± {test.tolerance:g}"
                yield PublishedNumber(test.run, test.hyper_parameter, stated, ours, claim.id)
            case DeltaReachesOneTest() as test:
                ours = _delta_reaches_one(test.run, budgets)
                stated = f"{test.after} ± {test.tolerance}"
                yield PublishedNumber(test.run, "iterations to δ = 1", stated, ours, claim.id)
            case BudgetFallsTest() as test:
                ours = _last_rise(test.run, test.from_horizon, budgets)
                stated = f"{test.from_horizon}"
                yield PublishedNumber(test.run, "K from which ε falls", stated, ours, claim.id)
    measurement = experiment.figure.measurement
    for run, value in experiment.figure.published.items():
        if (run, measurement) not in judged:
            ours = _ends(experiment, run, measurement, results, selection)
            yield PublishedNumber(run, measurement, f"{value:g}", ours, None)


def _ends(
    experiment: SelectedExperiment,
    run: str,
    measurement: str,
    results: Path,
    selection: Mapping[str, Any],
) -> str:
    """Of the seeds that are not lost; how many if some are."""
    point = selection["runs"][run]["selected"]
    traces = results / "experiments" / experiment.runs_of / "traces"
    losses = final_losses(read_trace(traces / run / f"{point}.nc"), measurement)
    kept = losses[np.isfinite(losses)]
    if not len(kept):
        return f"none (0 of {_seeds(len(losses))})"
    mean = float((-kept if measurement in LARGER_IS_BETTER else kept).mean())
    shown = f"{mean:.4g}"
    if len(kept) > 1:  # the spread of one is unknown
        shown = _with_deviation(mean, float(kept.std(ddof=1)))
    if len(kept) < len(losses):
        return f"{shown} ({len(kept)} of {_seeds(len(losses))})"
    return f"{shown} ({_seeds(len(losses))})"


def _with_deviation(mean: float, deviation: float) -> str:
    """Both to the second digit of the deviation, or to four digits where there is none."""
    if not deviation > abs(mean) * 1e-12:
        return f"{mean:.4g} ± 0"
    decimals = max(0, 1 - math.floor(math.log10(deviation)))
    return f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"


def _seeds(number: int) -> str:
    return f"{number} seed{'s' * (number != 1)}"


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
    """By the run's first accounting, over the horizons from the stated one on."""
    epsilon = _cases(run, file)[0]["final_epsilon"].dropna("horizon")
    late = epsilon[(epsilon["horizon"] >= from_horizon).to_numpy()]
    horizons = late["horizon"].to_numpy()[1:]
    rises = horizons[np.diff(late.to_numpy()) >= 0]
    if not len(rises):
        return f"it falls up to {horizons[-1]}"
    return f"it rises up to {rises[-1]} of {horizons[-1]}"


def _cases(run: str, file: Path) -> list[Any]:
    budgets = read_budgets(file)
    with named(file, ". Delete it and run again."):
        return cases_of(budgets, run)
