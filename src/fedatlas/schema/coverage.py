"""What ran of every figure and table of the papers: config/coverage.yaml."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.models import Model, read_yaml, validated
from fedatlas.schema.papers import Text

#: Where a figure ran, and what that means; the only place that explains it.
RAN = {
    "paper": "on the paper's data",
    "dataless": "in full; it needs no data",
    "smaller": "smaller, or a part of the paper's data",
    "other": "on other data",
    "never": "never",
    "ours": "no runs in the paper; ours test what it states",
    "nothing": "nothing to run",
}
#: Where the paper shows results of runs: what is counted as panels.
PANELS = ("paper", "dataless", "smaller", "other", "never")
#: Verdicts of these are about what the paper ran.
AS_THE_PAPER = ("paper", "dataless")


class Covered(Model):
    """A figure or table of a paper, or those of its panels of which the same can be said.

    figure: as the paper calls it.
    panels: its panels, each of which counts as one; without any the whole counts as one.
    experiments: those that reproduce it, which this configuration states.
    ran: `paper` on the paper's data; `dataless` in full, where no data is needed; `smaller` on a
        part of it or with a smaller network; `other` on other data; `never`; `ours` where the
        paper shows no runs, but experiments of ours test what it states; `nothing` where there is
        nothing to run.
    data: on which it ran, or would.
    size: rows, rounds and seeds of what ran.
    why: what differs from the paper, or why it never ran.
    """

    figure: Text
    panels: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    ran: Literal["paper", "dataless", "smaller", "other", "never", "ours", "nothing"]
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
        named = Counter(
            f"{each.figure}({panel})" for each in self.figures for panel in each.panels or ("",)
        )
        for panel, times in named.items():
            if times > 1:
                raise ValueError(f"'{panel.removesuffix('()')}' stands twice; keep one")
        return self

    def panels(self, *ran: str) -> int:
        """How many panels ran so; all that show results of runs, by default."""
        wanted = ran or PANELS
        return sum(each.count for each in self.figures if each.ran in wanted)

    @property
    def as_the_paper(self) -> set[str]:
        """Experiments on the paper's data, or that need none; of several lines the first counts."""
        found: dict[str, str] = {}
        for each in self.figures:
            for name in each.experiments:
                found.setdefault(name, each.ran)
        return {name for name, ran in found.items() if ran in AS_THE_PAPER}


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


def _check_experiments(figures: Sequence[Covered], known: Collection[str], where: str) -> None:
    for each in figures:
        for name in each.experiments:
            if name not in known:
                raise FedatlasError(
                    f"{where}: {each.name}: there is no experiment '{name}'{similar(name, known)}"
                )
