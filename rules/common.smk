"""Configuration, the plan, and the functions by which rules look things up in it."""

import re
from pathlib import Path

from snakemake.exceptions import WorkflowError

from fedatlas.closure import import_closure, training_modules
from fedatlas.config import export_to_jobs, load_config
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json
from fedatlas.plan import build_plan, group_of

if Path("results").exists() and not Path("results").is_dir():
    raise WorkflowError("results is a file, but must be a folder: move it away")

try:
    CONFIG = load_config(config)
    PLAN = build_plan(Path("config"))
    SELECTED = PLAN.select(CONFIG.experiments)
except FedatlasError as error:
    raise WorkflowError(str(error)) from None

export_to_jobs(CONFIG)

RAW_FILES = PLAN.catalogue.raw_files()


wildcard_constraints:
    collection=r"[a-z0-9-]+",
    dataset=r"[A-Za-z0-9.-]+",
    experiment=r"[a-z0-9-]+",
    partition=r"[A-Za-z0-9._-]+",
    point=r"[A-Za-z0-9._+-]+",
    run=r"[A-Za-z0-9._+-]+",
    split=r"[A-Za-z0-9.-]+",


def code_of(*modules):
    """Source files that a step depends on, relative to the working directory where they lie in it."""
    here = Path.cwd()
    return [
        str(path.relative_to(here) if path.is_relative_to(here) else path)
        for path in import_closure(*modules)
    ]


def traces_of(experiment):
    """All traces of an experiment, in the order of its file."""
    return [
        f"results/experiments/{experiment}/traces/{spec.run}/{spec.point}.nc"
        for spec in PLAN.runs_of(experiment)
    ]


def experiment_files(experiment):
    """What is made of every experiment; its traces too, so that a lost one is made again."""
    names = ("figure.svg", "figure.png", "table.csv", "selection.json", "claims.csv")
    files = [f"results/experiments/{experiment}/{name}" for name in names]
    return files + traces_of(experiment)


def experiment_results(experiments):
    """What is made of the given experiments."""
    return [file for experiment in experiments for file in experiment_files(experiment)]


def members(*groups):
    """The selected experiments of the given groups."""
    return [name for name in SELECTED if group_of(name) in groups]


def paper_results(*papers):
    """What is made of the papers' selected experiments, and the papers' verdicts."""

    def files(wildcards):
        chosen = members(*papers)
        if not chosen:
            raise WorkflowError(
                f"no experiment of {', '.join(papers)} is selected: put behind the target "
                "--configfile config/paper.yaml, or --config 'experiments=[\"fedpage-fig2a\"]'"
            )
        groups = sorted({group_of(name) for name in chosen})
        claims = [f"results/claims/{group}.{kind}" for group in groups for kind in ("csv", "html")]
        return experiment_results(chosen) + claims

    return files


def one_of(names):
    """A wildcard constraint that admits these names only."""
    return "|".join(re.escape(name) for name in sorted(names)) or "(?!)"


def run_spec(wildcards):
    """A training job's specification."""
    return PLAN.run(wildcards.experiment, wildcards.run, wildcards.point)


def claims_files(experiments):
    """The verdicts of the given experiments."""
    return [f"results/experiments/{experiment}/claims.csv" for experiment in experiments]


def identity_of(wildcards):
    """What makes a raw file the one it is; urls and the mirror do not, its checksum does."""
    kept = {"path", "checksum", "decompress", "unpack", "member"}
    return canonical_json(RAW_FILES[wildcards.file].model_dump(mode="json", include=kept))


def split_files(wildcards):
    """Raw files of a split; none for data that come with a library."""
    split = PLAN.catalogue[wildcards.dataset].split(wildcards.split)
    return [f"results/raw/{file.local_path}" for file in split.files]


def scaling_split(wildcards):
    """The split whose mean and variance standardise the others."""
    standardised = PLAN.catalogue[wildcards.dataset].standardise
    needed = standardised and wildcards.split != "train"
    return f"results/data/{wildcards.dataset}/train.parquet" if needed else []


def reading_of(wildcards):
    """What decides how a data set's raw files are read; titles and licences do not."""
    prose = {"title", "homepage", "licence", "citation", "note", "splits"}
    dataset = PLAN.catalogue[wildcards.dataset]
    rows = dataset.split(wildcards.split).rows
    return canonical_json({**dataset.model_dump(mode="json", exclude=prose), "rows": rows})


def shard_of(name):
    """An input: the named file of the shards that a training job reads."""

    def file(wildcards):
        spec = run_spec(wildcards)
        return f"results/shards/{spec.dataset}/{spec.split}/{spec.partition.slug}/{name}"

    return file


def claims_spec(wildcards):
    """What verdicts depend on besides traces and the selection."""
    experiment = PLAN.experiments[wildcards.experiment].model_dump(mode="json")
    kept = {key: experiment[key] for key in ("paper", "claims")}
    return canonical_json({"experiment": wildcards.experiment, **kept})


def figure_spec(wildcards):
    """What a figure depends on besides traces."""
    experiment = PLAN.experiments[wildcards.experiment]
    return canonical_json(
        {
            "title": f"{experiment.title} — {experiment.source}",
            "figure": experiment.figure.model_dump(mode="json"),
            "runs": PLAN.run_titles(wildcards.experiment),
        }
    )


def report_labels(what):
    """Labels of a report item."""
    return {"experiment": "{experiment}", "item": what}
