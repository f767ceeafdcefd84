"""What is made of one experiment: its files, and what they are made from."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedatlas.architectures import architecture_module
from fedatlas.plan.build import Plan, validated_partitions
from fedatlas.plan.data import shards
from fedatlas.plan.places import RESULTS
from fedatlas.schema.claims import Claim
from fedatlas.schema.runs import RunSpec

#: Files that the report shows: their section, and what they show.
REPORTED = {
    "figure.svg": ("Experiments", "figure"),
    "table.csv": ("Experiments", "table"),
    "landscape.svg": ("Experiments", "loss surface"),
    "graphs.svg": ("Experiments", "who sends to whom"),
    "budgets.svg": ("Privacy", "privacy budgets"),
    "conditions.csv": ("Privacy", "conditions of theorems"),
    "privacy-audit.csv": ("Privacy", "claimed budgets and pairs of data sets"),
    "theory.csv": ("Theory", "theorems and runs"),
    "theory.svg": ("Theory", "bounds"),
    "validation.csv": ("Experiments", "processes and simulation, as numbers"),
    "validation.svg": ("Experiments", "processes and simulation"),
    "leaks.csv": ("Privacy", "what parties learn"),
    "recovery.csv": ("Privacy", "what histories reveal, as numbers"),
    "recovery.svg": ("Privacy", "what histories reveal"),
    "collusion.csv": ("Privacy", "groups that unmask shares"),
    "tree-pairs.csv": ("Privacy", "pairs of trees that expose shares"),
    "trees.svg": ("Privacy", "trees of secure sums"),
}


def trace_files(specs: Iterable[RunSpec]) -> list[str]:
    """The traces of these points."""
    return [str(spec.trace_file(Path(RESULTS))) for spec in specs]


def traces(plan: Plan, experiment: str) -> list[str]:
    """All traces of an experiment, in the order of its file."""
    trained = plan.experiments[experiment].trained
    return trace_files(plan.runs_of(experiment) if trained else ())


def experiment_files(plan: Plan, name: str) -> list[str]:
    """All that is made of an experiment; its traces too, so that a lost one is made again."""
    experiment = plan.experiments[name]
    files = ["selection.json", "claims.csv"]
    if experiment.trained:
        files += ["figure.svg", "figure.png", "table.csv"]
    if experiment.budgets:
        files += ["budgets.nc", "budgets.svg", "budgets.png", "conditions.csv"]
    if experiment.graphs and not experiment.runs_of:
        files += ["graphs.svg", "graphs.png"]
    if experiment.privacy_audit:
        files += ["privacy-audit.csv"]
    if experiment.audit:
        files += ["leaks.csv", "recovery.csv", "recovery.svg", "recovery.png"]
        files += ["collusion.csv", "tree-pairs.csv", "trees.svg", "trees.png"]
    if experiment.theory:
        files += ["theory.csv", "theory.svg", "theory.png"]
    if experiment.validation:
        files += ["validation.csv", "validation.json", "validation-times.csv"]
        files += ["validation.svg", "validation.png"]
    if experiment.landscape:
        files += ["landscape.json", "landscape.svg", "landscape.png"]
    return [f"{RESULTS}/experiments/{name}/{file}" for file in files] + traces(plan, name)


def tuning(plan: Plan, name: str) -> list[str]:
    """The selections of the experiments in which runs are tuned, each once."""
    return sorted(set(_tuned(plan, name).values()))


def tuning_options(plan: Plan, name: str) -> list[str]:
    """Options of `fedatlas select`: which run is tuned by which selection, and what it states."""
    tuned, runs = _tuned(plan, name), plan.experiments[name].runs
    words = [word for run, file in tuned.items() for word in ("--tuning", f"{run}={file}")]
    for run in tuned:
        for key in (*runs[run].hyper_parameters, *runs[run].grid):
            words += ["--declared", f"{run}={key}"]
    return words


def _tuned(plan: Plan, name: str) -> dict[str, str]:
    experiment = plan.experiments[name]
    return {
        run: f"{RESULTS}/experiments/{declared.tuned_in}/selection.json"
        for run, declared in experiment.runs.items()
        if declared.tuned_in and experiment.trained
    }


def judged_file(plan: Plan, experiment: str, file: str) -> list[str]:
    """A file that claims of an experiment may be about, if it is made."""
    path = f"{RESULTS}/experiments/{experiment}/{file}"
    return [path] if path in experiment_files(plan, experiment) else []


def judging_code(plan: Plan, experiment: str) -> list[str]:
    """The modules that judge an experiment's claims: of the kinds only those that it states."""
    return ["fedatlas.evaluation.verdicts", *_kinds(plan.experiments[experiment].claims)]


def drawing_code(plan: Plan, experiment: str) -> list[str]:
    """The modules that draw an experiment's figure, and those of claims whose slopes it has."""
    return ["fedatlas.figures.draw", *_kinds(plan.experiments[experiment].drawn_claims)]


def _kinds(claims: Iterable[Claim]) -> list[str]:
    """The modules that judge claims."""
    return sorted({module for claim in claims for module in claim.test.modules})


def first_shards(plan: Plan, name: str) -> list[str]:
    """The shards of an experiment's first trial."""
    experiment = plan.experiments[name]
    partition = experiment.partition.of_seed(experiment.seeds[0])
    return shards(experiment.dataset, experiment.split, partition)


def seed_shards(plan: Plan, name: str) -> list[str]:
    """The shards of every partition that runs of an experiment have in their first trial."""
    found: dict[str, None] = {}
    for spec in plan.runs_of(name):
        partition = spec.partition.of_seed(spec.seeds[0])
        found |= dict.fromkeys(shards(spec.dataset, spec.split, partition))
    return list(found)


def validated_shards(plan: Plan, name: str) -> list[str]:
    """The shards on which processes are compared with the simulated network."""
    experiment = plan.experiments[name]
    found = (
        shards(experiment.dataset, experiment.split, partition)
        for partition in validated_partitions(experiment)
    )
    return [file for files in found for file in files]


def validation_folders(plan: Plan, name: str) -> list[str]:
    """Their folders, by number of parties."""
    return list(dict.fromkeys(str(Path(file).parent) for file in validated_shards(plan, name)))


def validation_cores(plan: Plan, name: str) -> int:
    """How many processes compute at a time."""
    return max(partition.parties for partition in validated_partitions(plan.experiments[name]))


def landscape_code(plan: Plan, experiment: str) -> list[str]:
    """The modules that compute a loss surface."""
    model = plan.experiments[experiment].objective.model_dump()["model"]
    return ["fedatlas.studies.landscape", architecture_module(model)]


def budgets_code(plan: Plan, experiment: str) -> list[str]:
    """The modules that compute privacy budgets."""
    methods = sorted({spec.algorithm for spec in plan.runs_of(experiment)})
    own = ("fedatlas.studies.budgets", "fedatlas.store.netcdf")
    return [*own, *(f"fedatlas.algorithms.{name}" for name in methods)]


def report_item(name: str) -> dict[str, Any]:
    """What the report is told of a file of an experiment."""
    category, what = REPORTED[name]
    return {
        "value": f"{RESULTS}/experiments/{{experiment}}/{name}",
        "caption": f"../workflow/report/{Path(name).stem}.rst",
        "category": category,
        "subcategory": "{experiment}",
        "labels": {"experiment": "{experiment}", "item": what},
    }
