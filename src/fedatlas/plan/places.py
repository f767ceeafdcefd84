"""Places of files: the workflow's, those of projects, and those of a run.

What belongs to the workflow lies in its repository, what belongs to a run below the working
directory. Files of a run are named by Snakemake's path variables, for which it puts folders in
place: those that its command, or the workflow that uses this one as a module, names.
"""

import os
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError
from fedatlas.extensions import CODE, VARIABLE, projects, relative_path
from fedatlas.schema.config import CONFIG_VARIABLE

#: Snakemake's path variable for the folder of results, at the beginning of files' names.
RESULTS = "<results>"
#: Entry points of installed packages that are projects.
ENTRY_POINTS = "fedatlas.projects"

_FILES = ("datasets", "papers", "sentences", "suite")
# Below a project, what makes it one.
_PARTS = (*CODE, "experiments", *(f"{name}.yaml" for name in _FILES))


_PACKAGE = Path(__file__).parents[1]
# Where a wheel has the files of the repository: see setup.py.
_CARRIED = _PACKAGE / "repository"


def repository() -> Path:
    """The folder of workflow, configuration and published results: a clone's, or the wheel's.

    FedatlasError where the package was installed without them.
    """
    for folder in (_CARRIED, _PACKAGE.parents[1]):
        if (folder / "Snakefile").is_file():
            return folder
    raise FedatlasError(
        f"{_PACKAGE}: is installed without the workflow and its configuration: install a wheel, or "
        "clone the repository and run pip install --editable . there"
    )


def where_published(path: Path) -> Path:
    """The path; `published` and what is below it, if not here, as the repository has them."""
    if path.parts[:1] == ("published",) and not path.exists() and (repository() / path).exists():
        return Path(relative_path(repository() / path))
    return path


def check_clone(config: Path) -> None:
    """FedatlasError for the configuration of a wheel, which nothing may be written to."""
    if config.resolve().is_relative_to(_CARRIED):
        raise FedatlasError(
            f"{config}: belongs to the installed package: clone the repository and run this there"
        )


def snakefile() -> str:
    """The workflow's Snakefile, for `module fedatlas: snakefile: …` of other workflows."""
    return str(repository() / "Snakefile")


def shipped_configuration() -> Path:
    """The configuration folder of the workflow."""
    told = os.environ.get(CONFIG_VARIABLE)
    return Path(relative_path(told or repository() / "config"))


def is_shipped(folder: Path) -> bool:
    """Whether it is the configuration folder of this workflow, or of another copy of it."""
    return folder.is_dir() and (folder.resolve().parent / "src" / "fedatlas").is_dir()


def files_named(name: str, configuration: Path, folders: Sequence[Path]) -> list[Path]:
    """The configuration folder's file of that name, and those of projects that have one."""
    own = [folder / name for folder in folders]
    return [configuration / name, *(file for file in own if file.is_file())]


def catalogue_files() -> list[Path]:
    """The catalogues of data sets: the workflow's, and those of projects that have one."""
    return files_named("datasets.yaml", shipped_configuration(), projects())


def folder_of_results(workflow: Any) -> str:
    """The folder that Snakemake puts in place of `RESULTS`, below the prefix of a module if any.

    workflow: Snakemake's, while it reads the Snakefile. FedatlasError for a file in its place, and
    for a prefix and an absolute folder at once, which Snakemake joins in two ways.
    """
    prefixed = workflow.modifier.path_modifier.replace_prefix
    applied = workflow.pathvars.apply
    named, joined = str(Path(prefixed(applied(RESULTS)))), str(Path(applied(prefixed(RESULTS))))
    if named != joined:
        raise FedatlasError(
            f"pathvars: results: '{applied(RESULTS)}' and the module's prefix make two folders, "
            f"{named} and {joined}: name a folder below the working directory, or no prefix"
        )
    if Path(named).exists() and not Path(named).is_dir():
        raise FedatlasError(f"{named} is a file, but must be a folder: move it away")
    return named


def find_projects(folders: Sequence[Path]) -> list[Path]:
    """The folders that are projects, then the projects that installed packages offer.

    Where the environment variable FEDATLAS_PROJECTS is set, it names all there are.
    """
    if VARIABLE in os.environ:
        for folder in projects():
            if not folder.is_dir():
                raise FedatlasError(f"{VARIABLE}={os.environ[VARIABLE]}: {folder} is no folder")
        return [folder.resolve() for folder in projects()]
    found = [folder.resolve() for folder in folders if _is_project(folder)]
    found += [_installed(point.name, point.value) for point in entry_points(group=ENTRY_POINTS)]
    return list(dict.fromkeys(found))


def no_project() -> str:
    """What errors say of names that may be those of a project; empty where one is open."""
    if projects():
        return ""
    return (
        f": no project is open, as {Path.cwd()} has no folder 'experiments': go to the project's "
        f"folder, or name it by {VARIABLE}=/path/to/project"
    )


def project_around(folder: Path) -> Path | None:
    """The project in which a folder is one of experiments or code."""
    holds = "*.py" if folder.name in CODE else "*.yaml"
    is_part = folder.name in (*CODE, "experiments") and any(folder.glob(holds))
    return folder.parent if is_part else None


def _is_project(folder: Path) -> bool:
    """Whether it has a part of a project, and is not the workflow's own configuration."""
    return not is_shipped(folder) and any((folder / part).exists() for part in _PARTS)


def _installed(name: str, package: str) -> Path:
    """The folder of a package that is offered as a project."""
    try:
        spec = find_spec(package)
    except ImportError:
        spec = None
    folders = list((spec and spec.submodule_search_locations) or ())
    if not folders or not _is_project(Path(folders[0])):
        raise FedatlasError(
            f"entry point '{name}' of the group {ENTRY_POINTS}: '{package}' is no package whose "
            f"folder holds one of {', '.join(_PARTS)}: repair or uninstall it"
        )
    return Path(folders[0]).resolve()


CONSTRAINTS = {
    "collection": r"[a-z0-9-]+",
    "dataset": r"[A-Za-z0-9.-]+",
    "experiment": r"[a-z0-9-]+",
    "partition": r"[A-Za-z0-9._-]+",
    "point": r"[A-Za-z0-9._+-]+",
    "run": r"[A-Za-z0-9._+-]+",
    "split": r"[A-Za-z0-9.-]+",
}


def one_of(names: Iterable[str]) -> str:
    """A constraint that admits these names only."""
    return "|".join(re.escape(name) for name in sorted(names)) or "(?!)"
