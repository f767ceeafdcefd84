"""fedatlas: from raw files to figures, tables, verdicts and a report. Targets are at the end."""

import os
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from fedatlas.errors import FedatlasError
from fedatlas.extensions import relative_path
from fedatlas.files import date_to_now
from fedatlas.plan.holders import hold
from fedatlas.plan.places import repository

min_version("9.20")

# What belongs to the workflow lies beside this file, what belongs to a run below the working folder.
HERE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True))
if not HERE.is_dir():  # this file was read from a Git host
    HERE = repository()
CONFIGURATION = Path(relative_path(HERE / "config"))


# The working folder's own, if it has one.
configfile: "config/config.yaml" if os.path.exists("config/config.yaml") else f"{CONFIGURATION}/config.yaml"


# Built from workflow/container/fedatlas.def; used with --software-deployment-method apptainer.
container: os.path.relpath(HERE / "workflow/container/fedatlas.sif")


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/shards.smk"
include: "rules/train.smk"
include: "rules/experiments.smk"
include: "rules/atlas.smk"


report: "workflow/report/workflow.rst"


# To start no more than 100 jobs a second, its default, Snakemake looks at all ready jobs again one
# second after each look, so that every job which ends adds such a look a second, for ever: after
# 380 jobs that had taken a fifth of two cores. A limit of one's own (--max-jobs-per-timespan) stays.
# And what is made from a file that is dated in the future it deletes.
onstart:
    date_to_now(Path(file) for job in workflow.dag.needrun_jobs() for file in job.input)
    # The name of this run's jobs, where the executor is SLURM's.
    slurm = getattr(getattr(workflow.scheduler, "_executor", None), "run_uuid", "")
    try:
        hold(Path(RESULTS), slurm)
    except FedatlasError as error:
        raise WorkflowError(str(error)) from None
    limit = getattr(workflow.scheduler, "job_rate_limiter", None)
    if limit is not None and (limit.max_jobs, limit.timespan) == (100, 1):
        workflow.scheduler.job_rate_limiter = None


# Whatever is quiet: Snakemake shows no log at all with --quiet, and whole ones without.
onerror:
    if told := describe_failures(workflow, log):
        say(told, to_errors=True)


# What is made across experiments.
ACROSS = [
    "<results>/claims.csv",
    "<results>/claims.html",
    "<results>/summary.md",
    "<results>/explorer.html",
]


# What is selected: the demo, unless the configuration says otherwise.
rule all:
    default_target: True
    input:
        SELECTED.results(),
        ACROSS,
    localrule: True


# Every selected experiment of every paper.
rule paper:
    input:
        results_of(*targets(PLAN)),
        ACROSS,
    localrule: True


# Each paper of config/papers.yaml, and each other folder of experiments.
for target in targets(PLAN):

    rule:
        name:
            target
        input:
            results_of(target),
        localrule: True


# Experiments that the command names, or a glob of it. Where it cannot, those that are selected.
for target, experiments in (
    NAMED if CAN_BE_NAMED else {name: [name] for name in SELECTED.names}
).items():

    rule:
        name:
            target
        input:
            [file for name in experiments for file in results.experiment_files(PLAN, name)],
        localrule: True
