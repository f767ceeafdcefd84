"""The plan of a workflow: experiments expanded into jobs and files, all known before any job runs.

Imported when the workflow is parsed: light, no network, no data.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

from fedatlas.architectures import architecture_names
from fedatlas.data.catalogue import READABLE_FORMATS, Catalogue, Dataset, load_catalogue
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import algorithm_class, algorithm_names
from fedatlas.schema.experiments import Experiment, RunConfig, load_experiments
from fedatlas.schema.hyper_parameters import at_point, flat
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import (
    AucObjective,
    ClassificationObjective,
    LinearObjective,
    Loss,
    NetworkObjective,
)
from fedatlas.schema.partitions import (
    HorizontalPartition,
    Partition,
    TieredPartition,
    VerticalPartition,
    pooled_rows,
)
from fedatlas.schema.runs import RunSpec
from fedatlas.shards.assignment import silo_blocks, train_and_test_rows

#: The point of a run that is tuned in another experiment.
TUNED = "tuned"


def group_of(experiment: str) -> str:
    """The folder in which the experiment's file lies: a paper's key, or "demo"."""
    return experiment.split("-", 1)[0]


@dataclass(frozen=True)
class Plan:
    """Everything that the workflow may make, by name."""

    catalogue: Catalogue
    experiments: dict[str, Experiment]
    runs: dict[tuple[str, str, str], RunSpec]  # (experiment, run, point) → specification
    partitions: dict[str, Partition]  # of every trial, by slug
    pooled: dict[str, VerticalPartition]  # rows on which an optimum is found, by rows_slug
    objectives: dict[str, LinearObjective]  # by slug, of which optima may be found

    def run(self, experiment: str, run: str, point: str) -> RunSpec:
        """The specification of a training job."""
        return self.runs[experiment, run, point]

    def runs_of(self, experiment: str) -> list[RunSpec]:
        """All training jobs of an experiment, in the order of its file."""
        owner = self.experiments[experiment].runs_of or experiment
        shown = self.experiments[experiment].runs
        return [
            spec for (name, run, _), spec in self.runs.items() if name == owner and run in shown
        ]

    def agents_of(self, experiment: str) -> int:
        """How many agents an experiment's graphs have: those of the first run that is on them.

        Where every run has graphs of its own, those of the first run that is on graphs.
        """
        found = [
            (spec.graphs, spec.partition.clients)
            for spec in self.runs_of(experiment)
            if spec.graphs is not None and isinstance(spec.partition, HorizontalPartition)
        ]
        drawn = self.experiments[experiment].graphs
        on_them = [agents for graphs, agents in found if graphs == drawn]
        return on_them[0] if on_them else found[0][1]

    def run_titles(self, experiment: str) -> dict[str, str]:
        """What figures call the runs; those that share their method's title have names in it."""
        runs = self.experiments[experiment].runs
        titles = {
            name: run.title or algorithm_class(run.algorithm).title for name, run in runs.items()
        }
        named = list(titles.values())
        return {
            name: title if named.count(title) == 1 or runs[name].title else f"{title} ({name})"
            for name, title in titles.items()
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
    pooled: dict[str, VerticalPartition] = {}
    objectives: dict[str, LinearObjective] = {}
    for name, experiment in experiments.items():
        where = _file_of(name, folder)
        _check_dataset(experiment, catalogue, where)
        if experiment.runs_of is not None:
            needs = experiment.measures_suboptimality
            if needs and not experiments[experiment.runs_of].measures_suboptimality:
                raise FedatlasError(
                    f"{where}: looks at suboptimality, which {experiment.runs_of} does not measure"
                )
            continue
        _check_graphs(experiment, where)
        for run_name, run in experiment.runs.items():
            _check_name(run_name, f"{where}: run")
            for combination in product(*run.grid.values()):
                chosen = dict(zip(run.grid, combination, strict=True))
                values = at_point(run.hyper_parameters, chosen, f"{where}: runs.{run_name}")
                spec = _specification(name, experiment, run_name, run, values, where)
                if (name, run_name, spec.point) in runs:
                    raise FedatlasError(
                        f"{where}: runs.{run_name}.grid: lists '{spec.point}' twice"
                    )
                runs[name, run_name, spec.point] = spec
                _check_partition(spec, catalogue, f"{where}: runs.{run_name}")
                for seed in spec.seeds:
                    partition = spec.partition.of_trial(seed)
                    partitions[partition.slug] = partition
                    if spec.optimum:
                        rows = pooled_rows(partition)
                        pooled[rows.rows_slug] = partitions[rows.slug] = rows
                if isinstance(spec.objective, LinearObjective):
                    objectives[spec.objective.slug] = spec.objective
    plan = Plan(catalogue, experiments, runs, partitions, pooled, objectives)
    _check_tuning(plan, folder)
    return plan


def _specification(
    name: str,
    experiment: Experiment,
    run_name: str,
    run: RunConfig,
    values: dict[str, Any],
    where: str,
) -> RunSpec:
    partition = experiment.partition_of(run_name)
    network = experiment.network
    if partition.kind == "vertical" and network is None:
        network = NetworkModel()
    graphs = run.graphs
    if run.algorithm in algorithm_names() and algorithm_class(run.algorithm).on_graphs:
        graphs = graphs or experiment.graphs
    spec = RunSpec(
        paper=experiment.paper,
        experiment=name,
        run=run_name,
        point="",
        dataset=experiment.dataset,
        split=experiment.split,
        partition=partition,
        network=network,
        graphs=graphs,
        objective=experiment.objective_of(run_name),
        optimum=experiment.measures_suboptimality,
        algorithm=run.algorithm,
        hyper_parameters=values,
        tuned_in=run.tuned_in,
        rounds=experiment.rounds_of(run_name),
        record_every=experiment.record_every_of(run_name),
        seeds=experiment.seeds,
    )
    if run.tuned_in is not None:
        # Which point is chosen is known when it is; that the method accepts one is checked later.
        return spec.model_copy(update={"point": TUNED})
    algorithm = spec.build_algorithm(f"{where}: runs.{run_name}.hyper_parameters")
    # As validated: 1e-2, which YAML reads as text, and 0.01 are one value and one name.
    validated = algorithm.model_dump(mode="json", exclude_unset=True)
    point = "_".join(f"{key}-{flat(validated)[key]}" for key in run.grid) or "only"
    _check_name(point, f"{where}: runs.{run_name}.grid")
    return spec.model_copy(update={"hyper_parameters": validated, "point": point})


def _check_tuning(plan: Plan, folder: Path) -> None:
    """Runs that are tuned elsewhere: by the same method, on other seeds."""
    first_points = {(spec.experiment, spec.run): spec for spec in reversed(plan.runs.values())}
    for spec in plan.runs.values():
        if spec.tuned_in is None:
            continue
        where = f"{_file_of(spec.experiment, folder)}: runs.{spec.run}.tuned_in"
        other = first_points.get((spec.tuned_in, spec.run))
        if other is None:
            raise FedatlasError(
                f"{where}: there is no run '{spec.run}' in an experiment '{spec.tuned_in}'"
            )
        if other.algorithm != spec.algorithm or other.tuned_in is not None:
            raise FedatlasError(
                f"{where}: {other.experiment}/{other.run} must choose a point of {spec.algorithm}"
            )
        if not set(other.seeds).isdisjoint(spec.seeds):
            raise FedatlasError(
                f"{where}: shares the seeds {sorted({*other.seeds} & {*spec.seeds})} with "
                f"{spec.tuned_in}: what was tuned on a seed must not be judged by it"
            )
        stated = other.hyper_parameters | spec.hyper_parameters
        spec.model_copy(update={"hyper_parameters": stated}).build_algorithm(where)


def _file_of(experiment: str, folder: Path) -> str:
    return str(folder / f"{experiment.replace('-', '/', 1)}.yaml")


def _check_name(name: str, where: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise FedatlasError(
            f"{where}: '{name}' becomes a file name: use letters, digits, '.', '_', '+' and '-'"
        )


def _check_dataset(experiment: Experiment, catalogue: Catalogue, where: str) -> None:
    try:
        dataset = catalogue[experiment.dataset]
        dataset.split(experiment.split)
    except FedatlasError as error:
        raise FedatlasError(f"{where}: {error}") from None
    if dataset.format not in READABLE_FORMATS:
        raise FedatlasError(
            f"{where}: key 'dataset': {experiment.dataset} has the format '{dataset.format}', "
            f"which cannot be read yet; readable are {', '.join(sorted(READABLE_FORMATS))}"
        )
    for run in experiment.runs:
        objective, partition = experiment.objective_of(run), experiment.partition_of(run)
        # Of a partition that makes labels binary, whatever they were.
        binary = dataset.task == "binary" or getattr(partition, "binary", None) is not None
        if isinstance(objective, ClassificationObjective):
            _check_model(objective, dataset, partition, f"{where}: key 'objective.model'")
            if dataset.task == "regression" or (objective.is_binary and not binary):
                raise FedatlasError(
                    f"{where}: key 'objective', value '{objective.name}': needs "
                    f"{'labels ±1' if objective.is_binary else 'classes'}, but "
                    f"{experiment.dataset} is a {dataset.task} data set"
                )
            continue
        needs_signs = isinstance(objective, AucObjective) or objective.loss is Loss.LOGISTIC
        if (needs_signs and not binary) or (dataset.task == "multiclass" and not binary):
            raise FedatlasError(
                f"{where}: key 'objective', value '{objective.name}': needs "
                f"{'labels ±1' if needs_signs else 'labels ±1 or real ones'}, but "
                f"{experiment.dataset} is a {dataset.task} data set; a partition's 'binary' says "
                "which labels are positive"
            )
        if isinstance(objective, AucObjective):
            _check_model(objective, dataset, partition, f"{where}: key 'objective.model'")


def _check_graphs(experiment: Experiment, where: str) -> None:
    known = {run.algorithm for run in experiment.runs.values()} & set(algorithm_names())
    if experiment.graphs and not any(algorithm_class(name).on_graphs for name in known):
        raise FedatlasError(f"{where}: key 'graphs': no run works on graphs; remove it")


def _check_model(
    objective: NetworkObjective, dataset: Dataset, partition: Partition, where: str
) -> None:
    if objective.model not in architecture_names():
        raise FedatlasError(
            f"{where}, value '{objective.model}': no such network; there are: "
            f"{', '.join(architecture_names())}"
        )
    # Silos have blocks of columns where nothing else is said.
    if dataset.shape is None and not isinstance(partition, TieredPartition):
        raise FedatlasError(f"{where}: networks need samples with a shape; {dataset.name} has none")


def _check_optimum(spec: RunSpec, rows: int | None, where: str) -> None:
    """One f* for all kinds of partitions: of the mean over the same rows."""
    partition = spec.partition
    if not isinstance(spec.objective, LinearObjective):
        raise FedatlasError(f"{where}: suboptimality is measured of linear models only")
    try:
        pooled_rows(partition)
        if isinstance(partition, HorizontalPartition):
            _check_equal_clients(partition, partition.samples if rows is None else rows)
    except FedatlasError as error:
        raise FedatlasError(f"{where}: {error}") from None


def _check_equal_clients(partition: HorizontalPartition, rows: int | None) -> None:
    """The mean over clients is that over rows only if all have equally many."""
    why = "suboptimality needs clients that have equally many samples"
    if rows is None:
        raise FedatlasError(f"{why}, of rows that the catalogue does not count; state 'samples'")
    samples = len(train_and_test_rows(partition, rows)[0])
    if samples % partition.clients:
        raise FedatlasError(
            f"{why}: {partition.clients} clients do not share {samples} training rows evenly; "
            "state 'samples'"
        )


def _check_partition(spec: RunSpec, catalogue: Catalogue, where: str) -> None:
    """As far as the catalogue knows rows and features; the assignment has the last word."""
    dataset, partition = catalogue[spec.dataset], spec.partition
    rows = dataset.split(spec.split).rows
    if spec.optimum:
        _check_optimum(spec, rows, where)
    wanted = partition.samples or 0
    if not isinstance(partition, VerticalPartition):
        wanted = max(wanted, partition.clients)
        if isinstance(partition, TieredPartition):
            try:
                silo_blocks(partition, dataset.shape or (dataset.features,))
            except FedatlasError as error:
                raise FedatlasError(f"{where}: {error} (data set '{spec.dataset}')") from None
    elif partition.parties > dataset.features:
        raise FedatlasError(
            f"{where}: the partition asks for {partition.parties} parties, but {spec.dataset} has "
            f"only {dataset.features} features, and each party needs one"
        )
    if rows is not None and wanted > rows:
        raise FedatlasError(
            f"{where}: the partition asks for {wanted} rows or clients, but {spec.dataset} has "
            f"{rows} rows"
        )
    if isinstance(partition, TieredPartition) and rows is not None and spec.tuned_in is None:
        try:
            # At most: how many are thinned out by class, the catalogue does not know.
            samples = len(train_and_test_rows(partition, rows)[0])
            if partition.clients > samples:
                raise FedatlasError(
                    f"key 'partition.clients': {partition.clients} clients cannot share "
                    f"{samples} training samples; lower it"
                )
            spec.build_algorithm(where).check_samples(samples)
        except FedatlasError as error:
            raise FedatlasError(f"{where}: {error} (data set '{spec.dataset}')") from None
    if partition.test_split is not None:
        try:
            dataset.split(partition.test_split)
        except FedatlasError as error:
            raise FedatlasError(f"{where}: key 'partition.test': {error}") from None
