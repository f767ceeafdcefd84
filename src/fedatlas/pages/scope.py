"""What the summary says about the configuration, beside results.

The summary reads nothing else of the configuration, and is written again only when this changes.
The workflow imports this module while it parses, and keeps a digest of it, so it must load fast.
"""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from pydantic import SerializeAsAny

from fedatlas.algorithms import algorithm_class
from fedatlas.data.datasets import Dataset
from fedatlas.errors import FedatlasError
from fedatlas.extensions import projects
from fedatlas.files import canonical_json, text_digest
from fedatlas.plan.build import Plan, group_of
from fedatlas.plan.results import steps_of
from fedatlas.schema.claims import Claim
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.federation import Federation, federation_of, format_span
from fedatlas.schema.figures import Figure
from fedatlas.schema.models import Model
from fedatlas.schema.papers import DEMO, OURS, Paper
from fedatlas.schema.partitions import Partition
from fedatlas.steps import STEPS

#: Said of a split whose catalogue entry states no number of rows.
UNCOUNTED = "rows not counted beforehand"
#: Keys of experiments that ask for studies, which make more than traces.
STUDIES = {step.made_for for step in STEPS.values()}.difference(("", "selection", "trained"))


class SelectedExperiment(Model):
    """One experiment of the selection.

    runs_of: the experiment whose traces it shows, itself or another. rows, among, rounds: in words.
    points: run → size of its grid. files: name of a file in its folder → what it holds.
    """

    name: str
    title: str
    source: str
    notes: str
    runs_of: str
    trained: bool
    dataset: str
    dataset_title: str
    split: str
    rows: str
    among: str
    runs: dict[str, str]
    points: dict[str, int]
    rounds: str
    seeds: int
    claims: tuple[Claim, ...]
    figure: SerializeAsAny[Figure]
    files: dict[str, str]


class PaperScope(Model):
    """The experiments of a paper. paper: with the errata that matter; None for no single paper.

    others: names of experiments that are not selected; a family has one name, with `*`.
    """

    key: str
    paper: Paper | None
    selected: tuple[SelectedExperiment, ...]
    others: tuple[str, ...]


def read_scope(plan: Plan, names: Collection[str]) -> list[PaperScope]:
    """What the summary says about the named experiments, by paper; those of no paper come last.

    In a project, papers and folders without a selected experiment are left out.
    """
    unknown = [name for name in names if name not in plan.experiments]
    if unknown:
        raise FedatlasError(
            f"there is no experiment '{unknown[0]}'; there are: "
            f"{', '.join(head.name for head in plan.heads)}"
        )
    in_project = bool(projects())
    scopes = []
    for key in (*plan.papers, OURS):
        own = {name: plan.experiments[name] for name in names}
        selected = [name for name, each in own.items() if each.paper == key]
        if in_project and not selected:
            continue
        groups = set(map(group_of, selected)) if in_project else {key}
        others = dict.fromkeys(
            head.name
            for head in plan.heads
            # The demo is left out: its experiments are small versions of the papers'.
            if head.group != DEMO
            and (head.group if head.group in (*plan.papers, *groups) else OURS) in groups
            and not any(fnmatchcase(name, head.name) for name in names)
        )
        paper = plan.papers.get(key)
        if paper is not None:
            paper = _with_errata(paper, [own[name] for name in selected])
        shown = tuple(_selected(plan, name) for name in selected)
        scopes.append(PaperScope(key=key, paper=paper, selected=shown, others=tuple(others)))
    return scopes


def digest_of_scope(plan: Plan, names: Collection[str]) -> str:
    """A digest that changes when the summary must be written again."""
    scopes = [scope.model_dump(mode="json") for scope in read_scope(plan, names)]
    return text_digest(canonical_json(scopes))


def _with_errata(paper: Paper, selected: Sequence[Experiment]) -> Paper:
    """The paper with the errata about studies, methods or data of the selected experiments."""
    subjects = {experiment.dataset for experiment in selected}
    for experiment in selected:
        subjects |= {key for key in STUDIES if getattr(experiment, key)}
        subjects |= {run.algorithm for run in experiment.runs.values()}
    errata = tuple(
        erratum
        for erratum in paper.errata
        if subjects and (not erratum.concerns or not subjects.isdisjoint(erratum.concerns))
    )
    return paper.model_copy(update={"errata": errata})


def _selected(plan: Plan, name: str) -> SelectedExperiment:
    experiment = plan.experiments[name]
    dataset, specs = plan.catalogue[experiment.dataset], plan.runs_of(name)
    made = [file for step in steps_of(plan, name) for file in step.files() if file.section]
    made.sort(key=lambda file: not file.name.endswith(".svg"))  # drawings first
    declared = ("title", "source", "notes", "trained", "dataset", "split", "claims", "figure")
    return SelectedExperiment(
        name=name,
        runs_of=experiment.runs_of or name,
        dataset_title=dataset.title,
        rows=_rows(dataset, experiment),
        among=_among(experiment),
        runs=plan.run_titles(name),
        points={run: sum(spec.run == run for spec in specs) for run in experiment.runs},
        rounds=format_span(experiment.rounds_of(run) for run in experiment.runs),
        seeds=len(experiment.seeds),
        files={file.name.replace(".svg", ".png"): file.holds for file in made},
        **{key: getattr(experiment, key) for key in declared},
    )


def _rows(dataset: Dataset, experiment: Experiment) -> str:
    rows, partition = dataset.split(experiment.split).rows, experiment.partition
    parts = [UNCOUNTED if rows is None else format_span([rows], "row")]
    if getattr(getattr(dataset, dataset.format, None), "drop_missing", False):
        parts.append("those that lack a value left out")
    if partition.samples is not None:
        parts.append(f"the first {partition.samples:,} of them used")
    if isinstance(partition.test, float):
        parts.append(f"{100 * partition.test:g} % for testing")
    elif isinstance(partition.test, int):
        parts.append(f"the last {partition.test:,} for testing")
    elif partition.test is not None:
        tested = dataset.split(partition.test).rows
        parts.append("others for testing" if tested is None else f"{tested:,} others for testing")
    if getattr(partition, "validation", None) is not None:
        parts.append("some of the others for validation")
    binary = getattr(partition, "binary", None)
    if binary is not None:
        parts.append("labels made binary")
        kept = {"negatives": binary.keep_negative, "positives": binary.keep_positive}
        parts += [
            f"{100 * share:g} % of the {which} kept for training"
            for which, share in kept.items()
            if share < 1
        ]
    return ", ".join(parts)


def _among(experiment: Experiment) -> str:
    """Who holds the rows, in words; partitions of runs may differ."""
    alike: dict[type[Federation], list[Partition]] = {}
    for name, run in experiment.runs.items():
        partition = experiment.partition_of(name)
        on_graphs = algorithm_class(run.algorithm).federation.on_graphs
        federation = federation_of(partition.kind, on_graphs=on_graphs)
        alike.setdefault(federation, []).append(partition)
    return "; ".join(federation.describe(same) for federation, same in alike.items())
