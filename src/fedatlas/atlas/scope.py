"""What the configuration tells of a selection: what the summary says besides results.

Imported when the workflow is parsed, which keeps a digest of it: light. Nothing else of the
configuration is looked at by the summary, so that it is written again when this changes and not
otherwise.
"""

from collections.abc import Collection, Iterable, Sequence

from fedatlas.algorithms import algorithm_class
from fedatlas.data.datasets import Dataset
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, text_digest
from fedatlas.plan.build import Plan, group_of
from fedatlas.schema.claims import Claim
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.figures import Figure
from fedatlas.schema.models import Model
from fedatlas.schema.papers import DEMO, OURS, Erratum, Paper
from fedatlas.schema.partitions import (
    HorizontalPartition,
    Partition,
    TieredPartition,
    VerticalPartition,
)

#: Keys of experiments by which more is computed than traces.
STUDIES = ("audit", "budgets", "landscape", "privacy_audit")


class SelectedExperiment(Model):
    """One experiment of the selection; dimensions are in words.

    runs_of: the experiment whose traces it shows: itself, or another. points: of all runs' grids.
    files: what people look at, beside it in its folder, and what it is.
    """

    name: str
    title: str
    source: str
    notes: str
    runs_of: str
    trained: bool
    dataset: str
    dataset_title: str
    rows: str
    among: str
    runs: dict[str, str]
    points: dict[str, int]
    rounds: str
    seeds: int
    claims: tuple[Claim, ...]
    figure: Figure
    files: dict[str, str]


class OtherExperiment(Model):
    """One that is defined, but not selected."""

    name: str
    source: str
    dataset_title: str


class PaperScope(Model):
    """What was selected of a paper; paper: None for experiments of our own."""

    key: str
    paper: Paper | None
    selected: tuple[SelectedExperiment, ...]
    others: tuple[OtherExperiment, ...]
    errata: tuple[Erratum, ...]


def read_scope(plan: Plan, names: Collection[str]) -> list[PaperScope]:
    """What the summary tells of the experiments with these names by paper, ours at the end."""
    unknown = [name for name in names if name not in plan.experiments]
    if unknown:
        raise FedatlasError(
            f"there is no experiment '{unknown[0]}'; there are: {', '.join(plan.experiments)}"
        )
    scopes = []
    for key in (*plan.papers, OURS):
        own = {name: each for name, each in plan.experiments.items() if each.paper == key}
        selected = [name for name in own if name in names]
        paper = plan.papers.get(key)
        errata = paper.errata if paper else ()
        subjects = {each for name in selected for each in _subjects(own[name])}
        scopes.append(
            PaperScope(
                key=key,
                paper=paper.model_copy(update={"errata": ()}) if paper else None,
                selected=tuple(_selected(plan, name) for name in selected),
                others=tuple(
                    OtherExperiment(
                        name=name,
                        source=each.source,
                        dataset_title=plan.catalogue[each.dataset].title,
                    )
                    for name, each in own.items()
                    # The demo's are small cases of the papers' experiments: not missed.
                    if name not in names and group_of(name) != DEMO
                ),
                errata=tuple(each for each in errata if _matters(each, subjects)),
            )
        )
    return scopes


def digest_of_scope(plan: Plan, names: Collection[str]) -> str:
    """Digest of what the summary tells, which changes when the summary must be written again."""
    scopes = [scope.model_dump(mode="json") for scope in read_scope(plan, names)]
    return text_digest(canonical_json(scopes))


def _subjects(experiment: Experiment) -> set[str]:
    studies = {key for key in STUDIES if getattr(experiment, key)}
    methods = {run.algorithm for run in experiment.runs.values()}
    return {*studies, *methods, experiment.dataset}


def _matters(erratum: Erratum, subjects: Collection[str]) -> bool:
    return bool(subjects) and (
        not erratum.concerns or not set(erratum.concerns).isdisjoint(subjects)
    )


def _selected(plan: Plan, name: str) -> SelectedExperiment:
    experiment = plan.experiments[name]
    dataset = plan.catalogue[experiment.dataset]
    specs = plan.runs_of(name)
    return SelectedExperiment(
        name=name,
        title=experiment.title,
        source=experiment.source,
        notes=experiment.notes,
        runs_of=experiment.runs_of or name,
        trained=experiment.trained,
        dataset=experiment.dataset,
        dataset_title=dataset.title,
        rows=_rows(dataset, experiment),
        among=_among(experiment),
        runs=plan.run_titles(name),
        points={run: sum(spec.run == run for spec in specs) for run in experiment.runs},
        rounds=_span(experiment.rounds_of(run) for run in experiment.runs),
        seeds=len(experiment.seeds),
        claims=experiment.claims,
        figure=experiment.figure,
        files=_files(experiment),
    )


def _files(experiment: Experiment) -> dict[str, str]:
    files: dict[str, str] = {}
    if experiment.trained:
        files |= {"figure.png": "figure", "table.csv": "where all runs ended"}
    if experiment.graphs and not experiment.runs_of:
        files["graphs.png"] = "who sends to whom"
    if experiment.budgets:
        files |= {"budgets.png": "privacy budgets", "conditions.csv": "conditions of theorems"}
    if experiment.privacy_audit:
        files["privacy-audit.csv"] = "attacks on claimed budgets"
    if experiment.audit:
        files["leaks.csv"] = "what parties learn from each other"
    if experiment.landscape:
        files["landscape.png"] = "loss surface"
    return files


def _rows(dataset: Dataset, experiment: Experiment) -> str:
    rows = dataset.split(experiment.split).rows
    partition = experiment.partition
    parts = ["rows not counted beforehand" if rows is None else f"{_counted(rows, 'row')}"]
    if partition.samples is not None:
        parts.append(f"the first {partition.samples:,} of them used")
    if isinstance(partition.test, float):
        parts.append(f"{100 * partition.test:g} % for testing")
    elif isinstance(partition.test, int):
        parts.append(f"the last {partition.test:,} for testing")
    elif partition.test is not None:
        tested = dataset.split(partition.test).rows
        parts.append("others for testing" if tested is None else f"{tested:,} others for testing")
    binary = getattr(partition, "binary", None)
    if binary is not None:
        parts.append("labels made binary")
        for kept, which in (
            (binary.keep_negative, "negatives"),
            (binary.keep_positive, "positives"),
        ):
            if kept < 1:
                parts.append(f"{100 * kept:g} % of the {which} kept for training")
    return ", ".join(parts)


def _among(experiment: Experiment) -> str:
    """Who holds the rows: over all runs, whose partitions may differ."""
    alike: dict[tuple[str, bool], list[Partition]] = {}
    for name, run in experiment.runs.items():
        partition = experiment.partition_of(name)
        on_graphs = algorithm_class(run.algorithm).on_graphs
        alike.setdefault((partition.kind, on_graphs), []).append(partition)
    return "; ".join(_holders(same, on_graphs) for (_, on_graphs), same in alike.items())


def _holders(partitions: Sequence[Partition], on_graphs: bool) -> str:
    """Of partitions of one kind; on_graphs: whether their clients are agents without a server."""
    vertical = [each for each in partitions if isinstance(each, VerticalPartition)]
    if vertical:
        parties = _span((each.parties for each in vertical), "party", "parties")
        return f"{parties}, {_span(each.active for each in vertical)} with labels"
    tiered = [each for each in partitions if isinstance(each, TieredPartition)]
    if tiered:
        silos = _span((each.silos for each in tiered), "silo")
        return f"{silos}, {_span((each.clients for each in tiered), 'client')} in each"
    flat = [each for each in partitions if isinstance(each, HorizontalPartition)]
    holders = _span((each.clients for each in flat), "agent" if on_graphs else "client")
    assignments = dict.fromkeys(each.assignment.replace("_", " ") for each in flat)
    return f"{holders}, {' or '.join(assignments)}"


def _span(values: Iterable[int], unit: str = "", units: str = "") -> str:
    """The numbers in few words: one, or the least to the greatest."""
    ordered = sorted(set(values))
    if len(ordered) == 1:
        return _counted(ordered[0], unit, units)
    separator = " or " if len(ordered) == 2 else " to "
    numbers = f"{ordered[0]:,}{separator}{ordered[-1]:,}"
    return f"{numbers} {units or f'{unit}s'}" if unit else numbers


def _counted(number: int, unit: str, units: str = "") -> str:
    if not unit:
        return f"{number:,}"
    return f"{number:,} {unit if number == 1 else units or f'{unit}s'}"
