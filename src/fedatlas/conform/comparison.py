"""The other implementation of a comparison, and the first deviation."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import is_zipfile

import numpy as np

from fedatlas.conform.ours import Draws, Ours
from fedatlas.errors import FedatlasError, first_line
from fedatlas.extensions import relative_path

_SHOWN = 4


class Theirs:
    """Another implementation: `start(problem, x0, hyper)` and `step(state, draws, problem, hyper)`.

    Both return a state, a mapping of names to arrays; those that begin with `_` are its own, and
    may be anything. hyper: our hyper-parameters, as attributes. What they raise becomes a
    FedatlasError that names their line and the round.
    """

    def __init__(self, code: Any, ours: Ours) -> None:
        """code: a module, or anything with the two functions."""
        self._code, self._problem, self._hyper = code, ours.problem, ours.hyper
        self._state = self._called("start", "", self._problem, ours.x0.copy(), self._hyper)

    def after(self, draws: Draws | None) -> Mapping[str, Any]:
        """Its quantities after a round; before round 0 there are no draws."""
        if draws is not None:
            given = self._state, draws, self._problem, self._hyper
            self._state = self._called("step", f" of round {draws.round}", *given)
        return {name: own for name, own in self._state.items() if not name.startswith("_")}

    def _called(self, name: str, when: str, *given: Any) -> Mapping[str, Any]:
        file = Path(getattr(self._code, "__file__", name))
        try:
            found = getattr(self._code, name)(*given)
        except (Exception, SystemExit) as error:  # who exits has not conformed
            raise _raised(file, f"in {name}{when}", error) from error
        if not isinstance(found, Mapping):
            raise FedatlasError(
                f"{relative_path(file)}: {name}{when} returns {type(found).__name__}: return a "
                "mapping of names to arrays, such as {'x': x}"
            )
        return found


class Recorded:
    """Iterates of another implementation: arrays by name, (rounds + 1, …), the start first.

    Rows of rounds in which ours has no such quantity are not read.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], rounds: int) -> None:
        """FedatlasError if some are too few for so many rounds."""
        for name, own in arrays.items():
            if (many := len(own) if own.ndim else 0) <= rounds:
                raise FedatlasError(
                    f"'{name}' has {many} iterates, but the start and {rounds} rounds are "
                    f"{rounds + 1}: record them all, the start first, with NaN where there is "
                    "none yet, or ask for fewer --rounds"
                )
        self._arrays = arrays

    def after(self, draws: Draws | None) -> Mapping[str, Any]:
        """The next of them."""
        place = 0 if draws is None else draws.round + 1
        return {name: own[place] for name, own in self._arrays.items()}


def load_code(file: Path) -> Any:
    """A Python file with `start` and `step`, as a module; FedatlasError names what it lacks."""
    _check_there(file)
    spec = spec_from_file_location(f"theirs_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise FedatlasError(f"{file}: is no Python file; give one that defines start and step")
    module = module_from_spec(spec)
    sys.path.insert(0, str(file.parent.absolute()))  # it may import what lies beside it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _raised(file, "as it is imported", error) from error
    finally:
        sys.path.pop(0)
    for name in ("start", "step"):
        if not callable(getattr(module, name, None)):
            raise FedatlasError(
                f"{file}: defines no '{name}': write start(problem, x0, hyper) and "
                "step(state, draws, problem, hyper), which return a mapping of names to arrays"
            )
    return module


def _raised(file: Path, when: str, error: BaseException) -> FedatlasError:
    """What another implementation raised, at the last line that lies in its folder."""
    found = file, getattr(error, "lineno", None), getattr(error, "text", None)  # of a SyntaxError
    for frame in traceback.extract_tb(error.__traceback__):
        own = Path(frame.filename)
        lies_there = own.is_absolute() and own.is_relative_to(file.parent.absolute())
        if lies_there and "site-packages" not in own.parts:
            found = own, frame.lineno, frame.line
    where, line, text = found
    at, shown = f", line {line}" if line else "", (text or "").strip()
    told = f"{relative_path(where)}{at}, {when}: {type(error).__name__}: {error}"
    return FedatlasError(f"{told}\n    {shown}" if shown else told)


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
        whose = "" if self.client is None else f" of client {self.client}"
        first = [", ".join(f"{one:.6g}" for one in np.ravel(own)[:_SHOWN])
                 for own in (self.ours, self.theirs)]  # fmt: skip
        more = ", …" if np.size(self.ours) > _SHOWN else ""
        unit = " of its norm" if np.any(self.ours) else ""
        told = f"off by {self.size:.2g}{unit}" if np.isfinite(self.size) else "not finite"
        return (
            f"{_when(self.round)}, {self.quantity}{whose} is {told}: ours is "
            f"({first[0]}{more}), theirs ({first[1]}{more})"
        )


@dataclass
class Comparison:
    """The result of a comparison.

    rounds: how many were played. first: what deviates in the first round in which anything does,
        those of single clients first, then by size; empty where all conforms.
    largest: by quantity, the largest deviation. compared: by quantity, in how many rounds. missing:
        quantities of ours that they do not give. begun: those that differ before round 0, while
        all agrees after it. advice: what else may be the cause, of iterates.
    """

    tolerance: float
    rounds: int = 0
    first: list[Deviation] = field(default_factory=list)
    largest: dict[str, float] = field(default_factory=dict)
    compared: Counter[str] = field(default_factory=Counter)
    missing: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    advice: str = ""

    def __str__(self) -> str:
        compared = ", ".join(
            f"{name} ({size:.2g}{self._in_some(name)})" for name, size in self.largest.items()
        )
        many = (
            f"in {self.rounds} round{'s' * (self.rounds != 1)}" if self.rounds else "at the start"
        )
        lines = [f"compared {many}, with the largest deviations: {compared}"]
        if self.begun:
            lines.append(f"other than ours at the start, without effect: {', '.join(self.begun)}")
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
        return "\n".join([told, *others, *lines, *self._advised()])

    def _in_some(self, name: str) -> str:
        many = self.compared[name]
        return "" if many == self.rounds else f"; in {many} of them" if many else "; at the start"

    def _advised(self) -> Iterator[str]:
        """What may be the cause, where it is no fault of the other side's."""
        off = {each.quantity: each.size for each in self.first}
        if max(off.values()) < 1e-4:
            yield "float32 may be off by as much: `--tolerance 1e-4` allows it"
        if self.first[0].round <= 0 and self.largest["x"] <= self.tolerance:
            yield (
                f"x agrees so far: {', '.join(off)} may mean something else in your source, or "
                "have another index; what you do not return is not compared"
            )
        if self.advice:
            yield self.advice


def compare(ours: Ours, code: Any, rounds: int, tolerance: float) -> Comparison:
    """Play both sides until the first round in which a quantity deviates by more than this.

    code: see `Theirs`; or a file, of Python or of iterates (.npz).
    """
    theirs: Theirs | Recorded
    found, scales, had = Comparison(tolerance), dict[str, float](), dict[str, None]()
    if isinstance(code, Path) and code.suffix == ".npz":
        iterates = _load(code)
        found.advice = _check_problem(code, iterates.pop("problem", None), ours)
        theirs = Recorded(iterates, rounds)
    else:
        theirs = Theirs(load_code(code) if isinstance(code, Path) else code, ours)
    seen: set[str] = set()
    start: list[Deviation] = []
    for number, (draws, _, mine) in enumerate(ours.play(rounds), -1):
        off, worst = list[Deviation](), dict[str, float]()
        given = {name: own for name, own in theirs.after(draws).items() if own is not None}
        _check_names(given, mine, seen, number)
        seen |= given.keys()
        had |= {name: None for name, own in mine.items() if own is not None}
        for name, value in given.items():
            if (own := mine[name]) is None:  # ours has nothing there yet
                continue
            other = _as_numbers(name, value, own.shape, number)
            each = _deviations(number, name, own, other, scales)
            worst[name] = max((one.size for one in each), key=lambda size: (np.isnan(size), size))
            off += [one for one in each if not one.size <= tolerance]
        found.rounds = number + 1
        found.compared.update(worst.keys() if number >= 0 else ())
        begun = {each.quantity: None for each in start}
        if begun and not off and begun.keys() <= worst.keys():  # ours sets them in round 0
            found.begun, start = tuple(begun), []
            found.largest |= {name: worst[name] for name in begun}
        for name, size in worst.items():
            found.largest[name] = max(size, found.largest.get(name, 0.0))
        found.missing = tuple(name for name in had if name not in found.largest)
        if number < 0 and all(each.quantity != "x" for each in off):
            start = off  # what comes of them, round 0 shows
        elif start or off:
            found.first = sorted(start or off, key=lambda one: (one.client is None, -one.size))
            return found
    return found


def _as_numbers(name: str, value: Any, shape: tuple[int, ...], number: int) -> np.ndarray:
    when = f"{_when(number)}, '{name}'"
    try:
        found = np.asarray(value)
        if np.iscomplexobj(found):
            raise TypeError("they are complex")
        found = found.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FedatlasError(
            f"{when} holds no real numbers, but {type(value).__name__}: {first_line(error)}"
        ) from error
    if found.shape != shape:
        raise FedatlasError(f"{when} has the shape {found.shape}, but ours has {shape}")
    return found


def _when(number: int) -> str:
    return "before round 0" if number < 0 else f"in round {number}"


def _check_names(
    given: Mapping[str, Any], ours: Mapping[str, Any], seen: set[str], number: int
) -> None:
    unknown = [name for name in given if name not in ours]
    if unknown or "x" not in given:
        told = f"'{unknown[0]}', which ours does not have" if unknown else "no 'x'"
        raise FedatlasError(
            f"{_when(number)}, the other side gives {told}: name quantities as the fields of our "
            f"state, {', '.join(ours)}; x is required; begin the names of others with _"
        )
    for name in sorted(seen - given.keys()):
        if ours[name] is not None:
            raise FedatlasError(
                f"{_when(number)}, '{name}' is no longer given: return it in every round, so that "
                "it is compared in all of them, or never"
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
    with np.errstate(invalid="ignore", over="ignore"):  # of what is not finite
        return [
            Deviation(
                number, name, client if rows else None,
                float(np.linalg.norm(np.ravel(other - mine))) / scale, mine, other,
            )
            for client, (mine, other) in enumerate(pairs)
        ]  # fmt: skip


def _check_there(file: Path) -> None:
    if not file.is_file():
        raise FedatlasError(f"{file}: there is no such file: name that of your implementation")


def _load(file: Path) -> dict[str, np.ndarray]:
    _check_there(file)
    if not is_zipfile(file):
        raise FedatlasError(f"{file}: is no .npz, a zip of arrays: write it as numpy.savez does")
    try:
        with np.load(file) as found:
            return {name: found[name] for name in found.files}
    except Exception as error:  # damage can make zipfile and numpy raise anything
        raise FedatlasError(f"{file}: cannot be read as .npz: {first_line(error)}") from error


def _check_problem(file: Path, stated: np.ndarray | None, ours: Ours) -> str:
    """Advice where iterates do not say what they are of; FedatlasError if it is another problem."""
    if stated is None:
        return (
            "iterates may be of another problem: repeat all options of its --export; where they "
            "hold its number `problem`, too, this is checked"
        )
    if not np.array_equal(np.ravel(stated), [ours.number]):
        raise FedatlasError(
            f"{file}: 'problem' is {stated}, but these options make problem {ours.number}: repeat "
            "all options of the --export that iterates are of, such as --hyper and --seed"
        )
    return ""
