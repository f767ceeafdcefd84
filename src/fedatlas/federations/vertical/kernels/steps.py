"""Updates of blocks by a function of the method's own, such as momentum, clipping or Adam.

Such a function may move every coordinate and needs v_ℓ as a whole, also where rows are sparse: an
update costs what the block has columns, and no coordinate is ever behind.
"""

from collections.abc import Callable
from functools import cache
from inspect import getsourcefile, getsourcelines
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, float64, int64, void
from numba.core.errors import NumbaError

from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.formulas import regulariser_derivative
from fedatlas.errors import FedatlasError
from fedatlas.extensions import relative_path
from fedatlas.federations.vertical.kernels.state import TABLE

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
