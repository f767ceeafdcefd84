"""Projects: folders elsewhere, whose methods and networks Python finds as modules of this package.

A project has `methods/*.py` and `architectures/*.py`, and configuration (docs/projects.md). An
environment variable says which projects there are: so jobs, and what they start, know them, too.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedatlas.errors import FedatlasError

#: Names the folders of all projects, separated as in PATH.
VARIABLE = "FEDATLAS_PROJECTS"
#: Folders of a project that hold code, and the packages whose modules their files become.
CODE = {"methods": "fedatlas.algorithms", "architectures": "fedatlas.architectures"}

_PACKAGE = Path(__file__).parent


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
