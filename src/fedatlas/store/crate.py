"""RO-Crate metadata of a published folder, for archives that give DOIs."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.model.person import Person
from rocrate.rocrate import ROCrate

from fedatlas import __version__
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest
from fedatlas.plan.places import snakefile
from fedatlas.schema.models import read_json, read_yaml
from fedatlas.store.crate_run import CRATE_VERSION, WORKFLOW_TYPES, add_run
from fedatlas.store.experiment import PUBLISHED, Experiment
from fedatlas.store.netcdf import SUMS
from fedatlas.store.packed import PACKED
from fedatlas.store.trace import NUMBERS

_NAME = "ro-crate-metadata.json"
_PROGRAM = "#fedatlas"
_WORKFLOW = "Snakefile"
# By suffix: media type and what such a file holds.
_KINDS = {
    PACKED: (
        "application/x-xz",
        "traces, netCDF-4 packed by xz: costs and measurements of runs, over point, seed and "
        "record",
    ),
    ".csv": ("text/csv", "verdicts: a row for each claim of a paper, and for each of its cases"),
    ".json": (
        "application/json",
        "the selection: by which rule runs chose among points of their grids, the chosen points, "
        "and how every candidate scored on each seed,",
    ),
    ".md": ("text/markdown", "what the folder holds and how it is read"),
    _WORKFLOW: (
        "text/plain",
        "the workflow's Snakefile, as it was; rules and code are in the repository",
    ),
    ".gitattributes": ("text/plain", "tells Git to keep the files' bytes, also on Windows"),
}


def describe_folder(
    folder: Path,
    citation: Mapping[str, Any],
    published: date,
    commit: str,
    foreign: Sequence[str] = (),
) -> None:
    """Write ro-crate-metadata.json about all files in the folder, columns of its tables, its run.

    citation: what a CITATION.cff states. commit: of the repository that publishes; may be empty.
    foreign: what is known of runs made elsewhere.
    The list of checksums, which holds this file's own, is written later.
    """
    shutil.copyfile(snakefile(), folder / _WORKFLOW)
    crate = ROCrate(version=CRATE_VERSION)
    crate.name = f"{citation.get('title', 'fedatlas')}: traces and verdicts"
    crate.description = (
        "Convergence traces of methods of federated and distributed optimisation, by run, seed and "
        "record, and verdicts on what papers claim of them. README.md says how they are read."
    ) + "".join(f" {one}." for one in foreign)
    crate.datePublished = published
    if "license" in citation:
        known = f"https://spdx.org/licenses/{citation['license']}"
        about_licence = {"@type": "CreativeWork", "name": citation["license"]}
        crate.license = crate.add(ContextEntity(crate, known, about_licence))
    authors = [crate.add(_author(crate, one)) for one in citation.get("authors", ())]
    if authors:
        crate.root_dataset["author"] = authors if len(authors) > 1 else authors[0]
    programs = [crate.add(program) for program in _programs(crate, citation, commit)]
    files, experiments = {}, {}
    for file in (file for file in sorted(folder.rglob("*")) if file.is_file()):
        place = file.relative_to(folder).as_posix()
        about: dict[str, Any] = {
            **_held(file.relative_to(folder)),
            "contentSize": str(file.stat().st_size),
            "sha256": file_digest(file),
        }
        if place == _WORKFLOW:
            about |= {"@type": WORKFLOW_TYPES, "version": commit or __version__}
            language = {"lang": "snakemake", "lang_version": version("snakemake")}
            crate.add_workflow(file, place, main=True, properties=about, **language)
            continue
        files[place] = crate.add_file(file, place, properties=about)
        if file.name.endswith(PUBLISHED) and file.parent == folder:
            experiments[place] = own = Experiment(file)
            files[place]["variableMeasured"] = [_column(crate, name) for name in _numbers(own)]
    actions = add_run(crate, experiments, files, authors)
    crate.root_dataset["mentions"] = [*programs, *actions]
    files["README.md"]["about"] = crate.root_dataset
    sums = {"description": "SHA-256 of every other file", "encodingFormat": "text/plain"}
    crate.add_file(folder / SUMS, SUMS, properties={"name": SUMS} | sums)
    crate.metadata.write(folder)


def is_published(folder: Path) -> bool:
    """Whether `describe_folder` described it."""
    try:
        described = read_json(folder / _NAME)["@graph"]
        return any(entity["@id"] == _PROGRAM for entity in described)
    except (FedatlasError, TypeError, KeyError):
        return False


def _held(file: Path) -> dict[str, str]:
    """file: its place in the folder."""
    media, holds = _KINDS[file.suffix or file.name]
    if file.parts[0] == "studies":
        holds = f"a study that claims of {file.parent.name} are about"
    elif file.suffix == ".json":
        holds += f" of {file.stem}"
    return {"name": file.name, "description": holds, "encodingFormat": media}


def _programs(crate: ROCrate, citation: Mapping[str, Any], commit: str) -> Iterator[ContextEntity]:
    """The package, and the repository whose code and experiments it ran."""
    # Software must have an address. Where none is known, a file of the folder says which it is.
    told = {"@id": "README.md"}
    package = {
        "@type": "SoftwareApplication",
        "name": "fedatlas",
        "softwareVersion": __version__,
        "url": told,
    }
    yield ContextEntity(crate, _PROGRAM, package)
    if commit:
        # Not SoftwareSourceCode, which RO-Crate takes for a script among the files.
        repository = {
            "@type": "SoftwareApplication",
            "name": f"{citation.get('title', 'repository')}: code and experiments",
            "version": commit,
            "url": citation.get("repository-code", told),
        }
        yield ContextEntity(crate, "#repository", repository)


def _author(crate: ROCrate, declared: dict[str, str]) -> ContextEntity:
    """A person has a family name, a group or institution a name."""
    if "name" in declared:
        group = {"@type": "Organization", "name": declared["name"]}
        return ContextEntity(crate, f"#{declared['name'].replace(' ', '-')}", group)
    names = [declared[key] for key in ("given-names", "family-names") if key in declared]
    name = " ".join(names)
    identifier = declared.get("orcid", f"#{name.replace(' ', '-')}")
    return Person(crate, identifier, {"name": name})


def _numbers(one: Experiment) -> list[str]:
    """Costs and measurements in a file of runs."""
    points = [point for own in one.points.values() for point in own.values()]
    held = {name for point in points for name in point.numbers.split()}
    return [name for name in NUMBERS if name in held]


def _column(crate: ROCrate, name: str) -> ContextEntity:
    """A cost or measurement; the crate has one entity for it."""
    long_name, units, *_ = NUMBERS[name]
    about = {"@type": "PropertyValue", "name": name, "description": long_name, "unitText": units}
    return crate.add(ContextEntity(crate, f"#column-{name}", about))


#: Stands in a new project's file where something is to be filled in.
BLANK = "FILL IN"


def read_citation(path: Path) -> Mapping[str, Any]:
    """The contents of the citation file; empty if it does not exist or is not filled in.

    FedatlasError if it is no CITATION.cff.
    """
    if not path.is_file():
        return {}
    declared = read_yaml(path)
    if not isinstance(declared, dict) or "title" not in declared:
        raise FedatlasError(f"{path}: has no 'title', so it is not a CITATION.cff")
    return {} if BLANK in str(declared) else declared


# What decides results; published folders hold none of it.
_CODE = (":/*.py", ":/*.yaml", ":/*.yml", ":/*.smk", ":/*.toml", ":/*.txt")


def revision(folder: Path) -> str:
    """The commit of the repository in which a folder lies, and whether code was changed since.

    Empty if it lies in none.
    """
    commit = _git(folder, "rev-parse", "HEAD").strip()
    changed = _git(folder, "status", "--porcelain", "--untracked-files=all", "--", *_CODE)
    return f"{commit} and uncommitted changes" if commit and changed else commit


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; empty where it fails, such as outside of a repository, or is missing."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout
