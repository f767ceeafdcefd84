"""Experiment files: YAML, read, expanded and completed.

A folder of `config/experiments` is a group; `config/experiments/fedpage/tuned-a9a.yaml` is the
experiment `fedpage-tuned-a9a`. A project's files need no folder: their group is `project`. A file
may state several, see `fedatlas.schema.families`. One that is `like` another takes over all keys
that it does not state; `network` may name an experiment, too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from fedatlas.errors import FedatlasError
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.families import expand
from fedatlas.schema.inheritance import inheriting
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


#: The group of experiments that lie in no folder of their own.
PROJECT = "project"


class Declared(NamedTuple):
    """Where an experiment is declared, its content, and which of its keys are another experiment's.

    inherited: key → the experiment that states it, by `like`.
    """

    where: str
    content: dict[str, Any]
    inherited: Mapping[str, str] = {}


class Fault(NamedTuple):
    """Experiments that cannot be used, and why.

    name: of the experiment; has a `*` in place of each part that a file fills in from its lists, as
    one that cannot be read does not tell.
    """

    name: str
    message: str

    def is_meant_by(self, pattern: str) -> bool:
        """Whether a name or glob selects it, or may."""
        if "*" not in self.name:
            return fnmatchcase(self.name, pattern)
        first, second = self.name.partition("*")[0], re.split(r"[*?[]", pattern)[0]
        return first.startswith(second) or second.startswith(first)


class Faults(list[Fault]):
    """What is wrong with experiments; the others are sound."""

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Keep the FedatlasError with which this block ends as the experiment's fault."""
        try:
            yield
        except FedatlasError as error:
            self.append(Fault(name, str(error)))

    def why(self, name: object) -> str:
        """ "; …", where an experiment cannot be used; empty otherwise."""
        found = [fault.message for fault in self if fault.name == name]
        return f", since it cannot be used: {found[0]}" if found else ""

    def raise_first(self) -> None:
        """Raise FedatlasError if there is any."""
        if self:
            raise FedatlasError(self[0].message)


def files_below(folders: Iterable[Path], *suffixes: str) -> list[Path]:
    """Files in the folders and one level down; not those that editors and systems hide."""
    patterns = [f"{place}.{suffix}" for place in ("*/*", "*") for suffix in suffixes]
    return [
        file
        for folder in folders
        for pattern in patterns
        for file in folder.glob(pattern)
        if not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]


def load_experiments(*folders: Path) -> dict[str, Experiment]:
    """All experiments by name, `<group>-<name>`; FedatlasError names file, key and value."""
    experiments, faults = load_valid_experiments(*folders)
    faults.raise_first()
    return experiments


def load_valid_experiments(*folders: Path) -> tuple[dict[str, Experiment], Faults]:
    """The experiments that can be read, and what is wrong with the others."""
    experiments = {}
    contents, faults = read_sound_experiments(*folders)
    for name, (where, content, inherited) in contents.items():
        with faults.of(name), inheriting(inherited):
            experiments[name] = validated(Experiment, content, where).declared_in(where)
    return experiments, faults


def read_experiments(*folders: Path) -> dict[str, Declared]:
    """By name, where each experiment is given and its content: expanded, but not yet validated."""
    contents, faults = read_sound_experiments(*folders)
    faults.raise_first()
    return contents


def read_sound_experiments(*folders: Path) -> tuple[dict[str, Declared], Faults]:
    """As `read_experiments`, of those that can be read, and what is wrong with the others."""
    declared: dict[str, Declared] = {}
    faults = Faults()
    for path in files_below(folders, "yaml", "yml"):
        group = PROJECT if path.parent in folders else path.parent.name
        with faults.of(_names_in(path, group)):
            for name, one in _read_file(path, group).items():
                with faults.of(name):
                    if name in declared:
                        raise FedatlasError(
                            f"{one.where}: '{name}' is declared in {declared[name].where}, too"
                        )
                    declared[name] = one
    if not declared and not faults:
        where = " and ".join(map(str, folders))
        raise FedatlasError(f"{where}: no experiment is there (expected <group>/<name>.yaml)")
    for fault in faults:
        declared.pop(fault.name, None)
    # In the order that files of their own would have, whichever file states them.
    contents = {name: declared[name] for name in sorted(declared, key=lambda name: f"{name}.yaml")}
    complete: dict[str, Declared] = {}
    for name in contents:
        with faults.of(name):
            complete[name] = _complete(name, contents, faults)
    found: dict[str, Declared] = {}
    for name, (where, content, inherited) in complete.items():
        with faults.of(name):
            with_runs = _with_runs(where, content, complete, faults)
            found[name] = Declared(where, _with_network(where, with_runs, complete), inherited)
    return found, faults


def _read_file(path: Path, group: str) -> dict[str, Declared]:
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise FedatlasError(f"{path}: must be a mapping of keys to values")
    found = {}
    for stem, expanded in expand(content, path.stem, str(path)).items():
        if not re.fullmatch(r"[a-z0-9]+/[a-z0-9-]+\.yaml", f"{group}/{stem}{path.suffix}"):
            raise FedatlasError(
                f"{path}: '{stem}': experiments are named <group>/<name>.yaml in small letters "
                "and digits, with hyphens in the name only: rename it"
            )
        name = f"{group}-{stem}"
        where = f"{path} ({name})" if "lists" in content else str(path)
        found[name] = Declared(where, _with_tables(expanded, path.parent))
    return found


def _with_tables(value: Any, folder: Path) -> Any:
    """The same with tables of measured times, which lie below the file's folder, by whole paths."""
    if isinstance(value, list):
        return [_with_tables(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "measured" and isinstance(value.get("file"), str):
        return value | {"file": str(folder / value["file"])}
    return {key: _with_tables(item, folder) for key, item in value.items()}


def _names_in(path: Path, group: str) -> str:
    """Of the experiments in a file that may not be readable; see `Fault`."""
    name = path.stem
    with suppress(OSError, UnicodeDecodeError):
        declared = re.search(
            r"^name:[ \t]*([^#\n]+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        if declared is not None:
            name = re.sub(r"\{[^{}]*\}", "*", declared[1].strip().strip("'\""))
    return f"{group}-{name}"


def _complete(
    name: str, contents: Mapping[str, Declared], faults: Faults, passed: tuple[str, ...] = ()
) -> Declared:
    """With what it takes over from the experiment that it is `like`."""
    where, content, _ = contents[name]
    model = content.get("like")
    if model is None:
        return contents[name]
    if not isinstance(model, str) or model not in contents or model in (*passed, name):
        raise FedatlasError(
            f"{where}: key 'like': '{model}' is no other experiment{faults.why(model)}"
        )
    declared = {key: value for key, value in content.items() if key != "like"}
    _, taken, owners = _complete(model, contents, faults, (*passed, name))
    if "runs_of" in declared:
        taken = {key: value for key, value in taken.items() if key not in _OF_RUNS}
    inherited = {key: owners.get(key, model) for key in taken if key not in declared}
    return Declared(where, taken | declared, inherited)


def _with_network(
    where: str, content: dict[str, Any], contents: Mapping[str, Declared]
) -> dict[str, Any]:
    """The content with the network of another experiment, where it names one in place of it."""
    other = content.get("network")
    if not isinstance(other, str):
        return content
    network = contents[other].content.get("network") if other in contents else None
    if not isinstance(network, dict):
        raise FedatlasError(
            f"{where}: key 'network': '{other}' is no other experiment that states a network"
        )
    return content | {"network": network}


def _with_runs(
    where: str, content: dict[str, Any], contents: Mapping[str, Declared], faults: Faults
) -> dict[str, Any]:
    """The content with what decides the runs, which may be another experiment's."""
    other = content.get("runs_of")
    if other is None:
        if "only" in content:
            raise FedatlasError(f"{where}: key 'only': belongs to 'runs_of'; remove it")
        return content
    declared = [key for key in _OF_RUNS if key in content]
    if declared:
        raise FedatlasError(f"{where}: key '{declared[0]}': is that of '{other}' ('runs_of')")
    known = isinstance(other, str) and other in contents
    if not known or "runs_of" in contents[other].content:
        raise FedatlasError(
            f"{where}: key 'runs_of': '{other}' is no experiment with runs of its own"
            f"{faults.why(other)}"
        )
    taken = {key: value for key, value in contents[other].content.items() if key in _OF_RUNS}
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
