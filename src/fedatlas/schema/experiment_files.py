"""Experiment files: YAML, found by the names of experiments, read, expanded and completed.

A folder of `config/experiments` is a group: `config/experiments/fedpage/tuned-a9a.yaml` is the
experiment `fedpage-tuned-a9a`. A project's files need no folder; their group is `project`. A file
may declare several experiments, see `fedatlas.schema.families`. An experiment that `extends`
another takes over all keys that it does not declare. `network` may name an experiment, too.

Only the files of selected experiments, and of those that they name, are read as a whole. For all
others only the head is read, which holds the name.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.config import is_named
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.families import expand
from fedatlas.schema.models import read_yaml, validated
from fedatlas.schema.suite import SUITE, SUITE_FILE, load_suite

#: The group of experiments that lie in no folder of their own.
PROJECT = "project"
#: Key by which an experiment takes over another's keys, and its former name.
EXTENDS, LIKE = "extends", "like"

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
    "until",
    "measurements",
    "seeds",
    "tuning_seeds",
    "runs",
)


class Declared(NamedTuple):
    """Where an experiment is declared, its content, and which of its keys it inherits.

    inherited: key → the experiment that declares it.
    """

    where: str
    content: dict[str, Any]
    inherited: Mapping[str, str] = {}


class Head(NamedTuple):
    """A file, and the name of its experiment.

    name: has a `*` in place of each part that a family fills in from its lists.
    suite: the files that declare the suite; other heads have none. Only patterns that begin with
        the suite's name match its head: who selects all experiments does not want its thousands of
        runs.
    """

    path: Path
    group: str
    name: str
    suite: tuple[Path, ...] = ()

    def may_be(self, pattern: str) -> bool:
        """Whether a name or a glob of names may mean an experiment of the file."""
        if "*" not in self.name:
            return fnmatchcase(self.name, pattern)
        begin = re.split(r"[*?[]", pattern)[0]
        if self.suite:
            return begin.startswith(f"{self.group}-")
        if begin == pattern:
            return fnmatchcase(pattern, self.name)
        own = self.name.partition("*")[0]
        return own.startswith(begin) or begin.startswith(own)


def find_heads(*folders: Path) -> list[Head]:
    """All files of experiments in these folders; FedatlasError if there is none."""
    heads = []
    for file in _files_below(folders):
        group = PROJECT if file.parent in folders else file.parent.name
        heads.append(Head(file, group, f"{group}-{_name_in(file)}"))
    suite = tuple(file for folder in folders if (file := folder.parent / SUITE_FILE).is_file())
    if suite:
        heads.append(Head(suite[0], SUITE, f"{SUITE}-*", suite))
    if not heads:
        where = " and ".join(map(str, folders))
        raise FedatlasError(f"{where}: no experiment is there (expected <group>/<name>.yaml)")
    return heads


def names_in(heads: Iterable[Head]) -> list[str]:
    """Names of experiments in these files, those that families make too; not the suite's."""
    own = (
        _read_file(head) if "*" in head.name else [head.name] for head in heads if not head.suite
    )
    return sorted({name for names in own for name in names})


def meant(word: str, names: Iterable[str]) -> str:
    """ "; did you mean …?", of names that lack a group only, or else are alike; empty if none."""
    names = list(names)
    found = ", ".join(name for name in names if name.partition("-")[2] == word)
    found = found or similar(word, names).removeprefix("; similar: ")
    return f"; did you mean {found}?" if found else ""


def meant_in(word: str, heads: Iterable[Head]) -> str:
    """The same of these files' experiments, where the word may be one of these files."""
    heads, path = list(heads), Path(word)
    if path.suffix not in (".yaml", ".yml"):
        return meant(word, names_in(heads))
    own = names_in(head for head in heads if head.path.resolve() == path.resolve())
    told = f"; did you mean {', '.join(own)}?" if own else meant(path.stem, names_in(heads))
    return f"; name an experiment, not a file{told or '.'}"


def _files_below(folders: Iterable[Path]) -> Iterator[Path]:
    """Files in the folders and one level down; not those that editors and systems hide."""
    for folder in folders:
        for pattern in ("*/*.yaml", "*/*.yml", "*.yaml", "*.yml"):
            for file in sorted(folder.glob(pattern)):
                if not any(part.startswith(".") for part in file.relative_to(folder).parts):
                    yield file


def _name_in(file: Path) -> str:
    """The name in a family's head, or that of the file."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):  # which its reader explains
        return file.stem
    if not re.search(r"\blists\b", text) or "name" not in text:
        return file.stem
    declared = re.search(r"^name: *[\"']?([\w{}.\[\]-]+)[\"']? *(?:#.*)?$", text, re.MULTILINE)
    return re.sub(r"(\{[^{}]*\})+", "*", declared[1]) if declared else "*"


def load_experiments(*folders: Path, names: Iterable[str] = ("*",)) -> dict[str, Experiment]:
    """The experiments that the names or globs mean, and those whose runs these need, by name.

    They are sorted as files of their own would be. FedatlasError names file, key and value.
    """
    names = list(names)
    declared = read_experiments(*folders, names=names)
    waiting = [name for name in declared if is_named(name, names)]
    found: dict[str, Experiment] = {}
    for name in waiting:  # which grows
        if name in declared and name not in found:
            where, content, inherited = declared[name]
            context = {"where": where, "inherited": inherited}
            found[name] = experiment = validated(Experiment, content, where, context)
            needed = (experiment.runs_of, *(run.tuned_in for run in experiment.runs.values()))
            waiting += filter(None, needed)
    return {name: found[name] for name in declared if name in found}


def read_experiments(*folders: Path, names: Iterable[str] = ("*",)) -> dict[str, Declared]:
    """What `load_experiments` validates: expanded and completed; with the experiments named there.

    FedatlasError for a file that cannot be read, and for names of experiments that are not there.
    """
    unread, waiting = find_heads(*folders), list(names)
    declared: dict[str, Declared] = {}
    wanted: set[str] = set()
    for pattern in waiting:  # which grows
        for head in [head for head in unread if head.may_be(pattern)]:
            unread.remove(head)
            for name, one in _read_file(head).items():
                if name in declared:
                    raise FedatlasError(
                        f"{one.where}: '{name}' is declared in {declared[name].where}, too"
                    )
                declared[name] = one
        for name in declared.keys() - wanted:
            if fnmatchcase(name, pattern):
                wanted.add(name)
                waiting += _named_in(declared[name].content)
    # In the order that files of their own would have, whichever file declares them.
    ordered = sorted(wanted, key=lambda name: f"{name}.yaml")
    complete = {name: _complete(name, declared) for name in ordered}
    return {name: _with_others(one, complete) for name, one in complete.items()}


def _read_file(head: Head) -> dict[str, Declared]:
    path, group = head.path, head.group
    if head.suite:
        suite = load_suite(*head.suite)
        return {
            f"{SUITE}-{name}": Declared(f"{path} ({SUITE}-{name})", suite.experiment(name))
            for name in suite.problems
        }
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
        where = f"{path} ({group}-{stem})" if "lists" in content else str(path)
        if LIKE in expanded and EXTENDS not in expanded:
            expanded[EXTENDS] = expanded.pop(LIKE)
        found[f"{group}-{stem}"] = Declared(where, _with_tables(expanded, path.parent))
    return found


def _with_tables(value: Any, folder: Path) -> Any:
    """The same with tables of times, which lie below the file's folder, by whole paths."""
    if isinstance(value, list):
        return [_with_tables(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") in ("measured", "trace") and isinstance(value.get("file"), str):
        return value | {"file": str(folder / value["file"])}
    return {key: _with_tables(item, folder) for key, item in value.items()}


def _named_in(content: Mapping[str, Any]) -> list[str]:
    """The experiments that an experiment names; what is no name is refused later."""
    runs = content.get("runs")
    runs = list(runs.values()) if isinstance(runs, dict) else []
    tuned_in = [run.get("tuned_in") for run in runs if isinstance(run, dict)]
    named = [content.get(key) for key in (EXTENDS, "runs_of", "network")] + tuned_in
    return [name for name in named if isinstance(name, str)]


def _complete(
    name: str, contents: Mapping[str, Declared], passed: Collection[str] = ()
) -> Declared:
    """With what it takes over from the experiment that it extends, but for keys that are null."""
    where, content, _ = contents[name]
    model = content.get(EXTENDS)
    if model is None:
        return contents[name]
    if not isinstance(model, str) or model not in contents or model in (*passed, name):
        raise FedatlasError(f"{where}: key '{EXTENDS}': '{model}' is no other experiment")
    declared = {key: value for key, value in content.items() if key != EXTENDS}
    _, taken, owners = _complete(model, contents, (*passed, name))
    if "runs_of" in declared:
        taken = {key: value for key, value in taken.items() if key not in _OF_RUNS}
    inherited = {key: owners.get(key, model) for key in taken if key not in declared}
    whole = {key: value for key, value in (taken | declared).items() if value is not None}
    return Declared(where, whole, inherited)


def _with_others(one: Declared, contents: Mapping[str, Declared]) -> Declared:
    """With the runs of the experiment that it shows, and the network of one that it names."""
    where, content = one.where, one.content
    if content.get("runs_of") is not None:
        content = _runs_of(where, content, contents) | content
    elif "only" in content:
        raise FedatlasError(f"{where}: key 'only': belongs to 'runs_of'; remove it")
    other = content.get("network")
    if isinstance(other, str):
        network = contents[other].content.get("network") if other in contents else None
        if not isinstance(network, dict):
            raise FedatlasError(
                f"{where}: key 'network': '{other}' is no other experiment that declares a network"
            )
        content = content | {"network": network}
    return one._replace(content=content)


def _runs_of(
    where: str, content: Mapping[str, Any], contents: Mapping[str, Declared]
) -> dict[str, Any]:
    """What decides the runs of another experiment."""
    other = content["runs_of"]
    if declared := [key for key in _OF_RUNS if key in content]:
        raise FedatlasError(f"{where}: key '{declared[0]}': is that of '{other}' ('runs_of')")
    known = isinstance(other, str) and other in contents
    if not known or "runs_of" in contents[other].content:
        raise FedatlasError(
            f"{where}: key 'runs_of': '{other}' is no experiment that declares runs (imported "
            "runs cannot be judged)"
        )
    taken = {key: value for key, value in contents[other].content.items() if key in _OF_RUNS}
    runs, only = taken.get("runs"), content.get("only")
    if isinstance(runs, dict) and isinstance(only, list) and only:
        if unknown := [run for run in only if run not in list(runs)]:
            raise FedatlasError(
                f"{where}: key 'only': {other} has no run '{unknown[0]}'; its runs are "
                f"{', '.join(map(str, runs))}"
            )
        taken["runs"] = {run: runs[run] for run in only}
    return taken
