"""Extensions by users: files in the package, such as methods, and projects in other folders.

A project has folders of code such as `methods/*.py`, which Python finds as modules of this package,
and configuration (docs/projects.md). An environment variable says which projects there are: so
jobs, and what they start, know them, too.
"""

import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

from fedatlas.errors import FedatlasError

#: Names the folders of all projects, separated as in PATH.
VARIABLE = "FEDATLAS_PROJECTS"
#: Folders of a project that hold code, and the packages whose modules their files become.
CODE = {
    "methods": "fedatlas.algorithms",
    "architectures": "fedatlas.architectures",
    "objectives": "fedatlas.objectives",
    "theorems": "fedatlas.theorems",
    "compressors": "fedatlas.compressors",
    "measurements": "fedatlas.measurements",
}

_PACKAGE = Path(__file__).parent
# Folders of the package in which a file adds a method, a network and so on.
_FOLDERS = (
    *(package.rpartition(".")[2] for package in CODE.values()), "evaluation/claims", "data/formats"
)  # fmt: skip


def projects() -> list[Path]:
    """The folders of this process's projects."""
    told = os.environ.get(VARIABLE, "")
    return [Path(folder) for folder in told.split(os.pathsep) if folder]


def open_projects(folders: Sequence[Path]) -> None:
    """Make these folders, and no others, the projects of this process and of those it starts.

    Raises FedatlasError where a file of code has the name of one of another folder.
    """
    for kind, package in CODE.items():
        own = _PACKAGE / package.rpartition(".")[2]
        _check_names([own, *(folder / kind for folder in folders)])
    os.environ[VARIABLE] = os.pathsep.join(map(str, folders))
    for kind, package in CODE.items():
        if package in sys.modules:
            sys.modules[package].__path__[1:] = code_folders(kind)


def code_folders(kind: str) -> list[str]:
    """The folders of that name that projects have: where else Python looks for modules."""
    return [str(folder / kind) for folder in projects() if (folder / kind).is_dir()]


def code_names(kind: str) -> list[str]:
    """The modules in the package's folder of that kind and in projects', sorted; not shared ones.

    kind: as projects call their folder.
    """
    package, own = sys.modules.get(CODE[kind]), _PACKAGE / CODE[kind].rpartition(".")[2]
    return _names(tuple(package.__path__) if package else (str(own), *code_folders(kind)))


@cache
def _names(folders: tuple[str, ...]) -> list[str]:
    names = (module.name for module in pkgutil.iter_modules(folders))
    return sorted(name for name in names if not name.startswith("_"))


def added_sources(folders: Iterable[Path]) -> tuple[tuple[str, Path], ...]:
    """Packages, and folders in which modules of theirs lie, of projects in these folders.

    Of a project that is part of a Python package, that package as well: its methods may import it.
    """
    found: dict[tuple[str, Path], None] = {}
    for folder in folders:
        for kind, package in CODE.items():
            if (folder / kind).is_dir():
                found[package, folder / kind] = None
        if (folder / "__init__.py").exists():
            top = folder
            while (top.parent / "__init__.py").exists():
                top = top.parent
            found[top.name, top] = None
    return tuple(found)


def _check_names(folders: Sequence[Path]) -> None:
    """No two of the folders have a module of one name; one that is not there has none."""
    seen: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.py")):
            other = seen.setdefault(file.name, file)
            if other != file and file.name != "__init__.py":
                raise FedatlasError(
                    f"{file}: has the name of {other}, by which experiments would mean either: "
                    "rename the file"
                )


def import_extension(name: str) -> ModuleType:
    """The module of that full name; FedatlasError names the file and the line that fails."""
    try:
        return importlib.import_module(name)
    except FedatlasError:
        raise
    except SyntaxError as error:
        raise FedatlasError(format_syntax_error(error)) from error
    except (Exception, SystemExit) as error:
        raise FedatlasError(describe_place(error) or f"{name}: {_in_short(error)}") from error


def format_syntax_error(error: SyntaxError) -> str:
    """File, line and text of a syntax error."""
    shown = f": {error.text.strip()}" if error.text else ""
    return f"{relative_path(str(error.filename))}, line {error.lineno}: {error.msg}{shown}"


def describe_place(error: BaseException) -> str | None:
    """The place in a user's file where an exception began, with its message; None if in none.

    That is the innermost such place: what fails deeper, in a library, was asked for there.
    """
    folders = [_PACKAGE / folder for folder in _FOLDERS]
    folders += [Path(folder) for kind in CODE for folder in code_folders(kind)]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).parent in folders and Path(frame.filename).stem != "__init__"
    ]
    if not frames:
        return None
    last = frames[-1]
    place = f"{relative_path(last.filename)}, line {last.lineno}, in {last.name}"
    return f"{place}: {_in_short(error)}\n    {last.line}"


def _in_short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def relative_path(file: Path | str) -> str:
    """A path as short as it can be written here."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return str(file)
