"""Rates that figures draw beside curves: formulas of a run's costs and settings.

A formula is arithmetic only. It is parsed into a tree, and each part of the tree must be known
here, so that no text can execute code.
"""

import ast
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator

from fedatlas.errors import similar
from fedatlas.schema.quantities import COSTS

#: The factor by which a rate goes through its curve, and the value at which the curve starts.
FACTOR, START = "c", "start"

_FUNCTIONS: Mapping[str, Any] = {"sqrt": np.sqrt, "exp": np.exp, "log": np.log}
_OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.float_power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}
_LONGEST = 200  # characters: no tree is too deep to be read
_KNOWN = f"numbers, names, + - * / **, brackets and {', '.join(_FUNCTIONS)}"


def formula_names(text: str) -> set[str]:
    """The names in a formula, besides functions; ValueError says why a text is none."""
    return {name for part in _parts(_tree(text)) if (name := _name(part)) is not None}


def _checked(text: str) -> str:
    names = formula_names(text)
    if not names & COSTS.keys():
        raise ValueError(
            f"'{text}' names no cost along which it could be drawn: write one, such as 'round': "
            f"{', '.join(COSTS)}"
        )
    if FACTOR in names:
        some = dict.fromkeys(names, 0.3)
        at_0, at_1, at_2 = (evaluate(text, some | {FACTOR: value}) for value in (0.0, 1.0, 2.0))
        if not abs(at_2 - 2 * at_1 + at_0) <= 1e-9 * (abs(at_1) + abs(at_2)):
            raise ValueError(
                f"'{text}': '{FACTOR}' is the factor by which the rate goes through the curve: "
                f"write it once, as in '{FACTOR} / round'"
            )
    return text


#: A formula of one cost at least, such as `c / round` or `start * (1 - 0.1 * step_size) ** round`.
Formula = Annotated[str, AfterValidator(_checked)]


def check_names(text: str, settings: Mapping[str, Any]) -> None:
    """Raise ValueError for a name that is no cost, no number among a run's settings, c or start."""
    known = {*COSTS, FACTOR, START, *settings}
    for name in sorted(formula_names(text)):
        if name not in known:
            raise ValueError(
                f"'{text}' names '{name}'{similar(name, known)}: a formula knows costs, such as "
                f"round, '{FACTOR}', '{START}' and what the run states: {', '.join(settings)}"
            )
        value = settings.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"'{text}': '{name}' is {value!r}, which is no number")


def evaluate(text: str, values: Mapping[str, Any]) -> np.ndarray:
    """The formula's values, float64 of the values' shape; infinite or NaN where it has none.

    values: of all names in it, numbers or arrays of one shape.
    """

    def value(part: ast.expr) -> Any:
        name = _name(part)
        if name is not None:
            return np.asarray(values[name], dtype=np.float64)
        match part:
            case ast.Call(ast.Name(function), [argument]):
                return _FUNCTIONS[function](value(argument))
            case ast.BinOp(left, operator, right):
                return _OPERATORS[type(operator)](value(left), value(right))
            case ast.UnaryOp(operator, operand):
                return _OPERATORS[type(operator)](value(operand))
        return np.float64(ast.literal_eval(part))

    with np.errstate(all="ignore"):
        return np.asarray(value(_tree(text)), dtype=np.float64)


def _tree(text: str) -> ast.expr:
    """The formula's tree, of known parts; ValueError says what is wrong with the text."""
    if len(text) > _LONGEST:
        raise ValueError(f"a formula has at most {_LONGEST} characters, and this one {len(text)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's, about texts such as "1or 2"
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"'{text}' is no formula: {getattr(error, 'msg', error)}") from None
    for part in _parts(tree):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitXor):
            raise ValueError(f"'{text}': write ** for a power, not ^")
        if not _is_known(part):
            told = ast.unparse(part)
            raise ValueError(f"'{text}': '{told}' is none of {_KNOWN}, which formulas consist of")
    return tree


def _is_known(part: ast.expr) -> bool:
    match part:
        case ast.Constant():
            return type(part.value) in (int, float) and abs(part.value) < 1e300  # type: ignore[arg-type]
        case ast.Call(ast.Name(function), [_], []):
            return function in _FUNCTIONS
        case ast.BinOp() | ast.UnaryOp():
            return type(part.op) in _OPERATORS
    return _name(part) is not None


def _name(part: ast.expr) -> str | None:
    """The name that a part is, also one within another, as `scheme.gamma`; None of others."""
    match part:
        case ast.Name(name):
            return name
        case ast.Attribute(ast.Name(outer), inner):
            return f"{outer}.{inner}"
    return None


def _parts(tree: ast.expr) -> Iterator[ast.expr]:
    """The tree and all that is computed within it; not the names of functions."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        yield part
        match part:
            case ast.BinOp():
                waiting += [part.left, part.right]
            case ast.UnaryOp():
                waiting.append(part.operand)
            case ast.Call():
                waiting += part.args
