"""Check experiments against each other, the catalogue and the papers, before any job runs."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from fedatlas.algorithms import algorithm_class, algorithm_names
from fedatlas.architectures import architecture_names
from fedatlas.data.catalogue import Catalogue
from fedatlas.data.datasets import Dataset
from fedatlas.errors import FedatlasError, error_context, similar
from fedatlas.federations.algorithm import Algorithm
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.objectives import (
    LinearObjective,
    NetworkObjective,
)
from fedatlas.schema.papers import OURS
from fedatlas.schema.partitions import (
    Partition,
)
from fedatlas.schema.quantities import declared_as, declared_network
from fedatlas.schema.runs import RunSpec
from fedatlas.shards.assignment import train_and_test_sizes
from fedatlas.shards.columns import listed_blocks

#: Characters of a file's name, to which suffixes and those of temporary files are added.
LONGEST_NAME = 200
# Tasks of data sets, or a format → what objectives need.
_NEEDED = {
    "binary": "labels ±1",
    "multiclass": "classes",
    "regression": "real labels",
    "synthetic_noise": "samples that are noise, of the format synthetic_noise",
}


def check_name(name: str, where: str) -> None:
    """The name of a run or of a grid point can be a file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise FedatlasError(
            f"{where}: '{name}' becomes a file name: use letters, digits, '.', '_', '+' and '-'"
        )
    if len(name) > LONGEST_NAME:
        raise FedatlasError(
            f"{where}: '{name}' becomes a file name: it has {len(name)} characters, and at most "
            f"{LONGEST_NAME} fit; vary fewer hyper-parameters at a time, or shorten it"
        )


def check_methods(experiment: Experiment, where: str) -> None:
    """Methods are files, whose edits train runs anew; a notebook's class is none."""
    for name, run in experiment.runs.items():
        if ":" in run.algorithm:
            raise FedatlasError(
                f"{where}: key 'runs.{name}.algorithm', value '{run.algorithm}': is a class of a "
                "notebook; name the method of a file, as `fedatlas new method` begins one"
            )


def check_paper(experiment: Experiment, papers: Collection[str], where: str) -> None:
    """The paper is described, or the experiment is of no single one."""
    if experiment.paper not in (*papers, OURS):
        raise FedatlasError(
            f"{where}: key 'paper', value '{experiment.paper}': papers.yaml describes no such "
            f"paper; use one of {', '.join((*papers, OURS))}"
        )


def check_sentences(
    experiment: Experiment, sentences: Mapping[str, Collection[str]], where: str
) -> None:
    """The sentences that claims test are the paper's."""
    known = sentences.get(experiment.paper, ())
    for claim in experiment.claims:
        if claim.sentence is not None and claim.sentence not in known:
            raise FedatlasError(
                f"{where}: claim '{claim.id}': key 'sentence', value '{claim.sentence}': "
                f"sentences.yaml has none of paper '{experiment.paper}' with this id"
                f"{similar(claim.sentence, known)}; without this key it is a question of your own"
            )


def check_dataset(experiment: Experiment, catalogue: Catalogue, where: str) -> None:
    """The data set exists, can be read, and has the labels and shapes that objectives need."""
    with error_context(where):
        dataset = catalogue[experiment.dataset]
        dataset.split(experiment.split)
    for run in experiment.runs:
        objective, partition = experiment.objective_of(run), experiment.partition_of(run)
        # A partition may make labels binary, whatever they were.
        task = dataset.task if getattr(partition, "binary", None) is None else "binary"
        if not {task, dataset.format}.intersection(objective.tasks):
            needed = " or ".join(_NEEDED[task] for task in objective.tasks)
            raise FedatlasError(
                f"{where}: key 'objective', value '{objective.name}': needs {needed}, but "
                f"{experiment.dataset} is a {dataset.task} data set of the format "
                f"{dataset.format}; a partition's 'binary' says which labels are positive"
            )
        if isinstance(objective, NetworkObjective):
            _check_model(objective.model, f"{where}: key 'objective.model'")


def check_tuning_seeds(experiment: Experiment, where: str) -> None:
    """Points that claims are about are chosen on seeds that no verdict looks at."""
    for claim in experiment.claims if not experiment.tuning_seeds else ():
        chosen = [run for run in claim.test.runs if experiment.chooses(run)]
        if claim.test.of_choice and chosen:
            declared = f", which {experiment.runs_of} states" if experiment.runs_of else ""
            raise FedatlasError(
                f"{where}: key 'tuning_seeds'{declared}: is missing, but claim '{claim.id}' is "
                f"about the chosen point of run '{chosen[0]}': what is chosen on a seed must not "
                "be judged by it. Name seeds that are not in 'seeds', such as [100, 101, 102]"
            )


def check_graphs(experiment: Experiment, where: str) -> None:
    """Graphs are declared only if a run works on them."""
    known = {run.algorithm for run in experiment.runs.values()} & set(algorithm_names())
    if experiment.graphs and not any(algorithm_class(name).federation.on_graphs for name in known):
        raise FedatlasError(
            f"{where}: key 'graphs': no run works on graphs; {experiment.remedy('graphs')}"
        )


def check_costs(experiment: Experiment, where: str) -> None:
    """Runs count what claims and figures look at."""
    for what, named, _, counted in experiment.looked_at():
        for cost in counted:
            reasons = {
                run: why for run in named if (why := _why_not_counted(experiment, run, cost))
            }
            # A figure's column shows the runs that count its cost, if any does.
            if reasons and (what != "the figure" or len(reasons) == len(named)):
                run, why = next(iter(reasons.items()))
                raise FedatlasError(
                    f"{where}: {what} looks at {cost}, which run '{run}' does not count: {why}"
                )


def _why_not_counted(experiment: Experiment, run: str, cost: str) -> str:
    """Why a run does not count a cost; empty if it does."""
    try:
        method = algorithm_class(experiment.runs[run].algorithm)
    except FedatlasError:  # which has its own place: where its runs are planned
        return ""
    if declared := declared_as(cost):
        return experiment.why_not(declared, run)
    on_graphs = method.federation.on_graphs
    federation = experiment.federation_of(run, on_graphs)
    reason = federation.why_not_counted(cost, experiment.network_of(run, on_graphs))
    if reason:
        return reason
    if cost == "epsilon" and not method.has_budgets():
        return "it is not private, as its method has no 'budgets'"
    if declared_network(cost) and method.asynchronous:
        return "its clients do not wait for each other; name simulated_time, by its own 'network'"
    return ""


def _check_model(model: str, where: str) -> None:
    if model not in architecture_names():
        raise FedatlasError(
            f"{where}, value '{model}': no such network; there are: "
            f"{', '.join(architecture_names())}"
        )


def _check_optimum(spec: RunSpec, where: str) -> None:
    """f* can be found, and where rows are pooled they are those that all have."""
    if not isinstance(spec.objective, LinearObjective):
        raise FedatlasError(f"{where}: suboptimality is measured for linear models only")
    with error_context(where):
        spec.optimum_rows(spec.seeds[0])


def is_of_clients(spec: RunSpec, catalogue: Catalogue) -> bool:
    """Whether f* of a run is that of its own clients' mean, not that of the mean over rows.

    The two are one where clients count by their samples, or equally and hold equally many; then
    runs of all federations share it, unless the trial decides which rows train.
    """
    partition = spec.partition
    if not (spec.federation.mean_of_clients and isinstance(spec.objective, LinearObjective)):
        return False
    try:
        partition.pooled()
    except FedatlasError:
        return True
    if spec.objective.client_weights != "equal":
        return spec.objective.client_weights != "size"
    rows = catalogue[spec.dataset].split(spec.split).rows
    known = partition.samples if rows is None else rows
    samples = None if known is None else train_and_test_sizes(partition, known)[0]
    return samples is None or samples % sum(partition.clients_by_silo) != 0


def check_partition(spec: RunSpec, catalogue: Catalogue, where: str) -> None:
    """The data set has enough rows and features, as far as the catalogue knows them.

    What it does not know is checked when rows are assigned.
    """
    dataset, partition = catalogue[spec.dataset], spec.partition
    rows = dataset.split(spec.split).rows
    if partition.intercept and dataset.shape is not None:
        raise FedatlasError(
            f"{where}: key 'partition.intercept': {spec.dataset} has samples of shape "
            f"{dataset.shape}, of which networks learn with biases of their own; remove it"
        )
    if spec.optimum:
        _check_optimum(spec, where)
    with error_context(where, f" (data set '{spec.dataset}')"):
        spec.federation.check_columns(partition, dataset.shape or (dataset.features,))
    wanted = max(partition.samples or 0, partition.fewest_samples)
    if rows is not None and wanted > rows:
        raise FedatlasError(
            f"{where}: the partition asks for {wanted} rows or clients, but {spec.dataset} has "
            f"{rows} rows"
        )
    _check_columns(partition, dataset, where)
    if partition.test_split is not None:
        with error_context(f"{where}: key 'partition.test'"):
            dataset.split(partition.test_split)


def _check_columns(partition: Partition, dataset: Dataset, where: str) -> None:
    """The columns that a partition names are the data set's."""
    if (column := getattr(partition, "column", None)) and column not in dataset.kept:
        there = f"it keeps {', '.join(dataset.kept)}" if dataset.kept else "it keeps none"
        raise FedatlasError(
            f"{where}: key 'partition.column', value '{column}': data set {dataset.name} keeps no "
            f"such column; {there}{similar(column, dataset.kept)}. Entries of CSV files list those "
            "to keep as 'keep' under 'csv'"
        )
    if columns := getattr(partition, "columns", None):
        _check_features([name for own in columns for name in own], dataset, where)
        with error_context(f"{where}: key 'partition.columns'", f" (data set '{dataset.name}')"):
            listed_blocks(columns, dataset.features, dataset.feature_names)


def _check_features(columns: Collection[Any], dataset: Dataset, where: str) -> None:
    """Columns of a table that a partition names for its parties are features."""
    table: Any = getattr(dataset, dataset.format, None)
    features = dataset.feature_names or ()
    roles: dict[str, Collection[Any]] = {"label": [getattr(table, "label", None)]}
    roles |= {key: getattr(table, key, ()) for key in ("ignore", "keep")}
    for role, names in roles.items():
        # A column that is kept may be a feature besides.
        found = [one for one in columns if one in names and one not in features]
        if found:
            told = "the active parties hold it anyway" if role == "label" else "it is no feature"
            raise FedatlasError(
                f"{where}: key 'partition.columns', value '{found[0]}': data set {dataset.name} "
                f"has it as '{role}', and {told}: remove it here"
            )


def check_samples(algorithm: Algorithm, spec: RunSpec, catalogue: Catalogue, where: str) -> None:
    """The method has enough training rows, as far as the catalogue knows them."""
    rows = catalogue[spec.dataset].split(spec.split).rows
    if rows is None:
        return
    with error_context(where, f" (data set '{spec.dataset}')"):
        # At most: how many are thinned out by class, the catalogue does not know.
        samples, _ = train_and_test_sizes(spec.partition, rows)
        clients = max(spec.partition.clients_by_silo, default=0)
        if clients > samples:
            raise FedatlasError(
                f"key 'partition.clients': {clients} clients cannot share "
                f"{samples} training samples; lower it"
            )
        if (needed := spec.partition.fewest_samples) > samples:
            raise FedatlasError(
                f"key 'partition': {clients} clients need {needed} samples together, but there are "
                f"{samples} to train on; lower clients, or what each is to have"
            )
        algorithm.check_samples(samples)


def check_tuning(spec: RunSpec, experiments: dict[str, Experiment], where: str) -> None:
    """A run that is tuned elsewhere is tuned by the same method, on other seeds."""
    where = f"{where}.tuned_in"
    tuning = experiments.get(spec.tuned_in or "")
    if tuning is None or spec.run not in tuning.runs:
        raise FedatlasError(
            f"{where}: there is no run '{spec.run}' in an experiment '{spec.tuned_in}'"
        )
    other = tuning.runs[spec.run]
    if other.algorithm != spec.algorithm or other.tuned_in is not None:
        raise FedatlasError(
            f"{where}: {spec.tuned_in}/{spec.run} must choose a point of {spec.algorithm}"
        )
    # Points of a run with tuning seeds are chosen on those.
    looked_at = tuning.tuning_seeds or tuning.seeds
    both = sorted({*looked_at} & {*spec.seeds})
    if both:
        raise FedatlasError(
            f"{where}: shares the seeds {both} with {spec.tuned_in}: what was tuned on a seed must "
            "not be judged by it"
        )
