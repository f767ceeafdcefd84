"""The papers that experiments reproduce: how they are cited, and their errata.

Imported when the workflow is parsed: light.
"""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model, read_yaml, validated

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

#: In place of a paper's key: of experiments that belong to no paper, or to several.
OURS = "ours"
#: The folder of small cases of the papers' experiments.
DEMO = "demo"
#: Targets and keys that no paper may have.
RESERVED_KEYS = ("all", DEMO, OURS, "paper")

# Registers of papers: the form of their numbers, and where a paper can be read.
_REGISTERS = {
    "arXiv": (r"\d{4}\.\d{4,5}", "https://arxiv.org/abs/"),
    "doi": (r"10\.\d{4,9}/[A-Za-z0-9._;/-]+", "https://doi.org/"),
    "openreview": (r"[A-Za-z0-9_-]+", "https://openreview.net/forum?id="),
}


def _known_form(identifier: str) -> str:
    register, _, number = identifier.partition(":")
    if register not in _REGISTERS or not re.fullmatch(_REGISTERS[register][0], number):
        raise ValueError("must be arXiv:<number>, doi:10.<…> or openreview:<id>")
    return identifier


class Erratum(Model):
    """Where a paper is wrong or contradicts itself, and what is done here instead.

    concerns: methods, data sets and studies that it affects; all of the paper's if it names none.
    id: by which findings name it, such as FP-1. where: in the paper. wrong: what it has there.
    instead: what is done here.
    """

    id: str = Field(pattern=r"^[A-Z]+-[0-9]+$")
    where: Text
    wrong: Text
    instead: Text
    concerns: tuple[str, ...] = ()


class Paper(Model):
    """How a paper is cited, and its errata as far as they affect what is computed.

    name: as tables print it. title, authors, venue, year: as it is cited.
    identifier: arXiv:<number>, doi:10.<…> or openreview:<id>.
    errata: where it is wrong or contradicts itself, in the order of its pages.
    """

    name: Text  # as tables print it
    title: Text
    authors: tuple[Text, ...] = Field(min_length=1)
    venue: Text
    year: int = Field(ge=1900, le=2100)
    identifier: Annotated[str, AfterValidator(_known_form)]
    errata: tuple[Erratum, ...] = ()

    @field_validator("errata")
    @classmethod
    def _each_has_an_id_of_its_own(cls, errata: tuple[Erratum, ...]) -> tuple[Erratum, ...]:
        identifiers = [erratum.id for erratum in errata]
        for identifier in identifiers:
            if identifiers.count(identifier) > 1:
                raise ValueError(f"two have the id '{identifier}'")
        return errata

    @property
    def address(self) -> str:
        """Where the paper can be read."""
        register, _, number = self.identifier.partition(":")
        return _REGISTERS[register][1] + number


def load_papers(*paths: Path) -> dict[str, Paper]:
    """All papers by key, in the files' order; FedatlasError names file, key and value.

    What errata concern is not checked: the catalogue may have lost the data set.
    """
    papers: dict[str, Paper] = {}
    where: dict[str, Path] = {}
    for path in paths:
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise FedatlasError(f"{path}: must be a mapping of papers' keys to what they are")
        for key, value in content.items():
            if not re.fullmatch(r"[a-z][a-z0-9]*", str(key)) or key in RESERVED_KEYS:
                raise FedatlasError(
                    f"{path}: key '{key}': a paper's key names a target and a folder: use small "
                    f"letters and digits, and none of {', '.join(RESERVED_KEYS)}"
                )
            if key in where:
                raise FedatlasError(
                    f"{path}: key '{key}': {where[key]} describes a paper of that key: use another"
                )
            where[key] = path
            papers[key] = validated(Paper, value, f"{path}: {key}")
    return papers
