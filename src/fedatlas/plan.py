"""The plan of a workflow: experiments expanded into jobs and files, all known before any job runs.

Imported when the workflow is parsed: light, no network, no data.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

from fedatlas.algorithm import algorithm_class
from fedatlas.data.catalogue import Catalogue, load_catalogue
from fedatlas.errors import FedatlasError
from fedatlas.experiments import Experiment, RunConfig, load_experiments
from fedatlas.objectives import Loss
from fedatlas.partition import Partition
from fedatlas.specs import RunSpec


def group_of(experiment: str) -> str:
    """The folder in which the experiment's file lies: a paper's key, or "demo"."""
    return experiment.split("-", 1)[0]


@dataclass(frozen=True)
class Plan:
    """Everything that the workflow may make, by name."""

    catalogue: Catalogue
    experiments: dict[str, Experiment]
    runs: dict[tuple[str, str, str], RunSpec]  # (experiment, run, point) → specification
    partitions: dict[str, Partition]  # by slug

    def run(self, experiment: str, run: str, point: str) -> RunSpec:
        """The specification of a training job."""
        return self.runs[experiment, run, point]

    def runs_of(self, experiment: str) -> list[RunSpec]:
        """All training jobs of an experiment, in the order of its file."""
        return [spec for (name, _, _), spec in self.runs.items() if name == experiment]

    def run_titles(self, experiment: str) -> dict[str, str]:
        """What figures call the runs of an experiment."""
        return {
            name: run.title or algorithm_class(run.algorithm).title
            for name, run in self.experiments[experiment].runs.items()
        }

    def select(self, patterns: Sequence[str]) -> list[str]:
        """Experiments whose name matches one of the patterns; a pattern without any is an error."""
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in self.experiments):
                raise FedatlasError(
                    f"config key 'experiments': '{pattern}' matches no experiment; there are: "
                    f"{', '.join(self.experiments)}"
                )
        return [name for name in self.experiments if any(fnmatchcase(name, p) for p in patterns)]


def build_plan(config_folder: Path) -> Plan:
    """Read and validate the catalogue and every experiment under the configuration folder."""
    catalogue = load_catalogue(config_folder / "datasets.yaml")
    folder = config_folder / "experiments"
    experiments = load_experiments(folder)
    runs: dict[tuple[str, str, str], RunSpec] = {}
    partitions: dict[str, Partition] = {}
    for name, experiment in experiments.items():
        group, stem = name.split("-", 1)
        where = str(folder / group / f"{stem}.yaml")
        _check_dataset(experiment, catalogue, where)
        for run_name, run in experiment.runs.items():
            _check_name(run_name, f"{where}: run")
            for point, values in _points(run, f"{where}: runs.{run_name}.grid"):
                spec = _specification(name, experiment, run_name, run, point, values)
                spec.build_algorithm(f"{where}: runs.{run_name}.hyper_parameters")
                runs[name, run_name, point] = spec
                partitions[spec.partition.slug] = spec.partition
    return Plan(catalogue, experiments, runs, partitions)


def _specification(
    name: str,
    experiment: Experiment,
    run_name: str,
    run: RunConfig,
    point: str,
    values: dict[str, Any],
) -> RunSpec:
    return RunSpec(
        paper=experiment.paper,
        experiment=name,
        run=run_name,
        point=point,
        dataset=experiment.dataset,
        split=experiment.split,
        partition=run.partition or experiment.partition,
        objective=experiment.objective,
        algorithm=run.algorithm,
        hyper_parameters=run.hyper_parameters | values,
        rounds=experiment.rounds,
        record_every=experiment.record_every,
        seeds=experiment.seeds,
    )


def _points(run: RunConfig, where: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """The grid's points and their names; a name is looked up, never parsed."""
    for combination in product(*run.grid.values()):
        values = dict(zip(run.grid, combination, strict=True))
        name = "_".join(f"{key}-{value}" for key, value in values.items()) or "only"
        _check_name(name, where)
        yield name, values


def _check_name(name: str, where: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise FedatlasError(
            f"{where}: '{name}' becomes a file name: use letters, digits, '.', '_', '+' and '-'"
        )


def _check_dataset(experiment: Experiment, catalogue: Catalogue, where: str) -> None:
    try:
        dataset = catalogue[experiment.dataset]
    except FedatlasError as error:
        raise FedatlasError(f"{where}: key 'dataset': {error}") from None
    if experiment.objective.loss is Loss.LOGISTIC and dataset.task != "binary":
        raise FedatlasError(
            f"{where}: key 'objective', value '{experiment.objective.name}': needs labels ±1, but "
            f"{experiment.dataset} is a {dataset.task} data set"
        )
    if experiment.split not in dataset.splits:
        raise FedatlasError(
            f"{where}: key 'split', value '{experiment.split}': {experiment.dataset} has "
            f"{', '.join(dataset.splits)}"
        )
