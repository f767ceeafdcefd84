"""Declarations of measurements and costs, and the tables of them, which projects can extend."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import NamedTuple, TypeVar

from fedatlas.errors import FedatlasError
from fedatlas.extensions import CODE, VARIABLE, code_names, import_extension, relative_path
from fedatlas.measurements import Cost, Measurement, Quantity
from fedatlas.schema.models import only_subclass

T = TypeVar("T")
_KIND = "measurements"


class Declared(NamedTuple):
    """Runs that have what a file declares: those of these federations and methods, or all."""

    name: str
    federations: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def why_not(self, federation: str, method: str = "") -> str:
        """Why a run has it not; empty if it has. method: empty where it is not known."""
        place = f"{_KIND}/{self.name}.py is for"
        if self.federations and federation not in self.federations:
            return f"{place} the federations {', '.join(self.federations)}"
        if self.methods and method and method not in self.methods:
            return f"{place} the methods {', '.join(self.methods)}"
        return ""


class Measured(NamedTuple):
    """One measurement. best: 0 or 1, or None where neither less nor more is better."""

    long_name: str
    units: str = "1"
    best: int | None = None
    logarithmic: bool = False  # falls towards 0 over orders of magnitude
    declared: Declared | None = None  # by a file


class Counted(NamedTuple):
    """What a trace counts; every one is a cost axis.

    unit: what evidence calls so many of it. label: of figures' axes, the long name where it is
    empty. ticks: unit of figures' ticks, such as 2.5k or 2.5MB; None for plain numbers.
    choice: of lists from which readers choose a cost, where the label does not say enough.
    """

    long_name: str
    units: str = "1"
    unit: str = ""
    label: str = ""
    ticks: str | None = ""
    choice: str = ""
    declared: Declared | None = None  # by a file


class Table(Mapping[str, T]):
    """A mapping that is computed again when this process opens other projects."""

    def __init__(self, content: Callable[[], Mapping[str, T]]) -> None:
        self._content = cache(lambda _: dict(content()))

    def _now(self) -> dict[str, T]:
        found: dict[str, T] = self._content(os.environ.get(VARIABLE, ""))
        return found

    def __getitem__(self, name: str) -> T:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


class Names(Collection[str]):
    """Those of a table that are chosen by what is said of them, in its order."""

    def __init__(self, table: Mapping[str, T], chosen: Callable[[T], bool]) -> None:
        self._chosen = lambda: (name for name, one in table.items() if chosen(one))
        self._has = lambda name: name in table and chosen(table[name])

    def __contains__(self, name: object) -> bool:
        return self._has(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._chosen())

    def __len__(self) -> int:
        return sum(1 for _ in self._chosen())


def quantity_class(name: str) -> type[Quantity]:
    """The class in a file; FedatlasError names what it lacks."""
    import_module(CODE[_KIND])  # finds files of projects
    module = import_extension(f"{CODE[_KIND]}.{name}")
    found = only_subclass(module, Quantity)
    missing = sorted(found.__abstractmethods__)
    missing += [] if hasattr(found, "title") else ["title"]
    if missing or not issubclass(found, Measurement | Cost):
        place = relative_path(str(module.__file__))
        lacks = f"must define {', '.join(missing)}" if missing else "must be a Measurement or Cost"
        raise FedatlasError(f"{place}: {found.__name__} {lacks}")
    return found


def _classes() -> dict[str, type[Quantity]]:
    return {name: quantity_class(name) for name in code_names(_KIND)}


def joined(usual: Mapping[str, T], declared: Mapping[str, T]) -> dict[str, T]:
    """Both; FedatlasError where a file has the name of what all runs have."""
    for name in usual.keys() & declared.keys():
        raise FedatlasError(
            f"{_KIND}/{name}.py: fedatlas records '{name}' of its own: rename the file"
        )
    return {**usual, **declared}


def declared_measurements() -> dict[str, Measured]:
    """Those of files, here and in projects."""
    return {
        name: Measured(one.title, one.units, one.best, one.logarithmic, _where(name, one))
        for name, one in _classes().items()
        if issubclass(one, Measurement)
    }


def declared_costs() -> dict[str, Counted]:
    """Those of files, here and in projects."""
    return {
        name: _counted(one)._replace(declared=_where(name, one))
        for name, one in _classes().items()
        if issubclass(one, Cost)
    }


def _counted(one: type[Cost]) -> Counted:
    """Of an axis: prefixes such as M stand before bytes and seconds only, others are numbers."""
    unit = one.unit or one.title
    if ticks := {"byte": "B", "s": "s"}.get(one.units):
        return Counted(one.title, one.units, unit, ticks=ticks)
    label = one.title if one.units == "1" else f"{one.title} ({one.units})"
    return Counted(one.title, one.units, unit, label, ticks=None)


def _where(name: str, one: type[Quantity]) -> Declared:
    return Declared(name, one.federations, one.methods)
