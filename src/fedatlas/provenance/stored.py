"""Stored traces, one to a file or many in an atlas: attributes and values.

Files are checked first; then HDF5 reads one trace at a time.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.store import FORMAT as ATLAS_FORMAT
from fedatlas.store.contents import check_contents, opened_hdf5
from fedatlas.store.groups import text_of
from fedatlas.store.lazy_groups import attributes_of
from fedatlas.store.trace import FORMAT as TRACE_FORMAT

#: Attributes that name a trace, in the order of the atlas's groups.
IDENTITY = ("paper", "experiment", "run", "point")
# Attributes that hold JSON objects.
_OBJECTS = {"hyper_parameters", "optima", "shard_digests", "specification", "versions"}


@dataclass(frozen=True)
class Place:
    """Where a trace is stored: a file, and the group in it."""

    file: Path
    group: str = "/"

    def __str__(self) -> str:
        return str(self.file) if self.group == "/" else f"{self.file}: {self.group}"


@dataclass(frozen=True)
class StoredTrace:
    """attributes: texts, numbers, mappings. variables: (seeds,), (records,) or (seeds, records)."""

    attributes: dict[str, Any]
    variables: dict[str, np.ndarray]


def trace_name(attributes: dict[str, Any]) -> str:
    """paper/experiment/run/point."""
    return "/".join(str(attributes.get(key)) for key in IDENTITY)


def places_in(file: Path) -> dict[str, Place]:
    """The trace that a file is, or all traces of an atlas, by name.

    FedatlasError names a file that cannot be read or is neither.
    """
    check_contents(file)
    with opened_hdf5(file) as opened:
        found = text_of(opened, "format")
        if found == TRACE_FORMAT:
            return {trace_name(_attributes(opened, Place(file))): Place(file)}
        if found == ATLAS_FORMAT:
            return {group.strip("/"): Place(file, group) for group in _points(opened)}
    raise FedatlasError(
        f"{file}: is neither a trace nor an atlas of this version (its format is {found!r})"
    )


def read_stored(place: Place) -> StoredTrace:
    """A trace with its values; FedatlasError if it cannot be read or is no whole trace."""
    if place.group == "/":  # an atlas is checked once, where its places are listed
        check_contents(place.file)
    with opened_hdf5(place.file) as opened:
        group = opened[place.group]
        attributes = _attributes(group, place)
        variables = {name: _values(dataset) for name, dataset in group.items()}
    _check_shapes(variables, place)
    return StoredTrace(attributes, variables)


def _points(atlas: h5py.File) -> list[str]:
    groups = [atlas]
    for _ in IDENTITY:
        groups = [child for group in groups for child in group.values()]
    return [group.name for group in groups]


def _attributes(group: Any, place: Place) -> dict[str, Any]:
    if not isinstance(group, h5py.Group) or text_of(group, "format") != TRACE_FORMAT:
        raise FedatlasError(
            f"{place}: is not a trace of this version (expected the format {TRACE_FORMAT!r}). "
            "Move it away and run again."
        )
    found = {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in attributes_of(group).items()
    }
    for name in _OBJECTS & found.keys():
        found[name] = json.loads(found[name])
        if not isinstance(found[name], dict):
            raise ValueError(f"its attribute {name} is no JSON object")
    return found


def _values(dataset: h5py.Dataset) -> np.ndarray:
    text = h5py.check_string_dtype(dataset.dtype)
    values: np.ndarray = dataset.asstr()[...].astype(str) if text else dataset[...]
    return values


def _check_shapes(variables: dict[str, np.ndarray], place: Place) -> None:
    shapes = {name: values.shape for name, values in variables.items()}
    seeds, records = shapes.get("seed", ()), shapes.get("record", ())
    own = {"seed": seeds, "record": records, "status": seeds}
    whole = len(seeds) == len(records) == 1 and "status" in shapes
    if not whole or any(shape != own.get(name, seeds + records) for name, shape in shapes.items()):
        raise FedatlasError(
            f"{place}: is no whole trace: it needs seeds, records, a status by seed, and all else "
            "by both. Move it away and run again."
        )
