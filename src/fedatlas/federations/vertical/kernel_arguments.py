"""What compiled loops of parties are given: rows cut by columns, and rules as codes."""

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.kernels.compilation import frozen
from fedatlas.arithmetic.kernels.formulas import LOSS_CODES, REGULARISER_CODES
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.kernels import sums
from fedatlas.federations.vertical.kernels.state import REFERENCE_CODES, Blocks, Rule
from fedatlas.federations.vertical.problem import UpdateRule
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.objectives import LinearObjective, Regulariser


def kernel_blocks(rows: PartyRows) -> tuple[Blocks, np.ndarray]:
    """The rows as kernels want them, and every party's number of features, per row if sparse."""
    starts = rows.starts.astype(np.int64)
    if isinstance(rows.features, np.ndarray):
        dense = np.ascontiguousarray(rows.features)
        nothing = np.zeros((0, 0), np.int64)
        parts: tuple[np.ndarray, ...]
        parts = (starts, dense, nothing, np.zeros(0, np.int32), np.zeros(0), rows.label)
        return Blocks(*map(frozen, parts)), np.diff(starts).astype(np.float64)
    features = sparse.csr_array(rows.features)
    features.sort_indices()
    indptr = features.indptr.astype(np.int64)
    columns = features.indices.astype(np.int32, copy=False)
    bounds = sums.party_bounds(indptr, columns, starts)
    parts = (starts, np.zeros((0, 0)), bounds, columns, features.data, rows.label)
    return Blocks(*map(frozen, parts)), np.diff(bounds, axis=1).mean(axis=0)


def kernel_rule(rule: UpdateRule, objective: LinearObjective, *, is_sparse: bool) -> Rule:
    """The rule as kernels want it; FedatlasError for a step that sparse rows cannot take."""
    weight = objective.regularisation_weight
    lazy = is_sparse and rule.step is None and objective.regulariser is Regulariser.L2
    if lazy and rule.step_size * weight >= 1:
        raise FedatlasError(
            f"step_size {rule.step_size:g} times the regularisation weight {weight:g} is 1 or "
            "more: no such step converges; lower step_size"
        )
    return Rule(
        LOSS_CODES[objective.loss],
        REGULARISER_CODES[objective.regulariser],
        weight,
        rule.step_size,
        REFERENCE_CODES[rule.reference],
        rule.backward,
        rule.synchronous,
    )
