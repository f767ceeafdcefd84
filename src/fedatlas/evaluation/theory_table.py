"""The table of theorems and runs, theory.csv, and what of traces theorems bound."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.evaluation.comma_separated import parse_rows
from fedatlas.evaluation.costs import Trace, column
from fedatlas.evaluation.levels import diverged

#: What theorems bound: means along all rounds so far, and values where a run stands.
SQUARED_GRADIENT, GRADIENT = "squared gradient norm", "gradient norm"
SUBOPTIMALITY, LAST_SUBOPTIMALITY = "sub-optimality", "sub-optimality at the end"
#: Of agents, of the one for whom it is largest.
LAST_SQUARED_GRADIENT = "squared gradient norm at the end"
SQUARED_PRIMAL_GRADIENT = "squared norm of ∇Φ"
QUANTITIES = (
    SQUARED_GRADIENT, GRADIENT, SUBOPTIMALITY, LAST_SUBOPTIMALITY, LAST_SQUARED_GRADIENT
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A run at a point, and a theorem; None where there is no number.

    covered: whether the run meets all conditions. lacks: those besides steps that it does not.
    note: where the statement does not follow from its proof, or what was taken for a constant.
    step, largest_step, step_factor: the step (of FedPAGE the global one, of SCAFFOLD the product
    K η_g η_l, of FMGDA ĉη), the largest that is covered, and their ratio. local_…: likewise η_l, of
    FMGDA the dual step cη. bounds: what is
    bounded. cost, spent: how much the run spent of what. counted, epochs: what the theorem counts,
    and how many of these the run made. promised: the bound then, at the run's step, or at covered
    ones if it is larger. at_start, measured: what is bounded, at the start and at the end, averaged
    over seeds. slack: promised/measured. constant, start, contraction, floor: the bound after x
    epochs is constant/x + start · contraction^x + floor. optimum: f* that sub-optimality is
    measured from, where records do not say it.
    """

    run: str
    point: str
    theorem: str
    version: str
    covered: bool
    lacks: str
    note: str
    smoothness: float
    step: float | None = None
    largest_step: float | None = None
    step_factor: float | None = None
    local_step: float | None = None
    largest_local_step: float | None = None
    local_step_factor: float | None = None
    bounds: str = ""
    cost: str = ""
    spent: float | None = None
    counted: str = ""
    epochs: float | None = None
    promised: float | None = None
    at_start: float | None = None
    measured: float | None = None
    slack: float | None = None
    constant: float | None = None
    start: float | None = None
    contraction: float | None = None
    floor: float | None = None
    optimum: float | None = None

    def bound(self, costs: np.ndarray) -> np.ndarray:
        """What is promised at these costs; its epochs rise with the cost."""
        assert self.promised is not None and self.epochs and self.spent
        epochs = costs * (self.epochs / self.spent)
        shape = self.constant or 0.0, self.start or 0.0, self.contraction or 0.0, self.floor or 0.0
        constant, start, contraction, floor = shape
        bounds: np.ndarray = constant / epochs + start * contraction**epochs + floor
        return bounds


COLUMNS = [field.name for field in fields(Row)]


def bounded_values(trace: Trace, quantity: str, optimum: float | None = None) -> np.ndarray:
    """(seeds, records) of what theorems bound: means along the rounds up to each record, or values.

    Between records by straight lines. The first record's is its value; infinite for a lost seed.
    Without an `optimum` the trace records its sub-optimality.
    """
    if quantity == SQUARED_PRIMAL_GRADIENT:
        values = column(trace, "primal_gradient_norm") ** 2
    elif "gradient" in quantity:
        values = column(trace, "gradient_norm") ** (1 if quantity == GRADIENT else 2)
    elif optimum is None:
        values = column(trace, "suboptimality")
    else:
        values = column(trace, "objective") - optimum
    if quantity not in (LAST_SUBOPTIMALITY, LAST_SQUARED_GRADIENT):
        values = running_means(column(trace, "round"), values)
    return np.where(diverged(trace)[:, None], np.inf, values)


def running_means(rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(seeds, records) means along the rounds up to each record, by straight lines."""
    pieces = np.diff(rounds, axis=1) * (values[:, 1:] + values[:, :-1]) / 2
    means = values.copy()
    means[:, 1:] = np.cumsum(pieces, axis=1) / (rounds[:, 1:] - rounds[:, :1])
    return means


def read_theory(path: Path) -> list[Row]:
    """The table back; FedatlasError names a file with other columns or contents."""
    return parse_rows(path, COLUMNS, _row)


def _row(row: Mapping[str, str]) -> Row:
    texts = {"run", "point", "theorem", "version", "lacks", "note", "bounds", "cost", "counted"}
    values: dict[str, Any] = {
        name: row[name] if name in texts else float(row[name]) if row[name] else None
        for name in COLUMNS
        if name != "covered"
    }
    return Row(**values, covered=row["covered"] == "True")
