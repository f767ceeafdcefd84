"""Stored traces, one to a file or many in an atlas: attributes and values.

HDF5 reads one trace at a time. Files may come from elsewhere: links are refused, and so are
declared sizes beyond any trace's, before memory is taken.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fedatlas.atlas.groups import text_of
from fedatlas.atlas.layout import FORMAT as ATLAS_FORMAT
from fedatlas.errors import FedatlasError
from fedatlas.traces.seal import check_seal
from fedatlas.traces.trace import FORMAT as TRACE_FORMAT

#: Attributes that name a trace, in the order of the atlas's groups.
IDENTITY = ("paper", "experiment", "run", "point")

# Values of one variable. A hundred times more than the longest trace with the most seeds.
_LARGEST = 1 << 24


@dataclass(frozen=True)
class Place:
    """Where a trace is stored: a file, and the group in it."""

    file: Path
    group: str = "/"

    def __str__(self) -> str:
        """As messages print it."""
        return str(self.file) if self.group == "/" else f"{self.file}: {self.group}"


@dataclass(frozen=True)
class StoredTrace:
    """attributes: texts and numbers. variables: (seeds,), (records,) or (seeds, records)."""

    place: Place
    attributes: dict[str, Any]
    variables: dict[str, np.ndarray]


def trace_name(attributes: dict[str, Any]) -> str:
    """paper/experiment/run/point."""
    return "/".join(str(attributes.get(key)) for key in IDENTITY)


def places_in(file: Path) -> list[Place]:
    """The trace that a file is, or all traces of an atlas.

    FedatlasError names a file that cannot be read or is neither.
    """
    with _opened(file) as opened:
        found = text_of(opened, "format")
        if found == TRACE_FORMAT:
            return [Place(file)]
        if found == ATLAS_FORMAT:
            return [Place(file, group) for group in _points(opened)]
    raise FedatlasError(
        f"{file}: is neither a trace nor an atlas of this version (its format is {found!r}). "
        "Delete it and run again."
    )


def read_attributes(place: Place) -> dict[str, Any]:
    """The attributes of a trace alone; FedatlasError if it cannot be read or is no trace."""
    with _opened(place.file) as opened:
        return _attributes(opened[place.group], place)


def read_stored(place: Place) -> StoredTrace:
    """A trace with its values; FedatlasError if it cannot be read or is no whole trace."""
    with _opened(place.file) as opened:
        group = opened[place.group]
        attributes = _attributes(group, place)
        variables = {name: _values(group, name, place) for name in group}
    _check_shapes(variables, place)
    return StoredTrace(place, attributes, variables)


@contextmanager
def _opened(file: Path) -> Iterator[h5py.File]:
    check_seal(file)
    try:
        with h5py.File(file, "r") as opened:
            yield opened
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise FedatlasError(
            f"{file}: not a readable netCDF file ({error}). Delete it and run again."
        ) from error


def _points(atlas: h5py.File) -> Iterator[str]:
    """Paths of the groups four levels down."""
    groups = [atlas]
    for _ in IDENTITY:
        groups = [_own(group, name) for group in groups for name in group]
        if not all(isinstance(group, h5py.Group) for group in groups):
            raise FedatlasError(
                f"{atlas.filename}: holds something else than /paper/experiment/run/point. "
                "Delete it and run again."
            )
    yield from (group.name for group in groups)


def _own(group: h5py.Group, name: str) -> Any:
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise FedatlasError(f"{group.file.filename}: {name}: is a link; refused. Delete the file.")
    return group[name]


def _attributes(group: Any, place: Place) -> dict[str, Any]:
    if not isinstance(group, h5py.Group) or text_of(group, "format") != TRACE_FORMAT:
        raise FedatlasError(
            f"{place}: is not a trace of this version (expected the format {TRACE_FORMAT!r}). "
            "Delete it and run again."
        )
    return {
        name: _plain(value) for name, value in group.attrs.items() if not name.startswith("_NC")
    }


def _plain(value: Any) -> Any:
    if isinstance(value, h5py.Empty):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    values = np.asarray(value).reshape(-1).tolist()
    return values[0] if len(values) == 1 else values


def _values(group: h5py.Group, name: str, place: Place) -> np.ndarray:
    dataset = _own(group, name)
    whole = isinstance(dataset, h5py.Dataset) and not dataset.is_virtual and not dataset.external
    text = whole and h5py.check_string_dtype(dataset.dtype) is not None
    if not whole or not (text or dataset.dtype.kind in "biuf"):
        raise FedatlasError(f"{place}: {name}: is no variable of a trace. Delete it and run again.")
    if dataset.size is None or dataset.size > _LARGEST:
        raise FedatlasError(f"{place}: {name}: has {dataset.size} values, more than any trace.")
    values = dataset.asstr()[...] if text else dataset[...]
    return np.asarray(values).astype(str) if text else np.asarray(values)


def _check_shapes(variables: dict[str, np.ndarray], place: Place) -> None:
    seeds, records = (
        variables[name].shape if name in variables else () for name in ("seed", "record")
    )
    own = {"seed": seeds, "record": records, "status": seeds}
    wrong = [
        name
        for name, values in variables.items()
        if values.shape != own.get(name, (*seeds, *records))
    ]
    if len(seeds) != 1 or len(records) != 1 or "status" not in variables or wrong:
        raise FedatlasError(
            f"{place}: is no whole trace: it needs seeds, records, a status by seed, and all else "
            f"by both{f', unlike {wrong[0]}' if wrong else ''}. Delete it and run again."
        )
