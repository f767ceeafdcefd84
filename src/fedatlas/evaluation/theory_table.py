"""The table of theorems and runs, theory.csv, and what of traces theorems bound."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comma_separated import read_rows
from fedatlas.evaluation.costs import Trace, column
from fedatlas.evaluation.levels import diverged

#: What theorems bound the mean of, along the rounds.
SQUARED_GRADIENT, SUBOPTIMALITY = "squared gradient norm", "sub-optimality"


@dataclass(frozen=True)
class Row:
    """A run at a point, and a theorem; None where there is no number.

    covered: whether the run meets all conditions. lacks: those besides steps that it does not.
    step, largest_step, step_factor: the global step, or of SCAFFOLD the product K η_g η_l, the
    largest that is covered, and their ratio. local_…: likewise η_l. bounds: of what the mean along
    the rounds is bounded. promised: by what after the run's rounds, with its steps or the largest
    covered ones. measured: that mean of the run, averaged over seeds. slack: promised/measured.
    constant: promised times the rounds, as bounds fall with one over them. optimum: f* that
    sub-optimality is measured from.
    """

    run: str
    point: str
    theorem: str
    version: str
    covered: bool
    lacks: str
    smoothness: float
    step: float | None = None
    largest_step: float | None = None
    step_factor: float | None = None
    local_step: float | None = None
    largest_local_step: float | None = None
    local_step_factor: float | None = None
    bounds: str = ""
    rounds: int = 0
    promised: float | None = None
    measured: float | None = None
    slack: float | None = None
    constant: float | None = None
    optimum: float | None = None


COLUMNS = [field.name for field in fields(Row)]


def running_means(trace: Trace, quantity: str, optimum: float | None) -> np.ndarray:
    """(seeds, records) means of what theorems bound, over the rounds up to each record.

    Between records by straight lines. The first record's is its value; infinite for a lost seed.
    """
    if quantity == SQUARED_GRADIENT:
        values = column(trace, "gradient_norm") ** 2
    else:
        assert optimum is not None
        values = column(trace, "objective") - optimum
    rounds = column(trace, "round")
    pieces = np.diff(rounds, axis=1) * (values[:, 1:] + values[:, :-1]) / 2
    means = values.copy()
    means[:, 1:] = np.cumsum(pieces, axis=1) / (rounds[:, 1:] - rounds[:, :1])
    return np.where(diverged(trace)[:, None], np.inf, means)


def read_theory(path: Path) -> list[Row]:
    """The table back; FedatlasError names a file with other columns or contents."""
    return list(_read(path, read_rows(path, COLUMNS)))


def _read(path: Path, rows: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    texts = {"run", "point", "theorem", "version", "lacks", "bounds"}
    for row in rows:
        try:
            values: dict[str, Any] = {
                name: row[name] if name in texts else float(row[name]) if row[name] else None
                for name in COLUMNS
                if name != "covered"
            }
            values["rounds"] = int(values["rounds"])
            yield Row(**values, covered=row["covered"] == "True")
        except (TypeError, ValueError) as error:
            raise FedatlasError(f"{path}: {error}. Delete the file and run again.") from None
