"""The plan of a workflow: experiments expanded into jobs, all known before any job runs.

Imported when the workflow is parsed: light, no network, no data.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice, product
from pathlib import Path
from typing import Any

from fedatlas.algorithms import algorithm_class, algorithm_names, build_algorithm
from fedatlas.data.catalogue import Catalogue, load_catalogue
from fedatlas.errors import FedatlasError, error_context, similar
from fedatlas.plan.checks import (
    check_costs,
    check_dataset,
    check_graphs,
    check_methods,
    check_name,
    check_paper,
    check_partition,
    check_samples,
    check_sentences,
    check_tuning,
    check_tuning_seeds,
    is_of_clients,
)
from fedatlas.plan.places import files_named, no_project
from fedatlas.schema.config import is_named
from fedatlas.schema.experiment_files import Head, find_heads, load_experiments, meant_in
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.papers import Paper, Sentence, load_papers, load_sentences
from fedatlas.schema.partitions import Partition, VerticalPartition
from fedatlas.schema.runs import RunConfig, RunSpec, apart, at_point, flat

#: The point of a run that is tuned in another experiment.
TUNED = "tuned"


def group_of(experiment: str) -> str:
    """The folder in which the experiment's file lies: a paper's key, or "demo"."""
    return experiment.split("-", 1)[0]


@dataclass(frozen=True)
class Plan:
    """All jobs and results of the experiments that were read, by name."""

    catalogue: Catalogue
    papers: dict[str, Paper]  # in the order of their file
    sentences: dict[str, dict[str, Sentence]]  # that they claim, by paper and id
    heads: tuple[Head, ...]  # of all experiments there are
    experiments: dict[str, Experiment]
    runs: dict[tuple[str, str, str], RunSpec]  # (experiment, run, point) → specification
    partitions: dict[str, Partition]  # of every trial, by slug
    pooled: dict[str, Partition]  # rows on which an optimum is found, by name
    objectives: dict[str, LinearObjective]  # by slug, of which optima may be found

    def run(self, experiment: str, run: str, point: str) -> RunSpec:
        """The specification of a training job."""
        return self.runs[experiment, run, point]

    def runs_of(self, experiment: str) -> list[RunSpec]:
        """All training jobs of an experiment, in the order of its file."""
        owner = self.experiments[experiment].runs_of or experiment
        shown = self.experiments[experiment].runs
        return [spec for spec in self._runs_by_experiment.get(owner, ()) if spec.run in shown]

    @property
    def runs_shown(self) -> dict[str, list[str]]:
        """Experiments without runs of their own → the runs of others that they show."""
        return {
            name: [f"{each.runs_of}/{run}" for run in each.runs]
            for name, each in self.experiments.items()
            if each.runs_of
        }

    @cached_property
    def _runs_by_experiment(self) -> dict[str, list[RunSpec]]:
        found: dict[str, list[RunSpec]] = {}
        for spec in self.runs.values():
            found.setdefault(spec.experiment, []).append(spec)
        return found

    def agents_of(self, experiment: str) -> int:
        """How many agents are on an experiment's graphs; if it has none, on those of its runs."""
        drawn = self.experiments[experiment].graphs
        specs = [spec for spec in self.runs_of(experiment) if spec.graphs is not None]
        return len(min(specs, key=lambda spec: spec.graphs != drawn).graph_weights[0])

    def run_titles(self, experiment: str) -> dict[str, str]:
        """Titles of runs in figures; runs that share their method's title add their names."""
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
        """Experiments whose name matches one of the patterns; FedatlasError for one without any."""
        for pattern in patterns:
            if not any(is_named(name, [pattern]) for name in self.experiments):
                there = sorted({f"{group_of(head.name)}-*" for head in self.heads})
                hint = meant_in(pattern, self.heads) or f"; there are: {', '.join(there)}."
                if f"{group_of(pattern)}-*" not in there:
                    hint = no_project() + hint
                raise FedatlasError(
                    f"'{pattern}' matches no experiment{hint} Experiments are targets of "
                    "snakemake, or stand in its configuration key 'experiments'. `fedatlas list` "
                    "lists all"
                )
        return [name for name in self.experiments if is_named(name, patterns)]


def heads_in(config_folder: Path, *projects: Path) -> list[Head]:
    """The files of experiments of these folders; FedatlasError for a folder that is not here."""
    if not config_folder.is_dir():
        raise FedatlasError(
            f"{config_folder.absolute()}: there is no such folder: name that of the workflow's "
            "configuration (fedatlas … --config ROOT/config)"
        )
    return find_heads(*_experiments_of(config_folder, *projects))


def _experiments_of(*folders: Path) -> list[Path]:
    return [folder / "experiments" for folder in folders]


def build_plan(
    config_folder: Path,
    *projects: Path,
    names: Iterable[str] = ("*",),
    added_seeds: Mapping[str, int] | None = None,
) -> Plan:
    """Read and validate data sets, papers and experiments of these folders, and what they need.

    Projects need not have files of each kind. names: of experiments, or globs; other files are not
    read. added_seeds: how many experiments have beside those declared, see `WorkflowConfig`.
    FedatlasError for the first fault in what is read.
    """
    heads = heads_in(config_folder, *projects)
    catalogue = load_catalogue(*files_named("datasets.yaml", config_folder, projects))
    papers = load_papers(*files_named("papers.yaml", config_folder, projects))
    files = files_named("sentences.yaml", config_folder, projects)
    sentences = load_sentences(*files, papers=papers)
    names, added = tuple(names), added_seeds or {}
    folders = _experiments_of(config_folder, *projects)
    experiments = load_experiments(*folders, names=[*names, *added])
    experiments = _with_seeds(experiments, added, heads)
    plan = Plan(catalogue, papers, sentences, tuple(heads), experiments, {}, {}, {}, {})
    for name, experiment in experiments.items():
        check_methods(experiment, experiment.where)
        _add_jobs(plan, name)
    return plan


def plan_of(experiments: Mapping[str, Experiment], catalogue: Catalogue) -> Plan:
    """A plan of experiments that no file declares, without claims."""
    plan = Plan(catalogue, {}, {}, (), dict(experiments), {}, {}, {}, {})
    for name in experiments:
        _add_jobs(plan, name)
    return plan


def _with_seeds(
    experiments: dict[str, Experiment], added: Mapping[str, int], heads: Sequence[Head]
) -> dict[str, Experiment]:
    """The experiments with added seeds, which others that show their runs have, too."""
    for name in added:
        where = f"configuration key 'added_seeds': '{name}'"
        if name not in experiments:
            told = meant_in(name, heads)
            raise FedatlasError(f"{where}: there is no such experiment{told}")
        if other := experiments[name].runs_of:
            raise FedatlasError(f"{where} shows the runs of '{other}': add seeds to it")
    found = dict(experiments)
    for name, experiment in experiments.items():
        owner = experiment.runs_of or name
        if owner in added:
            more = _next_seeds(experiments[owner], experiments, added[owner])
            seeds = {"seeds": (*experiment.seeds, *more), "seeds_added": True}
            found[name] = experiment.model_copy(update=seeds)
    return found


def _next_seeds(
    experiment: Experiment, experiments: Mapping[str, Experiment], number: int
) -> list[int]:
    """The next numbers after the declared seeds; not those by which points were chosen."""
    tuning = set(experiment.tuning_seeds)
    for run in experiment.runs.values():
        if other := experiments.get(run.tuned_in or ""):
            tuning |= {*other.seeds, *other.tuning_seeds}
    following = (seed for seed in count(max(experiment.seeds) + 1) if seed not in tuning)
    return list(islice(following, number))


def _add_jobs(plan: Plan, name: str) -> None:
    """FedatlasError for what does not fit the catalogue, the papers or other experiments."""
    experiment, catalogue = plan.experiments[name], plan.catalogue
    where = experiment.where
    check_paper(experiment, plan.papers, where)
    check_sentences(experiment, plan.sentences, where)
    check_dataset(experiment, catalogue, where)
    check_tuning_seeds(experiment, where)
    check_costs(experiment, where)
    if experiment.runs_of is not None:
        owner = plan.experiments[experiment.runs_of]
        if experiment.measures_suboptimality and not owner.measures_suboptimality:
            raise FedatlasError(
                f"{where}: uses suboptimality, which {experiment.runs_of} does not measure"
            )
        return
    check_graphs(experiment, where)
    for run_name, run in experiment.runs.items():
        check_name(run_name, f"{where}: run")
        declared = _specification(name, experiment, run_name, run)
        with error_context(f"{where}: runs.{run_name}"):
            if declared.optimum and is_of_clients(declared, catalogue):
                declared = declared.model_copy(update={"optimum": "of_clients"})
        check_partition(declared, catalogue, f"{where}: runs.{run_name}")
        add_partitions(plan, declared, declared.seeds)
        if isinstance(declared.objective, LinearObjective):
            plan.objectives[declared.objective.slug] = declared.objective
        for spec in _points(plan, declared, run.grid):
            if (name, run_name, spec.point) in plan.runs:
                raise FedatlasError(f"{where}: runs.{run_name}.grid: lists '{spec.point}' twice")
            plan.runs[name, run_name, spec.point] = spec
    for partition in validated_partitions(experiment):
        plan.partitions[partition.slug] = partition


def add_partitions(plan: Plan, run: RunSpec, seeds: Iterable[int]) -> None:
    """Add the partitions that a run has under these seeds."""
    for seed in seeds:
        partition = run.partition.of_seed(seed)
        plan.partitions[partition.slug] = partition
        if run.optimum:
            called, rows = run.optimum_rows(seed)
            plan.pooled[called] = plan.partitions[rows.slug] = rows


def validated_partitions(experiment: Experiment) -> list[VerticalPartition]:
    """On which processes are compared with the simulated network, by number of parties."""
    declared = experiment.validation
    if declared is None:
        return []
    own: Any = experiment.partition.of_seed(experiment.seeds[0])
    changes = [{"parties": parties, "active": declared.active} for parties in declared.parties]
    return [own.model_copy(update=change) for change in changes]


def _specification(name: str, experiment: Experiment, run_name: str, run: RunConfig) -> RunSpec:
    """What all points of a run have in common."""
    partition = experiment.partition_of(run_name)
    tuning_seeds = experiment.tuning_seeds if experiment.chooses(run_name) else ()
    graphs = run.graphs
    if run.algorithm in algorithm_names() and algorithm_class(run.algorithm).federation.on_graphs:
        graphs = graphs or experiment.graphs
    return RunSpec(
        paper=experiment.paper,
        experiment=name,
        run=run_name,
        point=TUNED,
        dataset=experiment.dataset,
        split=experiment.split,
        partition=partition,
        network=experiment.network_of(run_name, graphs is not None),
        backend=run.backend,
        graphs=graphs,
        objective=experiment.objective_of(run_name),
        optimum=experiment.measures_suboptimality,
        algorithm=run.algorithm,
        hyper_parameters=run.hyper_parameters,
        tuned_in=run.tuned_in,
        rounds=experiment.rounds_of(run_name),
        record_every=experiment.record_every_of(run_name),
        until=experiment.until if run.until is None else run.until,
        measurements=experiment.measurements_of(run_name),
        seeds=(*experiment.seeds, *tuning_seeds),
        tuning_seeds=tuning_seeds,
    )


def _in_name(value: Any) -> str:
    """A value of a grid in its point's name; of a mapping all values."""
    return "-".join(map(str, value.values())) if isinstance(value, Mapping) else str(value)


def _points(plan: Plan, declared: RunSpec, grid: Mapping[str, Sequence[Any]]) -> Iterator[RunSpec]:
    """The run at the points of its grid; one that is tuned elsewhere lacks what is not known.

    Which values are chosen is known when they are; here the first that is tried stands for them.
    """
    where = f"{plan.experiments[declared.experiment].where}: runs.{declared.run}"
    taken: dict[str, Any] = {}
    if declared.tuned_in is not None:
        check_tuning(declared, plan.experiments, where)
        other = plan.experiments[declared.tuned_in].runs[declared.run]
        first = {key: tried[0] for key, tried in other.grid.items()}
        taken = at_point(other.hyper_parameters, apart(first), where)
    whole = TUNED if declared.tuned_in is not None else "only"
    is_known = declared.algorithm in algorithm_names()
    fields = algorithm_class(declared.algorithm).model_fields if is_known else {}
    for name in (name for key in grid for name in key.split(", ")):
        if is_known and name.partition(".")[0] not in fields:
            raise FedatlasError(
                f"{where}.grid: {declared.algorithm} has no key '{name}'{similar(name, fields)}; "
                f"it has {', '.join(sorted(fields))}"
            )
    for combination in product(*grid.values()):
        chosen = apart(dict(zip(grid, combination, strict=True)))
        values = at_point(declared.hyper_parameters, chosen, where)
        spec = declared.model_copy(update={"hyper_parameters": taken | values})
        algorithm = build_algorithm(spec, where)
        # As validated: 1e-2, which YAML reads as text, and 0.01 are one value and one name.
        validated = algorithm.model_dump(mode="json", exclude_unset=True)
        named = flat(validated)
        point = "_".join(f"{key}-{_in_name(named[key])}" for key in chosen) or whole
        check_name(point, f"{where}.grid")
        check_samples(algorithm, spec, plan.catalogue, where)
        own = {key: value for key, value in validated.items() if key in values}
        yield declared.model_copy(update={"hyper_parameters": own, "point": point})
