"""Configuration, the plan, and what all rules share; what follows from the plan is fedatlas.plan."""

import atexit
import gc
import sys
from functools import cache
from pathlib import Path

import snakemake.rules
from snakemake.common import dict_to_key_value_args
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.persistence import PersistenceBase

from fedatlas.code import files_digest
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.sentences import digest_of_claimed
from fedatlas.extensions import open_projects
from fedatlas.plain_text import rest, say
from fedatlas.plan import jobs, places, results
from fedatlas.plan.places import CONSTRAINTS, one_of
from fedatlas.plan.failures import Explaining
from fedatlas.plan.rules import (
    STEP,
    STEP_ALOUD,
    arguments,
    describe_failures,
    made,
    needs,
)
from fedatlas.plan.selected import Selected, commands_name_experiments, plan_command, targets
from fedatlas.plan.trainings import why_trained
from fedatlas.schema.config import check_command, export_to_jobs, load_config

# A graph of jobs has many objects and little garbage: looking for it takes a fifth of a dry run.
gc.freeze()
gc.set_threshold(50_000)
atexit.register(gc.freeze)
# A workflow that uses this one as a module may have tables as parameters, and functions of any kind.
if workflow.modifier.is_main_snakefile():
    # To ask whether parameters are tables Snakemake loads pandas, which takes a second. Ours are text.
    if hasattr(PersistenceBase, "_serialize_param_builtin"):
        PersistenceBase._serialize_param = property(lambda self: self._serialize_param_builtin)
    # It asks for every job which arguments a rule's functions take: a tenth of a large dry run.
    for part in (snakemake.common, snakemake.rules):
        if hasattr(part, "get_function_params"):
            part.get_function_params = cache(part.get_function_params)

try:
    check_command(sys.argv[1:])
    CONFIG = load_config(config)
    RESULTS = places.folder_of_results(workflow)
    PROJECTS = places.find_projects([Path.cwd(), Path(workflow.basedir)])
    open_projects(PROJECTS)
    # Experiments among the targets are what is selected.
    CAN_BE_NAMED = commands_name_experiments(workflow, config)
    PLAN, NAMED = plan_command(
        sys.argv[1:],
        *(CONFIG.experiments, CONFIGURATION, *PROJECTS),
        named=CAN_BE_NAMED,
        added_seeds=CONFIG.added_seeds,
    )
    WHY_TRAINED = why_trained(PLAN, Path(RESULTS), CONFIG.seeds or Path(RESULTS, "seeds"))
    logger.addFilter(Explaining(workflow, Path(RESULTS), WHY_TRAINED))
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


def of_experiment(function, *more):
    """What a function of the plan says of the wildcard's experiment."""
    return lambda wildcards: function(PLAN, wildcards.experiment, *more)


def placed(files):
    """Files of results where they are."""
    return [file.replace(places.RESULTS, RESULTS) for file in files]


def memory_of_training(*specs):
    """MB that these points take for their data."""
    files = placed(jobs.prepared_for(*specs))
    return jobs.memory_of_training([spec.partition for spec in specs], files)


def results_of(*groups):
    """What is made of the groups' selected experiments, of which there must be one."""

    def files(wildcards):
        try:
            return SELECTED.results_of(*groups)
        except FedatlasError as error:
            raise WorkflowError(str(error)) from None

    return files


def claimed(wildcards):
    """What is said of papers' sentences, which pages of verdicts print and count."""
    try:
        return digest_of_claimed()
    except FedatlasError as error:
        raise WorkflowError(str(error)) from None
