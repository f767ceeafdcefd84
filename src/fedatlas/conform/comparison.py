"""The other side of a comparison, and where the two part first."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedatlas.conform.ours import Draws, Ours
from fedatlas.errors import FedatlasError, first_line

_SHOWN = 4


class Theirs:
    """Another implementation: `start(problem, x0, hyper)` and `step(state, draws, problem, hyper)`.

    Both return a state, a mapping of names to arrays; those that begin with `_` are its own, and
    may be anything. hyper: our hyper-parameters, as attributes.
    """

    def __init__(self, code: Any, ours: Ours) -> None:
        """code: a module, or anything with the two functions."""
        self._code, self._problem, self._hyper = code, ours.problem, ours.hyper
        self._state = code.start(self._problem, ours.x0.copy(), self._hyper)

    def after(self, draws: Draws | None) -> Mapping[str, Any]:
        """Its quantities after a round; before round 0 there are no draws."""
        if draws is not None:
            self._state = self._code.step(self._state, draws, self._problem, self._hyper)
        return {name: own for name, own in self._state.items() if not name.startswith("_")}


class Recorded:
    """Iterates of another implementation: arrays by name, (rounds + 1, …), the start first."""

    def __init__(self, arrays: Mapping[str, np.ndarray], rounds: int) -> None:
        """FedatlasError if some are too few for so many rounds."""
        for name, own in arrays.items():
            if len(own) <= rounds:
                raise FedatlasError(
                    f"'{name}' has {len(own)} iterates, but the start and {rounds} rounds are "
                    f"{rounds + 1}: record all, or ask for --rounds {max(len(own) - 1, 1)}"
                )
        self._arrays = arrays

    def after(self, draws: Draws | None) -> Mapping[str, Any]:
        """The next of them."""
        place = 0 if draws is None else draws.round + 1
        return {name: own[place] for name, own in self._arrays.items()}


def load_code(file: Path) -> Any:
    """A Python file with `start` and `step`, as a module; FedatlasError names what it lacks."""
    spec = spec_from_file_location(f"theirs_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FedatlasError(f"{file}: is no Python file; give one that defines start and step")
    module = module_from_spec(spec)
    sys.path.insert(0, str(file.parent.absolute()))  # it may import what lies beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    for name in ("start", "step"):
        if not callable(getattr(module, name, None)):
            raise FedatlasError(
                f"{file}: defines no '{name}': write start(problem, x0, hyper) and "
                "step(state, draws, problem, hyper), which return a mapping of names to arrays"
            )
    return module


class Deviation(NamedTuple):
    """How far a quantity is off: ‖theirs − ours‖ over the largest norm that ours has had so far.

    round: from 0, −1 before it. client: None of what the server has.
    """

    round: int
    quantity: str
    client: int | None
    size: float
    ours: np.ndarray
    theirs: np.ndarray

    def __str__(self) -> str:
        when = "before round 0" if self.round < 0 else f"in round {self.round}"
        whose = "" if self.client is None else f" of client {self.client}"
        first = [", ".join(f"{one:.6g}" for one in np.ravel(own)[:_SHOWN])
                 for own in (self.ours, self.theirs)]  # fmt: skip
        more = ", …" if np.size(self.ours) > _SHOWN else ""
        unit = " of its norm" if np.any(self.ours) else ""
        return (
            f"{when}, {self.quantity}{whose} is off by {self.size:.2g}{unit}: ours is "
            f"({first[0]}{more}), theirs ({first[1]}{more})"
        )


@dataclass
class Comparison:
    """What was found.

    rounds: how many were played. first: what deviates in the first round in which anything does,
        those of single clients first, then by size; empty where all conforms.
    largest: by quantity, the largest deviation. missing: quantities of ours that they do not give.
    """

    tolerance: float
    rounds: int = 0
    first: list[Deviation] = field(default_factory=list)
    largest: dict[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        compared = ", ".join(f"{name} ({size:.1g})" for name, size in self.largest.items())
        lines = [f"compared in {self.rounds} rounds, with the largest deviations: {compared}"]
        if self.missing:
            lines.append(f"not given, and not compared: {', '.join(self.missing)}")
        if not self.first:
            return "\n".join([f"conforms within {self.tolerance:g}", *lines])
        worst = {each.quantity: each for each in reversed(self.first)}
        others = [
            f"  also {each}" for name, each in reversed(worst.items())
            if name != self.first[0].quantity
        ]  # fmt: skip
        clients = {each.client for each in self.first if each.client is not None}
        who = f" (clients off: {', '.join(map(str, sorted(clients)))})" if clients else ""
        told = f"does not conform within {self.tolerance:g}: {self.first[0]}{who}"
        return "\n".join([told, *others, *lines])


def compare(ours: Ours, code: Any, rounds: int, tolerance: float) -> Comparison:
    """Play both sides until the first round in which a quantity deviates by more than this.

    code: see `Theirs`; or a file, of Python or of iterates (.npz).
    """
    theirs: Theirs | Recorded
    if isinstance(code, Path) and code.suffix == ".npz":
        theirs = Recorded(_load(code), rounds)
    else:
        theirs = Theirs(load_code(code) if isinstance(code, Path) else code, ours)
    found, scales = Comparison(tolerance), dict[str, float]()
    for number, (draws, mine) in enumerate(ours.play(rounds)):
        given, off = theirs.after(draws), []
        _check_names(given, mine)
        found.missing = tuple(name for name in mine if name not in given)
        for name, value in given.items():
            own, other = mine[name], np.asarray(value, dtype=np.float64)
            if own.shape != other.shape:
                raise FedatlasError(
                    f"'{name}' has the shape {other.shape}, but ours has {own.shape}"
                )
            each = _deviations(number - 1, name, own, other, scales)
            worst = max(each, key=lambda one: (np.isnan(one.size), one.size))
            found.largest[name] = max(worst.size, found.largest.get(name, 0.0))
            off += [one for one in each if not one.size <= tolerance]
        found.rounds = number
        if off:
            found.first = sorted(off, key=lambda one: (one.client is None, -one.size))
            return found
    return found


def _check_names(given: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    unknown = [name for name in given if name not in ours]
    if unknown or not given:
        told = f"'{unknown[0]}', which ours does not have" if unknown else "no quantity"
        raise FedatlasError(
            f"the other side gives {told}: name quantities as the fields of our state, "
            f"{', '.join(ours)}; begin the names of others with _"
        )


def _deviations(
    number: int, name: str, ours: np.ndarray, theirs: np.ndarray, scales: dict[str, float]
) -> list[Deviation]:
    """Of every row, or of the whole of what is no table of rows."""
    rows = ours.ndim == 2
    pairs = zip(ours, theirs, strict=True) if rows else [(ours, theirs)]
    norms = np.linalg.norm(ours, axis=1) if rows else np.linalg.norm(np.ravel(ours))
    scales[name] = max(scales.get(name, 0.0), float(np.max(norms, initial=0.0)))
    scale = scales[name] or 1.0
    return [
        Deviation(
            number, name, client if rows else None,
            float(np.linalg.norm(np.ravel(other - mine))) / scale, mine, other,
        )
        for client, (mine, other) in enumerate(pairs)
    ]  # fmt: skip


def _load(file: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(file) as found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError) as error:
        raise FedatlasError(f"{file}: cannot be read as .npz: {first_line(error)}") from error
