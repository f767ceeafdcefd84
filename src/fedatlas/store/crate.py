"""RO-Crate metadata of a published folder, by which archives that give DOIs describe it."""

import subprocess
from collections.abc import Iterator, Mapping
from datetime import date
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.model.person import Person
from rocrate.rocrate import ROCrate

from fedatlas import __version__
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest
from fedatlas.schema.models import read_json, read_yaml
from fedatlas.store.experiment import SUFFIX, Experiment
from fedatlas.store.netcdf import SUMS, size_of_sums
from fedatlas.store.trace import NUMBERS

_NAME = "ro-crate-metadata.json"
_PROGRAM = "#fedatlas"
# By suffix: media type and what such a file holds.
_KINDS = {
    SUFFIX: (
        "application/x-netcdf",
        "traces: costs and measurements of runs, over point, seed and record",
    ),
    ".csv": ("text/csv", "verdicts: a row for each claim of a paper, and for each of its cases"),
    ".json": (
        "application/json",
        "the selection: by which rule runs chose among points of their grids, the chosen points, "
        "and how every candidate scored on each seed,",
    ),
    ".md": ("text/markdown", "what the folder holds and how it is read"),
    ".gitattributes": ("text/plain", "tells Git to keep the files' bytes, also on Windows"),
}


def describe_folder(
    folder: Path, citation: Mapping[str, Any], published: date, commit: str
) -> None:
    """Write ro-crate-metadata.json about all files in the folder, and columns of its tables.

    citation: what a CITATION.cff states. commit: of the repository that publishes; may be empty.
    The list of checksums, which holds this file's own, is written later.
    """
    crate = ROCrate()
    crate.name = f"{citation.get('title', 'fedatlas')}: traces and verdicts"
    crate.description = (
        "Convergence traces of methods of federated and distributed optimisation, by run, seed and "
        "record, and verdicts on what papers claim of them. README.md says how they are read."
    )
    crate.datePublished = published
    if "license" in citation:
        crate.license = f"https://spdx.org/licenses/{citation['license']}"
    authors = [crate.add(_author(crate, one)) for one in citation.get("authors", ())]
    if authors:
        crate.root_dataset["author"] = authors if len(authors) > 1 else authors[0]
    programs = _programs(crate, citation, commit)
    crate.root_dataset["mentions"] = [crate.add(program) for program in programs]
    columns: dict[str, ContextEntity] = {}
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    for file in files:
        about = {
            **_held(file),
            "contentSize": str(file.stat().st_size),
            "sha256": file_digest(file),
        }
        entity = crate.add_file(file, file.relative_to(folder).as_posix(), properties=about)
        if file.suffix == SUFFIX:
            entity["variableMeasured"] = _columns(crate, file, columns)
    listed = [*(file.relative_to(folder).as_posix() for file in files), crate.metadata.id]
    sums = {
        "name": SUMS,
        "description": "SHA-256 of every other file",
        "encodingFormat": "text/plain",
        "contentSize": str(size_of_sums(listed)),
    }
    crate.add_file(folder / SUMS, SUMS, properties=sums)
    crate.metadata.write(folder)


def is_published(folder: Path) -> bool:
    """Whether `describe_folder` described it."""
    try:
        described = read_json(folder / _NAME)["@graph"]
        return any(entity["@id"] == _PROGRAM for entity in described)
    except (FedatlasError, TypeError, KeyError):
        return False


def _held(file: Path) -> dict[str, str]:
    media, holds = _KINDS[file.suffix or file.name]
    of = f" of {file.stem}" if file.suffix == ".json" else ""
    return {"name": file.name, "description": holds + of, "encodingFormat": media}


def _programs(crate: ROCrate, citation: Mapping[str, Any], commit: str) -> Iterator[ContextEntity]:
    """The package, and the repository whose code and experiments it ran."""
    # Software must have an address. Where none is known, a file of the folder says which it is.
    told = {"@id": "README.md"}
    package = {
        "@type": "SoftwareApplication",
        "name": "fedatlas",
        "version": __version__,
        "softwareVersion": __version__,
        "url": _address() or told,
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


def _address() -> str:
    """Where the installed package says that it is found; empty if it does not."""
    try:
        declared = metadata("fedatlas")
    except PackageNotFoundError:
        return ""
    # "Repository, https://…"
    labelled = (one.rpartition(", ")[2] for one in declared.get_all("Project-URL", []))
    return next(labelled, "")


def _author(crate: ROCrate, declared: dict[str, str]) -> ContextEntity:
    """A person has a family name, a group or institution a name."""
    if "name" in declared:
        group = {"@type": "Organization", "name": declared["name"]}
        return ContextEntity(crate, f"#{declared['name'].replace(' ', '-')}", group)
    names = [declared[key] for key in ("given-names", "family-names") if key in declared]
    name = " ".join(names)
    identifier = declared.get("orcid", f"#{name.replace(' ', '-')}")
    return Person(crate, identifier, {"name": name})


def _columns(crate: ROCrate, file: Path, known: dict[str, ContextEntity]) -> list[ContextEntity]:
    """Costs and measurements in a file; those of one name are one entity."""
    found = []
    data = Experiment(file).data
    for name in filter(data.__contains__, NUMBERS):
        described = data[name].attrs
        if name not in known:
            about = {
                "@type": "PropertyValue",
                "name": name,
                "description": described["long_name"],
                "unitText": described["units"],
            }
            known[name] = crate.add(ContextEntity(crate, f"#column-{name}", about))
        found.append(known[name])
    return found


#: Stands in a new project's file where something is to be filled in.
BLANK = "FILL IN"


def read_citation(path: Path) -> Mapping[str, Any]:
    """What the file states; empty if there is none, or if it is not filled in yet.

    FedatlasError if it is no CITATION.cff.
    """
    if not path.is_file():
        return {}
    declared = read_yaml(path)
    if not isinstance(declared, dict) or "title" not in declared:
        raise FedatlasError(f"{path}: has no 'title': it is no CITATION.cff")
    return {} if BLANK in str(declared) else declared


# What decides results, where it is not in the repository yet.
_CODE = (".py", ".yaml", ".yml", ".smk")


def revision(folder: Path) -> str:
    """The commit of the repository in which a folder lies, and whether it was changed since.

    Empty if it lies in none. Changes of published folders do not count: they hold no code, and
    publishing writes them.
    """
    commit = _git(folder, "rev-parse", "HEAD").strip()
    if not commit:
        return ""
    top = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
    entries = _git(folder, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
    changed = any(
        (state != "??" or name.endswith(_CODE)) and not _is_published(top, Path(name))
        for state, name in ((entry[:2], entry[3:]) for entry in entries.split("\0") if entry)
    )
    return f"{commit} and uncommitted changes" if changed else commit


def _is_published(top: Path, name: Path) -> bool:
    return any((top / above / SUMS).is_file() for above in name.parents[:-1])


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; empty where it fails, such as outside of a repository, or is missing."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout
