"""Blocks of parties: their rows and rules for compiled loops, their shares, and their updates.

Dense rows are computed as they stand. Sparse rows are lazy: an update changes every coordinate, by
w ← w − γ(mean + ∇g(w)) where its row is zero, and costs what the row has. Without a regulariser or
with l2, a block is kept as w = scale · v − drift · mean: with ρ = 1 − γλ an update makes scale ρ
times as large and drift ρ · drift + γ, and only the row's entries of v change. With the nonconvex
regulariser, `touched` says how many updates of its block a coordinate has seen; it catches up when
it is read or updated.

An update by a function of the method's own, such as momentum, clipping or Adam, may move every
coordinate and needs v_ℓ as a whole, also where rows are sparse: it costs what the block has
columns, and no coordinate is ever behind.
"""

from collections.abc import Callable
from functools import cache
from inspect import getsourcefile, getsourcelines
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, float64, int64, void
from numba.core.errors import NumbaError
from scipy import sparse

from fedatlas.arithmetic.kernels.compilation import compiled, frozen
from fedatlas.arithmetic.kernels.formulas import (
    NONCONVEX,
    REGULARISER_CODES,
    loss_code,
    regulariser_derivative,
)
from fedatlas.errors import FedatlasError
from fedatlas.extensions import relative_path
from fedatlas.federations.vertical.kernels import PLAIN, REFERENCE_CODES, TABLE, Blocks, Rule
from fedatlas.federations.vertical.problem import UpdateRule
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.losses import Regulariser
from fedatlas.schema.objectives import LinearObjective


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
    bounds = party_bounds(indptr, columns, starts)
    parts = (starts, np.zeros((0, 0)), bounds, columns, features.data, rows.label)
    return Blocks(*map(frozen, parts)), np.diff(bounds, axis=1).mean(axis=0)


@compiled
def party_bounds(indptr, columns, starts):
    """(n, q + 1) positions in sorted CSR rows where each party's columns begin, and the end."""
    parties = len(starts) - 1
    bounds = np.empty((len(indptr) - 1, parties + 1), dtype=np.int64)
    for row in range(len(bounds)):
        entry = indptr[row]
        for party in range(parties):
            while entry < indptr[row + 1] and columns[entry] < starts[party]:
                entry += 1
            bounds[row, party] = entry
        bounds[row, parties] = indptr[row + 1]
    return bounds


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
        loss_code(objective.loss),
        REGULARISER_CODES[objective.regulariser],
        weight,
        rule.step_size,
        REFERENCE_CODES[rule.reference],
        rule.backward,
        rule.synchronous,
    )


# Of Lagrange's polynomial through 1, 1/2, …, 1/6, at 0.
_LAGRANGE = (-1 / 120, 4 / 3, -81 / 4, 256 / 3, -3125 / 24, 324 / 5)
_FEW = 64  # missed updates that are made one by one
_LONGEST = 1 / 64  # time of updates at once, by the rate at which a coordinate changes
SMALLEST_SCALE = 1e-100  # below it a block is written out, before 1 / scale overflows


# Unsigned indices cannot be negative, which numba checks at every access otherwise.


@compiled(inline="always")
def share(
    party, row, starts, dense, bounds, columns, values, rule, scale, drift, touched, now, w, mean
):
    """w_ℓ·x_{i,ℓ} of a party; now: how many updates its block has had."""
    total, pull = 0.0, 0.0
    if dense.shape[0]:
        for j in range(np.uint64(starts[party]), np.uint64(starts[party + 1])):
            total += dense[np.uint64(row), j] * w[j]
        return total
    first, last = np.uint64(bounds[row, party]), np.uint64(bounds[row, party + 1])
    if rule.regulariser == NONCONVEX:
        _catch_up(columns, first, last, rule, touched, now, w, mean)
    if rule.reference == PLAIN:
        for entry in range(first, last):
            total += values[entry] * w[np.uint32(columns[entry])]
        return scale[party] * total
    for entry in range(first, last):
        total += values[entry] * w[np.uint32(columns[entry])]
        pull += values[entry] * mean[np.uint32(columns[entry])]
    return scale[party] * total - drift[party] * pull


@compiled(inline="always")
def update(
    party, row, difference, starts, dense, bounds, columns, values, rule, samples, scale, drift,
    touched, now, w, mean,
):  # fmt: skip
    """w_ℓ ← w_ℓ − γ(difference · x_{i,ℓ} + mean_ℓ + ∇g(w_ℓ)); with a table, its new mean."""
    step = rule.step_size
    if dense.shape[0]:
        start, stop = np.uint64(starts[party]), np.uint64(starts[party + 1])
        for j in range(start, stop):
            penalty = regulariser_derivative(rule.regulariser, rule.weight, w[j])
            w[j] -= step * (difference * dense[np.uint64(row), j] + mean[j] + penalty)
        if rule.reference == TABLE:
            for j in range(start, stop):
                mean[j] += difference / samples * dense[np.uint64(row), j]
        return
    first, last = np.uint64(bounds[row, party]), np.uint64(bounds[row, party + 1])
    if rule.regulariser == NONCONVEX:
        _catch_up(columns, first, last, rule, touched, now, w, mean)
        for entry in range(first, last):
            j = columns[entry]
            penalty = regulariser_derivative(NONCONVEX, rule.weight, w[j])
            w[j] -= step * (difference * values[entry] + mean[j] + penalty)
            touched[j] = now + 1
    else:
        # Of no regulariser the weight is 0.
        shrinkage = step * rule.weight
        scale[party] -= shrinkage * scale[party]
        drift[party] += step - shrinkage * drift[party]
        if rule.reference == TABLE:  # what the new mean must not change
            step -= drift[party] / samples
        step *= difference / scale[party]
        for entry in range(first, last):
            w[np.uint32(columns[entry])] -= step * values[entry]
    if rule.reference == TABLE:
        for entry in range(first, last):
            mean[np.uint32(columns[entry])] += difference / samples * values[entry]
    if scale[party] < SMALLEST_SCALE:
        settle_block(
            starts[party], starts[party + 1], now, rule, scale[party], drift[party], touched, w,
            mean,
        )  # fmt: skip
        scale[party], drift[party] = 1.0, 0.0


@compiled(allocates=False)
def settle_block(start, stop, now, rule, scale, drift, touched, w, mean):
    """Coordinates start:stop, sparse, become what they are after `now` updates of their block."""
    if rule.regulariser == NONCONVEX:
        for j in range(start, stop):
            w[j] = caught_up(rule.weight, rule.step_size, now - touched[j], w[j], mean[j])
            touched[j] = now
    elif rule.reference == PLAIN:
        for j in range(np.uint64(start), np.uint64(stop)):
            w[j] *= scale
    else:
        for j in range(np.uint64(start), np.uint64(stop)):
            w[j] = scale * w[j] - drift * mean[j]


@compiled(allocates=False)
def _catch_up(columns, first, last, rule, touched, now, w, mean):
    """Give a row's coordinates the updates of their block that they have missed, nonconvex g."""
    for entry in range(first, last):
        j = columns[entry]
        w[j] = caught_up(rule.weight, rule.step_size, now - touched[j], w[j], mean[j])
        touched[j] = now


@compiled(allocates=False)
def caught_up(weight, step_size, missed, w, mean):
    """A coordinate after `missed` updates w ← w − γ(mean + ∇g(w)), nonconvex g.

    They are Euler's steps, and there is no closed form. Many are made at once: what one to six
    longer steps over the same time give is a polynomial in the length of a step, up to terms of
    order 7 in the time, and its value at γ is found. Apart from rounding, the error is below
    1e-13 (|w| + missed γ |mean|), as tested.
    """
    if w == 0.0 and mean == 0.0:
        return w
    at_once = _LONGEST / (step_size * max(2.0 * weight, abs(mean)))
    while missed > 0:
        if min(at_once, missed) < _FEW:
            for _ in range(missed):
                w -= step_size * (mean + regulariser_derivative(NONCONVEX, weight, w))
            return w
        size = np.int64(min(at_once, missed))
        share, change = 1.0, 0.0
        for steps in range(1, 7):
            share *= 1.0 - steps / size
        for steps in range(1, 7):
            length, moved = size * step_size / steps, 0.0
            for _ in range(steps):
                moved -= length * (mean + regulariser_derivative(NONCONVEX, weight, w + moved))
            change += moved * (_LAGRANGE[steps - 1] * share / (1.0 - steps / size))
        w += change
        missed -= size
    return w


_MOVE = void(float64[::1], float64[::1], float64[:, :], int64, float64[::1])


class Step(NamedTuple):
    """A `BlockStep` as kernels want it. v: room for the longest block; memory (rows, d)."""

    move: Any
    numbers: np.ndarray
    v: np.ndarray
    memory: np.ndarray


@cache
def compiled_move(move: Callable[..., None]) -> Any:
    """A method's function by its address: kernels are compiled once for all such functions.

    FedatlasError if numba cannot compile it.
    """
    try:
        return cfunc(_MOVE)(move)
    except NumbaError as error:
        place = f"{relative_path(str(getsourcefile(move)))}, line {getsourcelines(move)[1]}"
        raise FedatlasError(
            f"{place}: numba cannot compile {move.__name__}(w, v, memory, applied, numbers): "
            f"{str(error).strip()}"
        ) from error


@compiled(allocates=False)
def update_by(
    step, party, row, difference, starts, dense, bounds, columns, values, rule, samples, touched,
    now, w, mean,
):  # fmt: skip
    """v_ℓ = difference · x_{i,ℓ} + mean_ℓ + ∇g(w_ℓ), by which `move` changes w_ℓ and its memory."""
    start, stop = starts[party], starts[party + 1]
    v = step.v[: stop - start]
    for j in range(start, stop):
        v[j - start] = mean[j] + regulariser_derivative(rule.regulariser, rule.weight, w[j])
    if dense.shape[0]:
        for j in range(start, stop):
            v[j - start] += difference * dense[row, j]
    else:
        for entry in range(bounds[row, party], bounds[row, party + 1]):
            v[columns[entry] - start] += difference * values[entry]
    step.move(w[start:stop], v, step.memory[:, start:stop], now, step.numbers)
    if rule.reference == TABLE:
        if dense.shape[0]:
            for j in range(start, stop):
                mean[j] += difference / samples * dense[row, j]
        else:
            for entry in range(bounds[row, party], bounds[row, party + 1]):
                mean[columns[entry]] += difference / samples * values[entry]
    if len(touched):
        touched[start:stop] = now + 1
