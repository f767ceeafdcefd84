"""Losses that users add, in compiled loops: by the address of their two functions.

Loops know a loss by a whole number. Of such a loss it is the address of two addresses, of a
function for the value and one for the derivative: loops are compiled once for all of them.
"""

import logging
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_double, c_void_p, cast
from functools import cache
from inspect import getsourcefile, getsourcelines
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, float64, njit, types
from numba.extending import intrinsic

from fedatlas.extensions import relative_path
from fedatlas.schema.losses import OwnLinearLoss

log = logging.getLogger(__name__)

VALUE, DERIVATIVE = 0, 1
_OF_SCALARS = CFUNCTYPE(c_double, c_double, c_double)
_KEPT: list[Any] = []  # what addresses point to


@cache
def address_of(loss: OwnLinearLoss) -> int:
    """The number by which loops know it; FedatlasError if the file is not what it says."""
    functions = loss.functions
    both = [_address(one, functions.numbers) for one in (functions.value, functions.derivative)]
    table = np.array(both, np.int64)
    _KEPT.append(table)
    return int(table.ctypes.data)


def _address(function: Callable[..., float], numbers: tuple[float, ...]) -> int:
    """Of the function, compiled; where numba cannot, of the function as it is, with a warning."""
    inner = njit(error_model="numpy")(function)

    def of_scalars(margin, label):
        return inner(margin, label, *numbers)

    called: Any
    try:
        called = cfunc(float64(float64, float64), error_model="numpy")(of_scalars)
        _KEPT.append(called)
        return int(called.address)
    except Exception as error:  # numba's are of many kinds
        place = f"{relative_path(str(getsourcefile(function)))}, line {getsourcelines(function)[1]}"
        log.warning(
            "%s: numba cannot compile %s, which is called as it is, many times slower: write it of "
            "numbers, with `math` or numpy, and mark functions that it calls with @numba.njit. %s",
            *(place, function.__name__, str(error).strip().splitlines()[0]),
        )

    def guarded(margin: float, label: float) -> float:
        try:
            return float(function(margin, label, *numbers))
        except (ArithmeticError, ValueError):  # at margins beyond those that were checked
            return float("nan")

    called = _OF_SCALARS(guarded)
    _KEPT.append(called)
    return int(cast(called, c_void_p).value or 0)


@intrinsic
def own_loss(typing: Any, table: Any, which: Any, margin: Any, label: Any) -> Any:
    """The value, or the derivative, of the loss whose address this is."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, which, margin, label = arguments
        number, real = ir.IntType(64), ir.DoubleType()
        kind = ir.FunctionType(real, [real, real]).as_pointer()
        places = builder.inttoptr(table, number.as_pointer())
        called = builder.inttoptr(builder.load(builder.gep(places, [which])), kind)
        # As of math's functions: loops are compiled as if it changed nothing, which is so.
        return builder.call(called, [margin, label], attrs=("readnone", "nounwind"))

    return types.float64(types.int64, types.int64, types.float64, types.float64), code
