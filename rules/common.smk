"""Configuration, the plan, and the functions by which rules look things up in it."""

import os
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# Jobs call `fedatlas` by name, so that they find it in a container too; here it lies beside the
# interpreter that runs the workflow, whether its environment is activated or not.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

from fedatlas.closure import import_closure
from fedatlas.config import load_config
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json
from fedatlas.plan import build_plan, group_of

try:
    CONFIG = load_config(config)
    PLAN = build_plan(Path("config"))
    SELECTED = PLAN.select(CONFIG.experiments)
except FedatlasError as error:
    raise WorkflowError(str(error)) from None

MIRROR_OPTION = f"--mirror {shlex.quote(str(CONFIG.mirror))}" if CONFIG.mirror else ""


wildcard_constraints:
    collection=r"[a-z0-9-]+",
    dataset=r"[A-Za-z0-9._-]+",
    experiment=r"[a-z0-9-]+",
    partition=r"[A-Za-z0-9._-]+",
    point=r"[A-Za-z0-9._+-]+",
    run=r"[A-Za-z0-9._+-]+",
    split=r"[a-z0-9]+",


def code_of(*modules):
    """Source files that a step depends on, relative to the working directory where they lie in it."""
    here = Path.cwd()
    return [
        str(path.relative_to(here) if path.is_relative_to(here) else path)
        for path in import_closure(*modules)
    ]


def experiment_files(experiment):
    """What is made of every experiment."""
    return [
        f"results/experiments/{experiment}/{name}"
        for name in ("figure.svg", "figure.png", "table.csv", "selection.json", "claims.csv")
    ]


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
                f"no experiment of {', '.join(papers)} is selected: add --configfile "
                "config/paper.yaml, or name experiments, as in "
                "--config 'experiments=[\"fedpage-fig2a\"]'"
            )
        groups = sorted({group_of(name) for name in chosen})
        return experiment_results(chosen) + [f"results/claims/{group}.csv" for group in groups]

    return files


def raw_file(path):
    """The catalogue's entry of a raw file."""
    return PLAN.catalogue.raw_file(path)


def split_files(wildcards):
    """Raw files of a split; none for data that come with a library."""
    return [
        f"results/raw/{file.path}"
        for file in PLAN.catalogue[wildcards.dataset].splits[wildcards.split]
    ]


def run_spec(wildcards):
    """A training job's specification."""
    return PLAN.run(wildcards.experiment, wildcards.run, wildcards.point)


def trace_files(wildcards):
    """All traces of an experiment, in the order of its file."""
    return [
        f"results/experiments/{spec.experiment}/traces/{spec.run}/{spec.point}.nc"
        for spec in PLAN.runs_of(wildcards.experiment)
    ]


def claims_files(experiments):
    """The verdicts of the given experiments."""
    return [f"results/experiments/{experiment}/claims.csv" for experiment in experiments]
