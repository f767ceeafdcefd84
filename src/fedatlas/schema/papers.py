"""The papers that experiments reproduce: citations, errata, claims, and what ran of each.

Imported when the workflow is parsed: light.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.claims import Quantifier
from fedatlas.schema.models import Model, find_repeated, read_yaml, validated

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
    """An error or contradiction in a paper, and what is done here instead.

    concerns: methods, data sets and studies that it affects; if empty, all of the paper's.
    id: its name in findings, such as FP-1. where: its place in the paper. wrong: what the paper
    prints there. instead: what is done here.
    """

    id: str = Field(pattern=r"^[A-Z]+-[0-9]+$")
    where: Text
    wrong: Text
    instead: Text
    concerns: tuple[str, ...] = ()


class Paper(Model):
    """A paper's citation, and its errata as far as they affect what is computed.

    name: its short name in tables. title, authors, venue, year: as cited.
    identifier: arXiv:<number>, doi:10.<…> or openreview:<id>.
    errata: errors and contradictions of the paper, in the order of its pages.
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
        if identifier := find_repeated(erratum.id for erratum in errata):
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


class Sentence(Model):
    """A sentence of a paper that claims something; counts include it once, however many tests it.

    id: the name by which claims refer to it, such as fp/6.2/s2. place: where it is printed.
    text: as printed, with formulas in one line, "…" for omissions and our additions in brackets.
    cases: how many of its cases it is about: all, most or any.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(/[A-Za-z0-9.]+)+$")
    place: Text
    text: Text
    cases: Quantifier = "all"


class Sentences(Model):
    """The sentences of one paper, in the paper's order."""

    sentences: tuple[Sentence, ...]

    @field_validator("sentences")
    @classmethod
    def _each_has_an_id_of_its_own(cls, sentences: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
        if identifier := find_repeated(sentence.id for sentence in sentences):
            raise ValueError(f"two have the id '{identifier}'")
        return sentences


def load_sentences(*paths: Path, papers: Collection[str]) -> dict[str, dict[str, Sentence]]:
    """Sentences by paper and id; FedatlasError names file, paper and what is wrong.

    paths: files that may be missing, where no claim is a paper's.
    """
    found: dict[str, dict[str, Sentence]] = {key: {} for key in papers}
    for path in paths:
        content = read_yaml(path) if path.is_file() else {}
        if not isinstance(content, Mapping):
            raise FedatlasError(f"{path}: must be a mapping of papers' keys to lists of sentences")
        for key, value in content.items():
            if key not in found:
                raise FedatlasError(
                    f"{path}: key '{key}': papers.yaml describes no such paper"
                    f"{similar(str(key), papers)}"
                )
            own = validated(Sentences, {"sentences": value}, f"{path}: {key}").sentences
            if known := [each.id for each in own if any(each.id in of for of in found.values())]:
                raise FedatlasError(
                    f"{path}: {key}: '{known[0]}' is the id of another sentence: use another"
                )
            found[key] |= {each.id: each for each in own}
    return found


#: Where a figure ran, and what that means; the only place that explains it.
RAN = {
    "paper": "on the paper's data",
    "dataless": "in full; it needs no data",
    "smaller": "smaller, or a part of the paper's data",
    "other": "on other data or in another setting",
    "never": "never",
    "ours": "no runs in the paper; ours test what it states",
    "nothing": "nothing to run",
}
#: Where the paper shows results of runs: what is counted as panels.
PANELS = ("paper", "dataless", "smaller", "other", "never")
#: Verdicts of these are about what the paper ran.
AS_THE_PAPER = ("paper", "dataless")
#: Where a sentence was judged, and which lines of coverage.yaml are so; each is counted apart.
SETTINGS = {
    "in the paper's setting": AS_THE_PAPER,
    "smaller": ("smaller",),
    "on other data or times": ("other",),
    "in runs of ours": ("ours",),
}


class Covered(Model):
    """A figure or table of a paper, or some of its panels that ran in the same way.

    figure: the paper's name for it.
    panels: its panels, each of which counts as one; without this key the whole counts as one.
    experiments: the experiments of this configuration that reproduce it.
    ran: `paper` on the paper's data; `dataless` in full, where no data is needed; `smaller` on a
        part of the data or with a smaller network; `other` on other data; `never`; `ours` where
        the paper shows no runs, but our experiments test its statements; `nothing` where there is
        nothing to run.
    only: globs of the claims of these experiments that the line is about, such as those on budgets
        of runs whose accuracies are another panel; without this key all that no other line takes.
    other: globs of claims of these experiments that count as `other` nevertheless, such as claims
        about seconds of a network that the paper does not describe.
    data: the data on which it ran, or would run.
    size: rows, rounds and seeds of the runs.
    why: what differs from the paper, or why it never ran.
    """

    figure: Text
    panels: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    ran: Literal["paper", "dataless", "smaller", "other", "never", "ours", "nothing"]
    only: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    data: str = ""
    size: str = ""
    why: str = ""

    @model_validator(mode="after")
    def _says_what_matters(self) -> Self:
        if self.ran not in AS_THE_PAPER and not self.why:
            raise ValueError(f"'why' is missing: 'ran: {self.ran}' wants a reason")
        if self.ran in (*AS_THE_PAPER, "smaller", "other") and not (self.size and self.experiments):
            raise ValueError(f"'ran: {self.ran}' wants 'experiments' and 'size'")
        if self.ran == "ours" and not self.experiments:
            raise ValueError("'ran: ours' wants 'experiments', those that test what is declared")
        return self

    @property
    def name(self) -> str:
        """As people write it: Figure 2(a, b); panels that are no letters stand behind a comma."""
        if not self.panels:
            return self.figure
        told = ", ".join(self.panels)
        letters = all(len(panel) == 1 for panel in self.panels)
        return f"{self.figure}({told})" if letters else f"{self.figure}, {told}"

    @property
    def count(self) -> int:
        """How many panels it is."""
        return len(self.panels) or 1


class Coverage(Model):
    """All figures and tables of one paper, in the paper's order."""

    figures: tuple[Covered, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _each_panel_once(self) -> Self:
        named = (
            f"{each.figure}({panel})" for each in self.figures for panel in each.panels or ("",)
        )
        if panel := find_repeated(named):
            raise ValueError(f"'{panel.removesuffix('()')}' stands twice; keep one")
        return self

    def panels(self, *ran: str) -> int:
        """How many panels ran so; all that show results of runs, by default."""
        wanted = ran or PANELS
        return sum(each.count for each in self.figures if each.ran in wanted)

    @property
    def settings(self) -> dict[str, str]:
        """Experiments that ran, and globs of claims → their one of `SETTINGS`.

        Of several lines the first counts. `setting_of` reads them.
        """
        setting = {ran: name for name, kinds in SETTINGS.items() for ran in kinds}
        found: dict[str, str] = {}
        for each in self.figures:
            for name in each.experiments if each.ran in setting else ():
                if not each.only:
                    found.setdefault(name, setting[each.ran])
                found |= {f"{name}/{claims}": setting[each.ran] for claims in each.only}
                found |= {f"{name}/{claims}": setting["other"] for claims in each.other}
        return found


def setting_of(settings: Mapping[str, str], claim: str) -> str:
    """The setting of a claim, `experiment/claim`, or ""."""
    for name, setting in settings.items():
        if "/" in name and fnmatchcase(claim, name):
            return setting
    return settings.get(claim.partition("/")[0], "")


def load_coverage(
    path: Path, papers: Collection[str], experiments: Collection[str]
) -> dict[str, Coverage]:
    """By paper; FedatlasError names file, paper and what is unknown, missing or stands twice."""
    content = read_yaml(path)
    if not isinstance(content, Mapping):
        raise FedatlasError(f"{path}: must be a mapping of papers' keys to lists of figures")
    if set(content) != set(papers):
        wrong = sorted(map(str, set(content) ^ set(papers)))
        raise FedatlasError(
            f"{path}: must have the papers of papers.yaml, one key each; not so: {', '.join(wrong)}"
        )
    found = {
        key: validated(Coverage, {"figures": value}, f"{path}: {key}")
        for key, value in content.items()
    }
    for key, coverage in found.items():
        _check_experiments(coverage.figures, experiments, f"{path}: {key}")
    return {key: found[key] for key in papers}


def read_settings(path: Path) -> dict[str, str]:
    """`Coverage.settings` of all papers; none if there is no file."""
    content = read_yaml(path) if path.is_file() else {}
    found: dict[str, str] = {}
    for key, value in content.items() if isinstance(content, Mapping) else ():
        found |= validated(Coverage, {"figures": value}, f"{path}: {key}").settings
    return found


def _check_experiments(figures: Sequence[Covered], known: Collection[str], where: str) -> None:
    for each in figures:
        for name in each.experiments:
            if name not in known:
                raise FedatlasError(
                    f"{where}: {each.name}: there is no experiment '{name}'{similar(name, known)}"
                )
