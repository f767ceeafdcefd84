"""Runs that the atlas keeps although they are not selected: those of earlier selections.

The atlas holds what is in the results folder. But a rule whose inputs were all traces there would
run anew whenever another selection adds one, and would wait for jobs that nobody asked for. So the
inputs of the joining rule are the selected experiments' files, and what the atlas held before is
handed on from it. A parameter of the rule says which runs those are, and which are stale: it
follows from the list of contents that lies beside the atlas, and does not change by joining.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.plan.build import Plan
from fedatlas.plan.code import code_digest
from fedatlas.schema.models import read_json


def kept_runs(
    plan: Plan, selected: Mapping[str, Collection[str]], results: Path
) -> dict[str, bool]:
    """experiment/run → whether it is stale, of runs in the atlas that have traces.

    Stale are runs that no experiment states any more, and those whose code has changed. selected:
    experiment → runs that are joined anew. results: the folder of results.
    """
    kept = {}
    for name, made in _contents(results / "atlas").items():
        experiment, _, run = name.partition("/")
        traces = results / "experiments" / experiment / "traces" / run
        if run not in selected.get(experiment, ()) and traces.is_dir():
            # Of experiments that are not selected only the files' names are known.
            declared = plan.experiments.get(experiment)
            gone = not any(head.may_be(experiment) for head in plan.heads)
            gone |= declared is not None and run not in declared.runs
            kept[name] = gone or _digest(made["code"]) != made["digest"]
    return kept


def _contents(folder: Path) -> Mapping[str, Mapping[str, str]]:
    """Of the atlas that is there; of none, and of one from before it was listed, nothing."""
    contents = folder / "contents.json"
    if not ((folder / "atlas.nc").exists() and contents.exists()):
        return {}
    found = read_json(contents)
    if not isinstance(found, dict) or not all(
        isinstance(made, dict) and {"code", "digest"} <= made.keys() for made in found.values()
    ):
        raise FedatlasError(
            f"{contents}: holds no contents of an atlas. Move it away and run again."
        )
    return found


def _digest(modules: str) -> str:
    """That of code that is there; empty where a module, such as a method, is gone."""
    try:
        return code_digest(*modules.split("+"))
    except (FedatlasError, ValueError):
        return ""
