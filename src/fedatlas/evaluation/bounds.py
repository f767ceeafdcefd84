"""Theorems' bounds for runs: the table that a theory study writes, and the bounded quantities."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from fedatlas.evaluation.levels import Trace, column, diverged, running_means
from fedatlas.evaluation.tables import parse_rows, row_parser

#: What theorems bound: means along all rounds so far, and values where a run stands.
SQUARED_GRADIENT, GRADIENT = "squared gradient norm", "gradient norm"
SUBOPTIMALITY, LAST_SUBOPTIMALITY = "sub-optimality", "sub-optimality at the end"
#: Of agents, of the one for whom it is largest.
LAST_SQUARED_GRADIENT = "squared gradient norm at the end"
SQUARED_PRIMAL_GRADIENT = "squared norm of ∇Φ"


@dataclass(frozen=True)
class Bound:
    """A promise after x of the theorem's epochs: constant/x + start · contraction^x + floor.

    of: the quantity, such as `SQUARED_GRADIENT`. counted: what x counts.
    """

    of: str
    counted: str
    constant: float = 0.0
    start: float = 0.0
    contraction: float = 0.0
    floor: float = 0.0

    def after(self, epochs: float) -> float:
        """The bound after so many epochs, more than 0."""
        return self.constant / epochs + self.start * self.contraction**epochs + self.floor


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
        """The promised bounds at these costs; epochs rise with the cost."""
        assert self.promised is not None and self.epochs and self.spent
        epochs = costs * (self.epochs / self.spent)
        shape = (part or 0.0 for part in (self.constant, self.start, self.contraction, self.floor))
        bound = Bound(self.bounds, self.counted, *shape)
        return np.array([bound.after(each) for each in epochs])


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


def read_theory(path: Path) -> list[Row]:
    """The table back; FedatlasError names a file with other columns or contents."""
    return parse_rows(path, COLUMNS, row_parser(Row))
