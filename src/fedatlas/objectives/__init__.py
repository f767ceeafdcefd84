"""Losses that users add: one file each, here or in `objectives` of a project.

A file with `value(margin, label)` and `derivative(margin, label)` is the loss of a linear model;
further arguments are its parameters, with their defaults: `value(margin, label, delta=1.0)`. A file
with `loss(outputs, targets)` is that of a network, sample by sample, in torch. Constants of the
file say the rest; they are literals, so that a plan reads them without running the file:

labels: `numbers` (by default), `counts` (0, 1, 2, …), `signs` (±1), or, of networks, `classes`.
formula: the loss ℓ(z, y), for the reference.

Of linear models also:

convex: whether it is, in the margin; False by default. Then gaps of f* can be proved.
curvature, steepest: the largest absolute second and first derivative by the margin, numbers or
    functions of the parameters; left out where there is none.
regulariser: `l2` (by default) or `nonconvex`, for experiments that state its `weight`.
prediction: a function of the margin and the parameters, where what is predicted beside labels that
    are not ±1 is not the margin itself.

`checked_functions` refuses what is not so at random margins, above all a derivative that is not the
value's. Losses are at least 0, which theorems and bounds of gaps rely on.
"""

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.extensions import code_folders, import_extension, relative_path

__path__ += code_folders("objectives")

Kind: TypeAlias = Literal["linear", "network"]
_NEEDED: dict[Kind, tuple[str, ...]] = {
    "linear": ("value", "derivative"),
    "network": ("loss",),
}
_LABELS: dict[Kind, tuple[str, ...]] = {
    "linear": ("numbers", "counts", "signs"),
    "network": ("numbers", "signs", "classes"),
}
_MARGINS = 300


class OwnLoss(NamedTuple):
    """The declarations of a file with a loss, read without running it.

    parameters: their defaults, by name. has_curvature: whether a bound is declared.
    told: the first line of the file.
    """

    name: str
    file: Path
    kind: Kind
    labels: str
    formula: str
    convex: bool
    regulariser: str
    parameters: Mapping[str, float]
    has_curvature: bool
    told: str

    @property
    def module(self) -> str:
        """The full name of its module."""
        return f"{__name__}.{self.name}"


class Functions(NamedTuple):
    """A loss of a linear model as its file has it, its parameters, and its bounds, or infinity."""

    value: Callable[..., float]
    derivative: Callable[..., float]
    prediction: Callable[..., float] | None
    numbers: tuple[float, ...]
    curvature: float
    steepest: float


def own_losses() -> dict[str, OwnLoss]:
    """Every file's, by its name; those whose names begin with `_` hold none."""
    return _losses(tuple(__path__))


@cache
def _losses(folders: tuple[str, ...]) -> dict[str, OwnLoss]:
    files = (file for folder in folders for file in sorted(Path(folder).glob("*.py")))
    return {file.stem: _read(file) for file in files if not file.name.startswith("_")}


def _read(file: Path) -> OwnLoss:
    """FedatlasError names a file that is not a loss."""
    where = relative_path(file)
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise FedatlasError(f"{where}, line {error.lineno}: {error.msg}") from error
    functions = {item.name: item for item in tree.body if isinstance(item, ast.FunctionDef)}
    kind: Kind = "network" if "loss" in functions else "linear"
    if missing := [name for name in _NEEDED[kind] if name not in functions]:
        raise FedatlasError(
            f"{where}: must define {' and '.join(missing)}: value(margin, label) and "
            "derivative(margin, label) of linear models, or loss(outputs, targets) of networks"
        )
    told = {name: _literal(where, name, value) for name, value in _assigned(tree)}
    labels = told.get("labels", "numbers")
    _require(labels in _LABELS[kind], where, f"labels must be one of {', '.join(_LABELS[kind])}")
    regulariser = told.get("regulariser", "l2")
    _require(regulariser in ("l2", "nonconvex"), where, "regulariser must be l2 or nonconvex")
    defaults = {name: _defaults(where, functions[name]) for name in _NEEDED[kind]}
    parameters = defaults[_NEEDED[kind][0]]
    _require(
        all(own == parameters for own in defaults.values()),
        where,
        "value and derivative must have the same parameters, with the same defaults",
    )
    for name in ("curvature", "steepest"):
        if name in functions:
            own = _defaults(where, functions[name], first=0)
            _require(own == parameters, where, f"{name} must have the parameters that value has")
    return OwnLoss(
        file.stem,
        file,
        kind,
        labels,
        told.get("formula", ""),
        bool(told.get("convex", False)),
        regulariser,
        parameters,
        "curvature" in told or "curvature" in functions,
        (ast.get_docstring(tree) or "").partition("\n")[0],
    )


def _assigned(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    known = {"labels", "formula", "convex", "regulariser", "curvature", "steepest"}
    return [
        (target.id, item.value)
        for item in tree.body
        if isinstance(item, ast.Assign)
        for target in item.targets
        if isinstance(target, ast.Name) and target.id in known
    ]


def _literal(where: str, name: str, value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError:
        if name in ("curvature", "steepest"):  # read when it is used
            return None
        raise FedatlasError(f"{where}: {name} must be a literal, such as True or 'signs'") from None


def _defaults(where: str, function: ast.FunctionDef, first: int = 2) -> dict[str, float]:
    """Those of arguments from the one of this number on, which all must have."""
    names = [argument.arg for argument in function.args.args]
    values = [_literal(where, "a default", each) for each in function.args.defaults]
    _require(
        len(names) - len(values) == first and all(isinstance(one, int | float) for one in values),
        where,
        f"{function.name} takes {first} arguments without a default, and parameters with numbers "
        "as their defaults",
    )
    return dict(zip(names[first:], map(float, values), strict=True))


def _require(sound: bool, where: str, otherwise: str) -> None:
    if not sound:
        raise FedatlasError(f"{where}: {otherwise}")


def own_module(name: str) -> ModuleType:
    """The file of the loss, run."""
    return import_extension(own_losses()[name].module)


@cache
def checked_functions(name: str, parameters: tuple[tuple[str, float], ...]) -> Functions:
    """The loss of a linear model at these parameters, all of them, after a check.

    At random margins and labels: values and derivatives are finite, no value is below 0, and the
    derivative is that of the value, by finite differences; so are its bounds, where they are
    declared, and that it rises, where the loss is `convex`. FedatlasError names the margin at
    which something is not so.
    """
    loss, module, given = own_losses()[name], own_module(name), dict(parameters)

    def constant(what: str) -> float:
        found = getattr(module, what, math.inf)
        return float(found(**given)) if callable(found) else float(found)

    numbers = tuple(given[key] for key in loss.parameters)
    bounds = constant("curvature"), constant("steepest")
    functions = Functions(
        module.value, module.derivative, getattr(module, "prediction", None), numbers, *bounds
    )
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for margin, label in _drawn(loss.labels):
                _check_at(functions, margin, label, loss)
    except ArithmeticError as error:
        raise FedatlasError(
            f"{relative_path(loss.file)}: {type(error).__name__}: {error}"
        ) from None
    return functions


def _drawn(labels: str) -> list[tuple[float, float]]:
    random = np.random.default_rng(0)
    margins = np.concatenate([random.normal(0, 3, _MARGINS), random.uniform(-20, 20, _MARGINS)])
    drawn = {
        "signs": random.choice([-1.0, 1.0], 2 * _MARGINS),
        "counts": random.poisson(3.0, 2 * _MARGINS).astype(float),
        "numbers": random.normal(0, 3, 2 * _MARGINS),
    }
    return list(zip(margins.tolist(), drawn[labels].tolist(), strict=True))


def _check_at(functions: Functions, margin: float, label: float, loss: OwnLoss) -> None:
    def of(function: Callable[..., float], moved: float = 0.0) -> float:
        return float(function(margin + moved, label, *functions.numbers))

    where = f"{relative_path(loss.file)}: at the margin {margin:.6g} and the label {label:.6g}"
    value, slope = of(functions.value), of(functions.derivative)
    finite = math.isfinite(value) and math.isfinite(slope)
    _require(finite, where, f"value is {value:g} and derivative {slope:g}: both must be finite")
    _require(
        value >= -1e-12,
        where,
        f"value is {value:.6g}: no loss may be below 0; add what depends on the label alone",
    )
    step = 1e-5 * (1 + abs(margin))
    rate = (of(functions.value, step) - of(functions.value, -step)) / (2 * step)
    _require(
        abs(rate - slope) <= 1e-6 * max(abs(slope), abs(rate)) + 1e-8 * (1 + abs(value)),
        where,
        f"derivative is {slope:.8g}, but value rises at the rate {rate:.8g}: mend one of them",
    )
    _require(
        abs(slope) <= functions.steepest * (1 + 1e-9),
        where,
        f"derivative is {slope:.6g}, more than the declared steepest, {functions.steepest:.6g}",
    )
    turn = (of(functions.derivative, step) - of(functions.derivative, -step)) / (2 * step)
    rounding = 1e-9 * (1 + abs(slope))
    _require(
        abs(turn) <= functions.curvature * (1 + 1e-6) + rounding,
        where,
        f"derivative changes at the rate {turn:.6g}, more than the declared curvature, "
        f"{functions.curvature:.6g}",
    )
    _require(
        not loss.convex or turn >= -rounding,
        where,
        "derivative falls, but the file says 'convex = True': remove that",
    )
