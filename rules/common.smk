"""Configuration, the plan, and what all rules share; what follows from the plan is fedatlas.plan."""

import atexit
import gc
import sys
from math import ceil
from pathlib import Path

from snakemake.common import dict_to_key_value_args
from snakemake.exceptions import WorkflowError
from snakemake.persistence import PersistenceBase

from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json
from fedatlas.plain_text import rest, say
from fedatlas.plan import jobs, places, results
from fedatlas.code import code_digest, files_digest
from fedatlas.plan.failures import failed_jobs, format_failures, repeat_options
from fedatlas.plan.places import CONSTRAINTS, one_of
from fedatlas.plan.selected import Selected, commands_name_experiments, plan_command, targets
from fedatlas.extensions import open_projects
from fedatlas.schema.config import check_command, export_to_jobs, load_config
from fedatlas.steps import STEPS, File

# A graph of jobs has many objects and little garbage: looking for it takes a fifth of a dry run.
gc.freeze()
gc.set_threshold(50_000)
atexit.register(gc.freeze)
# To ask whether parameters are tables Snakemake loads pandas, which takes a second. Ours are text; a
# workflow that uses this one as a module may have tables.
if workflow.modifier.is_main_snakefile() and hasattr(PersistenceBase, "_serialize_param_builtin"):
    PersistenceBase._serialize_param = property(lambda self: self._serialize_param_builtin)

try:
    check_command(sys.argv[1:])
    CONFIG = load_config(config)
    RESULTS = places.folder_of_results(workflow)
    PROJECTS = places.find_projects([Path.cwd(), Path(workflow.basedir)])
    open_projects(PROJECTS)
    # Experiments among the targets are what is selected.
    CAN_BE_NAMED = commands_name_experiments(workflow, config)
    PLAN, NAMED = plan_command(
        sys.argv[1:], CONFIG.experiments, CONFIGURATION, *PROJECTS, named=CAN_BE_NAMED
    )
    SELECTED = Selected(PLAN, list(NAMED) or CONFIG.experiments, named=CAN_BE_NAMED)
    export_to_jobs(CONFIG, CONFIGURATION)
except FedatlasError as error:
    raise WorkflowError(str(error)) from None

if NAMED:  # a job elsewhere reads all this anew, without targets
    settings = workflow.config_settings
    settings.config = {**settings.config, "experiments": list(NAMED)}
    settings.config_args = dict_to_key_value_args(settings.config, repr_obj=True)


wildcard_constraints:
    **CONSTRAINTS,


def describe_failures(workflow, logs):
    """The jobs that failed, for the terminal; logs: Snakemake's own."""
    settings = workflow.config_settings
    options = repeat_options(
        settings.config,
        settings.configfiles,
        workflow.overwrite_workdir,
        workflow.main_snakefile,
        workflow.workdir_init,
    )
    return "\n" + format_failures(failed_jobs(workflow.scheduler.failed, logs), options)


def of_experiment(function, *more):
    """What a function of the plan says of the wildcard's experiment."""
    return lambda wildcards: function(PLAN, wildcards.experiment, *more)


def placed(text):
    """The text with the folder of results, as commands are told it."""
    return text.replace(places.RESULTS, RESULTS)


# The command of a step. Linux passes at most 128 KiB as one argument, so arguments pass through
# pipes. exec: Snakemake waits until the step, not a shell, has ended.
CALL = "fedatlas step {params.step} @<(printf %s {params.spec:q}) @<(printf %s {params.files:q})"
STEP = f"exec {CALL} > {{log:q}} 2>&1"
STEP_ALOUD = f"{CALL} 2>&1 | tee {{log:q}}"


def made(name):
    """What a step makes, by argument, and where the report shows it."""

    def path(file):
        path = f"<results>/{file.path}"
        if file.folder:
            return directory(path)
        if not file.section:
            return path
        own = bool(STEPS[name].made_for)
        return report(
            path,
            caption="../workflow/report/step.rst",
            category=file.section,
            subcategory="{experiment}" if own else None,
            labels={"experiment": "{experiment}", "item": file.holds} if own else {},
        )

    return {
        argument: path(files) if isinstance(files, File) else [path(file) for file in files]
        for argument, files in STEPS[name].makes.items()
    }


def told(name, spec=None, *, code=None, passes=None, **more):
    """Params of a step: its arguments, and what its code means: jobs run again as these change.

    spec, code: functions of wildcards, for arguments beside files and for modules beside those of
    the table. passes: which named inputs and outputs are arguments, if not all. more: arguments
    that decide nothing about what is made.
    """

    # Of what follows from files Snakemake keeps no record: they have their own.
    def untracked(wildcards, input, output):
        files = {**dict(input.items()), **dict(output.items())}
        return as_argument(
            {name: files[name] for name in (files if passes is None else passes)} | more
        )

    return {
        "step": name,
        "spec": lambda wildcards: as_argument(spec(wildcards) if spec else {}),
        "code": lambda wildcards: "code "
        + code_digest(*STEPS[name].code, *(code(wildcards) if code else ())),
        "files": untracked,
        "caption": lambda wildcards, input: STEPS[name].caption,
    }


def as_argument(values):
    """Arguments as text. Snakemake's report puts it into a script, which "</script>" would end."""
    return canonical_json(values).replace("<", "\\u003c")


def needs(gigabytes, minutes, more=lambda wildcards, input: 0):
    """What a job takes, and again more at every attempt; more: MB that depend on its data."""
    return {
        "mem_mb": lambda wildcards, input, attempt: ceil(1000 * gigabytes + more(wildcards, input))
        * attempt,
        "runtime": lambda wildcards, attempt: minutes * attempt,
    }


def traces_in_memory(wildcards, input):
    """More for steps that hold all traces of an experiment."""
    return jobs.memory_of_traces(map(placed, results.traces(PLAN, wildcards.experiment)))


def prepared(dataset, *splits):
    """The prepared files of these splits, of which any may be None."""
    return [placed(file) for split in splits for file in jobs.prepared(dataset, split)]


def to_shard(wildcards, input):
    """More for cutting shards of a partition."""
    partition = PLAN.partitions[wildcards.partition]
    files = [input.prepared, *prepared(wildcards.dataset, partition.test_split)]
    return jobs.memory_of_sharding(partition, files)


def to_train(*specs):
    """More for training these points, whose data are those of one experiment."""
    partitions = [spec.partition for spec in specs]
    splits = {specs[0].split, *(partition.test_split for partition in partitions)}
    return jobs.memory_of_training(partitions, prepared(specs[0].dataset, *splits))


def results_of(*groups):
    """What is made of the groups' selected experiments, of which there must be one."""

    def files(wildcards):
        try:
            return SELECTED.results_of(*groups)
        except FedatlasError as error:
            raise WorkflowError(str(error)) from None

    return files
