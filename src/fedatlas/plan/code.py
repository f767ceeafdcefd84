"""Files that change with the meaning of a step's code: the inputs by which Snakemake sees edits."""

from functools import cache
from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.plan import data, results
from fedatlas.plan.build import Plan
from fedatlas.plan.closure import code_stamp

FOLDER = Path("results/code")


@cache
def code_of(*modules: str) -> str:
    """The file of these modules and of all that they import."""
    return code_stamp(modules, FOLDER)


def write_stamps(plan: Plan) -> None:
    """Write the files of all steps whose code depends on what they work on.

    Snakemake lists a folder once, while it builds its graph: what is written later would count as
    missing.
    """
    if FOLDER.parent.exists() and not FOLDER.parent.is_dir():
        raise FedatlasError(f"{FOLDER.parent} is a file, but must be a folder: move it away")
    found = {spec.code for spec in plan.runs.values()}
    found |= {(module,) for module in data.SHARDING.values()}
    for name, experiment in plan.experiments.items():
        found.add(tuple(data.reading_code(plan.catalogue, experiment.dataset)))
        found.add(tuple(results.judging_code(plan, name)))
        if experiment.landscape is not None:
            found.add(tuple(results.landscape_code(plan, name)))
        if experiment.budgets is not None:
            found.add(tuple(results.budgets_code(plan, name)))
    for modules in found:
        code_of(*modules)
