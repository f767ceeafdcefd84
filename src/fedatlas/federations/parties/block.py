"""A party's own block w_ℓ, and what it computes with it; nothing here knows of other parties."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.kernels.formulas import LOSS_CODES, LinearModel, loss_derivative
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.kernels.blocks import (
    kernel_blocks,
    kernel_rule,
    settle_block,
    share,
    update,
)
from fedatlas.federations.vertical.kernels.state import Rule
from fedatlas.federations.vertical.problem import UpdateRule
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.objectives import LinearObjective, Regulariser


class BlockState(NamedTuple):
    """A block between two rounds: w, mean (d_ℓ,); reference (n,) or (0,); updates it has had."""

    w: np.ndarray
    mean: np.ndarray
    reference: np.ndarray
    applied: int


def compile_kernels() -> None:
    """Compile what parties compute, and keep it on disk: they would all do so at the same time."""
    objective = LinearObjective(name="logistic_l2", weight=1.0)
    for features in (np.ones((1, 1)), sparse.csr_array(np.ones((1, 1)))):
        block = OwnBlock(PartyRows(features, np.ones(1), np.array([0, 1])), objective)
        block.follow(UpdateRule(0.5))
        block.update(0, block.slope(0, block.share(0)))
        block.refer_to(block.slopes(block.shares()))


class OwnBlock:
    """w_ℓ and the rows' own columns.

    applied: how many updates the block has had. width: its features, per row if rows are sparse.
    """

    def __init__(self, rows: PartyRows, objective: LinearObjective) -> None:
        """rows: one block, with labels if the party is active."""
        self._objective, self._loss = objective, LOSS_CODES[objective.loss]
        self._model = LinearModel(rows.features, rows.label, objective)
        blocks, widths = kernel_blocks(rows)
        self._rows, self._labels = blocks[:-1], blocks.labels
        self._sparse = not blocks.dense.shape[0]
        self.samples, self.width = len(rows), float(widths[0])
        self._rule: Rule | None = None
        d = self._model.dimension
        self.load(BlockState(np.zeros(d), np.zeros(d), np.zeros(0), 0))

    def load(self, state: BlockState) -> None:
        """Go on from there."""
        self.w, self._mean = state.w.copy(), state.mean.copy()
        self._reference, self.applied = state.reference.copy(), state.applied
        self._scale, self._drift = np.ones(1), np.zeros(1)
        lazy = self._sparse and self._objective.regulariser is Regulariser.NONCONVEX
        self._touched = np.full(len(self.w) if lazy else 0, self.applied)

    def follow(self, rule: UpdateRule) -> None:
        """Make updates by this rule from now on; the block must be settled.

        A rule with a reference needs one of all samples before the first update.
        """
        self._refers, self._renews = rule.reference != "none", rule.reference == "table"
        self._rule = kernel_rule(rule, self._objective, is_sparse=self._sparse)

    def share(self, row: int) -> float:
        """w_ℓ·x_{i,ℓ} of the block as it stands."""
        found: float = share(0, row, *self._rows, self._rule, *self._moving)
        return found

    def slope(self, row: int, margin: float) -> float:
        """ϑ at the margin of a sample, of which the party must have the label."""
        found: float = loss_derivative(self._loss, margin, self._labels[row])
        return found

    def update(self, row: int, slope: float) -> None:
        """One update by ϑ of a sample."""
        if self._refers and not len(self._reference):
            raise FedatlasError("an update needs a reference: make a full pass before it")
        difference = slope
        if self._refers:
            difference = slope - self._reference[row]
            if self._renews:
                self._reference[row] = slope
        update(0, row, difference, *self._rows, self._rule, self.samples, *self._moving)
        self.applied += 1

    def shares(self) -> np.ndarray:
        """w_ℓ·x_{i,ℓ} of all samples, (n,)."""
        self.settle()
        return self._model.margins(self.w)

    def slopes(self, margins: np.ndarray) -> np.ndarray:
        """ϑ of all samples, (n,)."""
        return self._model.losses(margins)[1]

    def refer_to(self, slopes: np.ndarray) -> None:
        """Take ϑ of all samples, (n,), as the reference from now on."""
        self.settle()
        self._reference, self._mean = slopes.copy(), self._model.data_gradient(slopes)

    def settle(self) -> None:
        """Give sparse coordinates the updates that they have missed."""
        if self._sparse and self._rule is not None:
            columns = 0, len(self.w)
            scales = self._scale[0], self._drift[0]
            settle_block(
                *columns, self.applied, self._rule, *scales, self._touched, self.w, self._mean
            )
            self._scale[0], self._drift[0] = 1.0, 0.0

    @property
    def state(self) -> BlockState:
        """The block as it stands."""
        self.settle()
        return BlockState(self.w, self._mean, self._reference, self.applied)

    @property
    def _moving(self) -> tuple[object, ...]:
        return self._scale, self._drift, self._touched, self.applied, self.w, self._mean
