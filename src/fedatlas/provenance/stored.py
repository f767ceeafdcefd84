"""Stored traces, one to a file or an experiment's in one: attributes and values."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.store.experiment import FORMAT as EXPERIMENT_FORMAT
from fedatlas.store.experiment import Experiment
from fedatlas.store.netcdf import check_seal, readable
from fedatlas.store.trace import FORMAT as TRACE_FORMAT
from fedatlas.store.trace import read_trace

#: Attributes that name a trace.
IDENTITY = ("paper", "experiment", "run", "point")
# Attributes that hold JSON objects.
_OBJECTS = {"hyper_parameters", "optima", "shard_digests", "specification", "versions"}


@dataclass(frozen=True)
class Place:
    """Where a trace is stored: a file; run and point in that of an experiment, which is open."""

    file: Path
    experiment: Experiment | None = None
    run: str = ""
    point: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.run}/{self.point}" if self.experiment else str(self.file)


@dataclass(frozen=True)
class StoredTrace:
    """attributes: texts, numbers, mappings. variables: (seeds,), (records,) or (seeds, records)."""

    attributes: dict[str, Any]
    variables: dict[str, np.ndarray]


def trace_name(attributes: dict[str, Any]) -> str:
    """paper/experiment/run/point."""
    return "/".join(str(attributes.get(key)) for key in IDENTITY)


def places_in(file: Path) -> dict[str, Place]:
    """The trace that a file is, or all traces of an experiment, by name.

    FedatlasError names a file that cannot be read or is neither.
    """
    check_seal(file)
    with readable(file, Exception), netCDF4.Dataset(file) as opened:
        found = getattr(opened, "format", None)
    if found == TRACE_FORMAT:
        return {trace_name(read_trace(file).attrs): Place(file)}
    if found != EXPERIMENT_FORMAT:
        raise FedatlasError(
            f"{file}: is neither a trace nor an experiment's traces of this version (its format is "
            f"{found!r})"
        )
    experiment = Experiment(file)
    return {
        trace_name(point.attributes): Place(file, experiment, run, name)
        for run, points in experiment.points.items()
        for name, point in points.items()
    }


def close_all(places: Iterable[Place]) -> None:
    """Close the files of experiments."""
    for place in places:
        if place.experiment is not None:
            place.experiment.close()


def read_stored(place: Place) -> StoredTrace:
    """A trace with its values; FedatlasError if it cannot be read or is no whole trace."""
    if place.experiment is not None:
        trace = place.experiment.trace(place.run, place.point)
    else:
        trace = read_trace(place.file)
        _check_shapes(trace, place)
    attributes = {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in trace.attrs.items()
    }
    with readable(place.file, ValueError):
        for name in _OBJECTS & attributes.keys():
            attributes[name] = json.loads(attributes[name])
            if not isinstance(attributes[name], dict):
                raise ValueError(f"its attribute {name} is no JSON object")
    variables = {
        str(name): one.to_numpy().astype(str) if one.dtype.kind in "OU" else one.to_numpy()
        for name, one in trace.variables.items()
    }
    return StoredTrace(attributes, variables)


def _check_shapes(trace: xr.Dataset, place: Place) -> None:
    by_dimension = {"seed": ("seed",), "record": ("record",), "status": ("seed",)}
    whole = by_dimension.keys() <= trace.variables.keys()
    if not whole or any(
        one.dims != by_dimension.get(str(name), ("seed", "record"))
        for name, one in trace.variables.items()
    ):
        raise FedatlasError(
            f"{place}: is no whole trace: it needs seeds, records, a status by seed, and all else "
            "by both. Move it away and run again."
        )
