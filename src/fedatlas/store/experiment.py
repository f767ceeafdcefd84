"""The runs of an experiment as one data set over point, seed and record.

A point is a run at one point of its grid. Costs are coordinates and measurements variables over
(point, seed, record): NaN behind the last record of a shorter run, for a seed that a run lacks, and
for what it does not count or measure. Along `point` lie a run's names, whether the experiment chose
the point, and its hyper-parameters; each that varies has a coordinate, such as
`parameter_step_size`. `Experiment.trace` gives back a trace as it was, bit for bit.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import xarray as xr
from pydantic import Field, Json, PositiveInt

from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json
from fedatlas.schema.models import Model, validated
from fedatlas.schema.quantities import AXES
from fedatlas.schema.runs import flat
from fedatlas.store.netcdf import readable
from fedatlas.store.packed import PACKED, open_file, read_file, write_file
from fedatlas.store.trace import NUMBERS, about, build_trace, judged

FORMAT = "fedatlas experiment 1"
#: The file of an experiment in a results folder, and how published ones end.
TRACES, PUBLISHED = "traces.nc", f".nc{PACKED}"
#: Published files are packed, and those that were unpacked are read, too.
SUFFIXES = (PUBLISHED, ".nc")
_CUBE = ("point", "seed", "record")
# HDF5 takes 3 kB to say where the pieces of a packed variable lie.
_LEAST_PACKED_BYTES = 3000
_PIECE_BYTES = 1 << 20


# Of a paper, an experiment, a run or a point.
_Name = Annotated[str, Field(pattern=r"^[^/.][^/]*$")]
_Attribute = str | int | float | list[str | int | float]


class ExperimentHeading(Model):
    """What a file says of an experiment; runs_of: the experiment whose runs it shows, or empty."""

    paper: _Name
    experiment: _Name
    title: str
    source: str
    notes: str
    dataset: str
    runs_of: str = ""
    thinned: str = ""  # how records were, in a published file
    licence: str = ""  # of the data set, in a published file


class PointHeading(Model):
    """A point's coordinates besides hyper-parameters that vary, with their long names."""

    run: _Name = Field(description="run of the experiment")
    point_name: _Name = Field(description="point of the run's grid")
    title: str = Field(description="what figures call the run")
    method: str = Field(description="name of the method")
    selected: bool = Field(description="whether the experiment chose this point")
    stale: str = Field(description="what has changed since the run was computed; empty: nothing")
    hyper_parameters: str = Field(description="hyper-parameters, as JSON")
    records: PositiveInt = Field(description="number of records")
    numbers: str = Field(description="costs and measurements that the run has")
    attributes: Json[dict[str, _Attribute]] = Field(description="the run's attributes, as JSON")


class StoredPoint(NamedTuple):
    """A trace with what the experiment says of it; stale: what has changed since, or empty."""

    trace: xr.Dataset
    title: str
    selected: bool
    stale: str = ""


def join_traces(heading: ExperimentHeading, points: Sequence[StoredPoint]) -> xr.Dataset:
    """The data set of an experiment, its points in this order."""
    traces = [point.trace for point in points]
    seeds = _all_seeds(traces)
    places = [np.array([seeds.index(seed) for seed in _seeds(trace)], int) for trace in traces]
    sizes = len(traces), len(seeds), max((trace.sizes["record"] for trace in traces), default=0)
    status = np.full(sizes[:2], "", dtype=object)
    for row, trace, own in zip(status, traces, places, strict=True):
        row[own] = trace["status"].to_numpy()
    joined = xr.Dataset(
        {"status": (_CUBE[:2], status.astype(str), about("outcome of the seed; empty: no seed"))},
        {"seed": ("seed", np.array(seeds, np.int64), about("random seed"))}
        | _along_points(points)
        | _positions(traces, sizes[2]),
        {"format": FORMAT} | heading.model_dump(),
    )
    for name, described in NUMBERS.items():
        if any(name in trace for trace in traces):
            values = np.full(sizes, np.nan)
            for cube, trace, own in zip(values, traces, places, strict=True):
                if name in trace:
                    found = trace[name].transpose("seed", "record").to_numpy()
                    cube[own, : found.shape[1]] = found
            joined[name] = (_CUBE, values, about(described.long_name, described.units))
    return joined.set_coords([name for name in AXES if name in joined])


def _seeds(trace: xr.Dataset) -> list[int]:
    found: list[int] = trace["seed"].to_numpy().tolist()
    return found


def _all_seeds(traces: Sequence[xr.Dataset]) -> list[int]:
    """All seeds in ascending order if every trace has its own so, else as they appear."""
    own = [_seeds(trace) for trace in traces]
    found = list(dict.fromkeys(seed for seeds in own for seed in seeds))
    return sorted(found) if all(seeds == sorted(seeds) for seeds in own) else found


def _along_points(points: Sequence[StoredPoint]) -> dict[str, tuple[str, Any, dict[str, str]]]:
    rows = [_row(point) for point in points]
    coordinates = {
        name: ("point", np.array([row[name] for row in rows]), about(str(field.description)))
        for name, field in PointHeading.model_fields.items()
    }
    declared = [flat(json.loads(row["hyper_parameters"])) for row in rows]
    for name in dict.fromkeys(name for own in declared for name in own):
        values = [own.get(name) for own in declared]
        nested = any(isinstance(value, Mapping) for value in values)
        if not nested and any(value != values[0] for value in values):
            described = about(f"hyper-parameter {name}")
            coordinates[f"parameter_{name}"] = ("point", _column(values), described)
    return coordinates


def _row(point: StoredPoint) -> dict[str, Any]:
    attributes = {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in point.trace.attrs.items()
    }
    specification = json.loads(attributes.get("specification", "{}"))
    return {
        "run": attributes["run"],
        "point_name": attributes["point"],
        "title": point.title,
        "method": attributes.get("algorithm", ""),
        "selected": point.selected,
        "stale": point.stale,
        "hyper_parameters": canonical_json(specification.get("hyper_parameters", {})),
        "records": point.trace.sizes["record"],
        "numbers": " ".join(name for name in map(str, point.trace.variables) if name in NUMBERS),
        "attributes": json.dumps(attributes, ensure_ascii=False),
    }


def _column(values: Sequence[Any]) -> np.ndarray:
    """Numbers, NaN where there is none; else texts, of numbers and lists as JSON."""
    if all(value is None or type(value) in (int, float) for value in values):
        return np.array([np.nan if value is None else value for value in values], float)
    texts = ("" if value is None else canonical_json(value).strip('"') for value in values)
    return np.array(list(texts))


def _positions(
    traces: Sequence[xr.Dataset], most: int
) -> dict[str, tuple[tuple[str, str], np.ndarray, dict[str, str]]]:
    """Places of records in the runs' schedules, where some were left out; -1 behind the last."""
    own = [trace["record"].to_numpy() for trace in traces]
    if all(np.array_equal(records, np.arange(len(records))) for records in own):
        return {}
    found = np.full((len(traces), most), -1, np.int32)
    for row, records in zip(found, own, strict=True):
        row[: len(records)] = records
    return {"position": (("point", "record"), found, about("position in the record schedule"))}


def write_experiment(joined: xr.Dataset, path: Path) -> None:
    """Write what `join_traces` joined, packed, whole or not at all.

    Variables are packed one by one, or if the file's name ends in .xz, the whole file.
    """
    encoding: dict[Any, dict[str, Any]] = {}
    for name, variable in joined.variables.items() if path.suffix != PACKED else ():
        size, own = variable.nbytes, encoding.setdefault(name, {})
        if variable.dtype.kind == "U":
            size = sum(len(text.encode()) for text in variable.to_numpy().ravel())
            if size > _LEAST_PACKED_BYTES:
                own["dtype"] = "S1"  # texts of one length can be packed
        if size > _LEAST_PACKED_BYTES:
            own |= {"zlib": True, "complevel": 9, "shuffle": variable.dtype.kind != "U"}
            if variable.dims == _CUBE:
                points, *rest = variable.shape
                piece = max(1, _PIECE_BYTES // (prod(rest) * variable.dtype.itemsize))
                own["chunksizes"] = (min(points, piece), *rest)
    joined = joined.copy()
    for variable in joined.variables.values():
        variable.encoding["coordinates"] = None  # the file lists them once
    write_file(joined, path, encoding)


@lru_cache(maxsize=4)
def _loaded(path: Path, changed: int) -> xr.Dataset:
    """All values of a file as it was at this time."""
    return read_file(path, FORMAT, "an experiment's runs")


class Experiment:
    """An experiment's runs, of which values are read from the file when they are used.

    No file stays open: the garbage collector would close it in any thread, while netCDF, which
    knows no threads, opens another. The values of a few files are in memory at a time.

    heading: what the file says of the experiment. points: run → point → what it says of them.
    """

    def __init__(self, path: Path) -> None:
        """path: what `write_experiment` wrote; FedatlasError names a file that is anything else."""
        self.path = path
        self.points: dict[str, dict[str, PointHeading]] = {}
        self._places: dict[tuple[str, str], int] = {}
        names = list(PointHeading.model_fields)
        with open_file(path, FORMAT, "an experiment's runs") as file, readable(path, Exception):
            declared = {name: getattr(file, name) for name in ExperimentHeading.model_fields}
            columns = [np.asarray(file[name][...]).tolist() for name in names]
            self._status = np.asarray(file["status"][...])
            dimension = file.dimensions.get("record")  # there is none without runs
            records = len(dimension) if dimension else 0
        self.heading = validated(ExperimentHeading, declared, str(self.path))
        for place, row in enumerate(zip(*columns, strict=True)):
            where = f"{self.path}: point {place}"
            point = validated(PointHeading, dict(zip(names, row, strict=True)), where)
            own = self.points.setdefault(point.run, {})
            if point.point_name in own or point.records > records:
                raise FedatlasError(f"{where}: occurs twice, or is incomplete")
            own[point.point_name] = point
            self._places[point.run, point.point_name] = place

    @property
    def data(self) -> xr.Dataset:
        """All runs, over point, seed and record."""
        with readable(self.path, OSError):
            return _loaded(self.path, self.path.stat().st_mtime_ns)

    def trace(self, run: str, point: str) -> xr.Dataset:
        """The trace of a run at a point, over seed and record, as it was written."""
        place, heading = self._places[run, point], self.points[run][point]
        seeds = np.flatnonzero(self._status[place] != "")
        with readable(self.path, Exception):
            stored = self.data.variables

            def own(name: str) -> xr.Variable:
                kept = stored[name].to_numpy()[place, :, : heading.records][seeds]
                return xr.Variable(_CUBE[1:], kept.astype(float), stored[name].attrs)

            records = np.arange(heading.records)
            if "position" in stored:
                records = stored["position"].to_numpy()[place, : heading.records].astype(int)
            return build_trace(
                {name: own(name) for name in heading.numbers.split()},
                self._status[place][seeds].tolist(),
                stored["seed"].to_numpy()[seeds].tolist(),
                heading.attributes,
                records,
            )

    def traces(self) -> dict[str, dict[str, xr.Dataset]]:
        """All traces: run → point → trace."""
        return {
            run: {point: self.trace(run, point) for point in points}
            for run, points in self.points.items()
        }


def read_runs(traces: Path) -> dict[str, dict[str, xr.Dataset]]:
    """The traces of an experiment by run and point, of the seeds that are judged."""
    return {
        run: {point: judged(trace) for point, trace in points.items()}
        for run, points in Experiment(traces).traces().items()
    }


def made_elsewhere(runs: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """What is known of runs made elsewhere, once for all of which it is. runs: by name and point.

    The attributes of a point say where it was made, and whose problem it is said to solve.
    """
    known: dict[str, list[str]] = {}
    for name, attributes in runs:
        if "foreign" in attributes:
            problem = attributes.get("problem")
            of = f"; that it solves the problem of {problem} was declared, not checked"
            known.setdefault(f"{attributes['foreign']}{of if problem else ''}", []).append(name)
    return [f"{', '.join(dict.fromkeys(own))}: foreign: {why}" for why, own in known.items()]


def foreign_in(folder: Path) -> list[str]:
    """What is known of the runs of a published folder that were made elsewhere."""
    return made_elsewhere(
        (f"{one.heading.experiment}/{run}", point.attributes)
        for one in map(Experiment, sorted(folder.glob(f"*{PUBLISHED}")))
        for run, points in one.points.items()
        for point in points.values()
    )
