"""RO-Crate metadata of a published folder, by which archives that give DOIs describe it."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rocrate.model.contextentity import ContextEntity
from rocrate.model.person import Person
from rocrate.rocrate import ROCrate

from fedatlas import __version__
from fedatlas.atlas.checksums import NAME as SUMS
from fedatlas.atlas.tables import SUFFIX
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest
from fedatlas.schema.models import read_yaml

# By suffix: media type and what such a file holds.
_KINDS = {
    SUFFIX: ("application/vnd.apache.parquet", "traces: a row for each run, seed and record"),
    ".csv": ("text/csv", "verdicts: a row for each sentence of a paper, and for each of its cases"),
    ".json": ("application/json", "a selection: the chosen points and every candidate's score"),
    ".md": ("text/markdown", "what the folder holds and how it is read"),
}


def describe_folder(folder: Path, citation: Path | None, published: date) -> None:
    """Write ro-crate-metadata.json about all files in the folder, and columns of its tables.

    citation: a CITATION.cff, whose title, licence and authors are taken. The list of checksums,
    which holds this file's own, is written later.
    """
    crate = ROCrate()
    stated = _citation(citation)
    crate.name = f"{stated.get('title', 'fedatlas')}: traces and verdicts"
    crate.description = (
        "Convergence traces of methods of federated and distributed optimisation, by run, seed and "
        "record, and verdicts on what papers claim of them. README.md says how they are read."
    )
    crate.datePublished = published
    if "license" in stated:
        crate.license = f"https://spdx.org/licenses/{stated['license']}"
    authors = [crate.add(_author(crate, one)) for one in stated.get("authors", ())]
    if authors:
        crate.root_dataset["author"] = authors
    program = {"@type": "SoftwareApplication", "name": "fedatlas", "softwareVersion": __version__}
    crate.root_dataset["mentions"] = crate.add(ContextEntity(crate, "#fedatlas", program))
    columns: dict[str, ContextEntity] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        media, holds = _KINDS[file.suffix]
        about = {
            "name": holds,
            "encodingFormat": media,
            "contentSize": str(file.stat().st_size),
            "sha256": file_digest(file),
        }
        entity = crate.add_file(file, file.relative_to(folder).as_posix(), properties=about)
        if file.suffix == SUFFIX:
            entity["variableMeasured"] = _columns(crate, file, columns)
    sums = {"name": "SHA-256 of every other file", "encodingFormat": "text/plain"}
    crate.add_file(folder / SUMS, SUMS, properties=sums)
    crate.metadata.write(folder)


def _citation(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    stated = read_yaml(path)
    if not isinstance(stated, dict) or "title" not in stated:
        raise FedatlasError(f"{path}: has no 'title': it is no CITATION.cff")
    return stated


def _author(crate: ROCrate, stated: dict[str, str]) -> ContextEntity:
    """A person has a family name, a group or institution a name."""
    if "name" in stated:
        group = {"@type": "Organization", "name": stated["name"]}
        return ContextEntity(crate, f"#{stated['name'].replace(' ', '-')}", group)
    names = [stated[key] for key in ("given-names", "family-names") if key in stated]
    name = " ".join(names)
    identifier = stated.get("orcid", f"#{name.replace(' ', '-')}")
    return Person(crate, identifier, {"name": name})


def _columns(crate: ROCrate, file: Path, known: dict[str, ContextEntity]) -> list[ContextEntity]:
    """The columns of a table; those of one name are one entity."""
    found = []
    for column in pq.read_schema(file):
        if column.name not in known:
            about = {
                "@type": "PropertyValue",
                "name": column.name,
                "description": column.metadata[b"long_name"].decode(),
                "unitText": column.metadata[b"units"].decode(),
            }
            known[column.name] = crate.add(ContextEntity(crate, f"#column-{column.name}", about))
        found.append(known[column.name])
    return found
