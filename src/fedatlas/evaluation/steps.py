"""Steps from traces to verdicts; see `fedatlas.steps`."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.selection import Choice, by_run, choices, select
from fedatlas.files import write_text
from fedatlas.schema.claims import Claim
from fedatlas.schema.models import Model, read_json, validated
from fedatlas.schema.runs import Selection
from fedatlas.store.experiment import (
    Experiment,
    ExperimentHeading,
    StoredPoint,
    join_traces,
    write_experiment,
)
from fedatlas.store.trace import judged, read_trace
from fedatlas.store.trace import tuning as tuning_seeds

log = logging.getLogger(__name__)


class TunedRun(Model):
    """A run that is tuned in another experiment. declared: hyper-parameters that it declares."""

    experiment: str
    declared: frozenset[str] = frozenset()


def read_runs(traces: Path) -> dict[str, dict[str, xr.Dataset]]:
    """The traces of an experiment by run and point, of the seeds that are judged."""
    experiment = Experiment(traces)
    experiment.data.load()
    return {
        run: {point: judged(trace) for point, trace in points.items()}
        for run, points in experiment.traces().items()
    }


def read_choices(selection: Path) -> Mapping[str, Choice]:
    """The chosen points by run, of a selection record."""
    return choices(read_json(selection))


def select_points(
    traces: list[Path],
    tuning: list[Path],
    selection: Selection,
    tuned: dict[str, TunedRun],
    heading: ExperimentHeading,
    titles: dict[str, str],
    output: Path,
    joined: Path,
) -> None:
    """Choose each run's grid point by the experiment's rule, and keep all runs in one file.

    tuning: selection records of the experiments in which runs are tuned, in folders of their names.
    tuned: these runs. titles: of all runs.
    """
    records = {file.parent.name: read_json(file) for file in tuning}
    found = [read_trace(file) for file in traces]
    loaded = by_run([tuning_seeds(trace) for trace in found])
    if unknown := sorted(set(tuned).difference(loaded)):
        raise FedatlasError(f"tuned: no trace is of the run '{unknown[0]}'")
    record = select(
        loaded,
        selection,
        {run: records[told.experiment] for run, told in tuned.items()},
        {run: told.declared for run, told in tuned.items()},
    )
    points = []
    for trace in found:
        run, point = trace.attrs["run"], trace.attrs["point"]
        points.append(StoredPoint(trace, titles[run], record["runs"][run]["selected"] == point))
    write_experiment(join_traces(heading, points), joined)
    write_text(output, json.dumps(record, indent=2) + "\n")


def judge_claims(
    experiment: str,
    paper: str,
    claims: list[Claim],
    looks: int,
    traces: Path,
    selection: Path,
    output: Path,
    landscape: Path | None = None,
    budgets: Path | None = None,
    attacks: Path | None = None,
    leaks: Path | None = None,
) -> None:
    """Judge an experiment's claims; landscape, budgets, attacks, leaks: what some are about."""
    from fedatlas.evaluation.results import Results
    from fedatlas.evaluation.tables import read_attacks, read_budgets, read_leaks, read_surface
    from fedatlas.evaluation.verdicts import judge, verdict_summary, verdicts_to_csv

    record = read_json(selection)
    rule = validated(Selection, record["rule"], str(selection))
    results = Results(
        traces=read_runs(traces),
        chosen=choices(record),
        window=rule.window,
        selected_by=rule.measurement,
        looks=looks,
        landscape=read_surface(landscape) if landscape else None,
        budgets=read_budgets(budgets) if budgets else None,
        attacks=read_attacks(attacks) if attacks else None,
        leaks=read_leaks(leaks) if leaks else None,
    )
    verdicts = judge(experiment, paper, claims, results)
    write_text(output, verdicts_to_csv(verdicts))
    log.info("%s", verdict_summary(verdicts))
