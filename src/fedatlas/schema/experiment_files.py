"""Experiment files: YAML, read, expanded and completed.

A folder of `config/experiments` is a group; `config/experiments/fedpage/tuned-a9a.yaml` is the
experiment `fedpage-tuned-a9a`. A file may state several, see `fedatlas.schema.families`. One that
is `like` another takes over all keys that it does not state.
"""

import re
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.families import expand
from fedatlas.schema.models import read_yaml, validated

# What an experiment that shows another's runs takes over from it.
_OF_RUNS = (
    "dataset",
    "split",
    "partition",
    "network",
    "graphs",
    "objective",
    "rounds",
    "record_every",
    "seeds",
    "tuning_seeds",
    "runs",
)


def load_experiments(folder: Path) -> dict[str, Experiment]:
    """All experiments by name, `<folder>-<name>`; FedatlasError names file, key and value."""
    experiments = {}
    for name, (where, content) in read_experiments(folder).items():
        experiments[name] = validated(Experiment, content, where).stated_in(where)
    return experiments


def read_experiments(folder: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """By name, where each experiment is stated and its content: expanded, but not yet validated."""
    stated: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in [*folder.glob("*/*.yaml"), *folder.glob("*/*.yml")]:
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise FedatlasError(f"{path}: must be a mapping of keys to values")
        for stem, expanded in expand(content, path.stem, str(path)).items():
            if not re.fullmatch(
                r"[a-z0-9]+/[a-z0-9-]+\.yaml", f"{path.parent.name}/{stem}{path.suffix}"
            ):
                raise FedatlasError(
                    f"{path}: '{stem}': experiments are named <group>/<name>.yaml in small letters "
                    "and digits, with hyphens in the name only: rename it"
                )
            name = f"{path.parent.name}-{stem}"
            where = f"{path} ({name})" if "lists" in content else str(path)
            if name in stated:
                raise FedatlasError(f"{where}: '{name}' is stated in {stated[name][0]}, too")
            stated[name] = where, expanded
    if not stated:
        raise FedatlasError(f"{folder}: holds no experiment (expected <group>/<name>.yaml)")
    # In the order that files of their own would have, whichever file states them.
    contents = {name: stated[name] for name in sorted(stated, key=lambda name: f"{name}.yaml")}
    complete = {name: (where, _complete(name, contents)) for name, (where, _) in contents.items()}
    return {
        name: (where, _with_runs(where, content, complete))
        for name, (where, content) in complete.items()
    }


def _complete(
    name: str, contents: dict[str, tuple[str, dict[str, Any]]], passed: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The content, with what it takes over from the experiment that it is `like`."""
    where, content = contents[name]
    model = content.get("like")
    if model is None:
        return content
    if not isinstance(model, str) or model not in contents or model in (*passed, name):
        raise FedatlasError(f"{where}: key 'like': '{model}' is no other experiment")
    stated = {key: value for key, value in content.items() if key != "like"}
    taken = _complete(model, contents, (*passed, name))
    if "runs_of" in stated:
        taken = {key: value for key, value in taken.items() if key not in _OF_RUNS}
    return taken | stated


def _with_runs(
    where: str, content: dict[str, Any], contents: dict[str, tuple[str, dict[str, Any]]]
) -> dict[str, Any]:
    """The content with what decides the runs, which may be another experiment's."""
    other = content.get("runs_of")
    if other is None:
        if "only" in content:
            raise FedatlasError(f"{where}: key 'only': belongs to 'runs_of'; remove it")
        return content
    stated = [key for key in _OF_RUNS if key in content]
    if stated:
        raise FedatlasError(f"{where}: key '{stated[0]}': is that of '{other}' ('runs_of')")
    known = isinstance(other, str) and other in contents
    if not known or "runs_of" in contents[other][1]:
        raise FedatlasError(
            f"{where}: key 'runs_of': '{other}' is no experiment with runs of its own"
        )
    taken = {key: value for key, value in contents[other][1].items() if key in _OF_RUNS}
    runs, only = taken.get("runs"), content.get("only")
    if isinstance(runs, dict) and isinstance(only, list) and only:
        unknown = [run for run in only if run not in list(runs)]
        if unknown:
            raise FedatlasError(
                f"{where}: key 'only': {other} has no run '{unknown[0]}'; its runs are "
                f"{', '.join(map(str, runs))}"
            )
        taken["runs"] = {run: runs[run] for run in only}
    return taken | content
