"""Joining traces into atlas files: per paper first, then the papers' files into one.

An atlas is a netCDF-4 file with the groups /<paper>/<experiment>/<run>/<point>; the last hold the
traces as they were written, bit for bit. Files are checked before anything is written, and values
are copied variable by variable.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from fedatlas.atlas.layout import FORMAT
from fedatlas.errors import FedatlasError
from fedatlas.files import write_atomically
from fedatlas.models import Model
from fedatlas.traces import FORMAT as TRACE_FORMAT

_LOG = logging.getLogger(__name__)


class JoinedRun(Model):
    """A run as figures call it, with all of its grid points."""

    name: str
    title: str
    selected_in: str  # the experiment whose selection chose the point
    points: tuple[str, ...]


class JoinedExperiment(Model):
    """An experiment whose runs are joined, and what its file says of it."""

    name: str
    title: str
    source: str
    notes: str
    dataset: str
    runs: tuple[JoinedRun, ...]


class JoinedPaper(Model):
    """What the file of one paper holds, in its order."""

    paper: str
    experiments: tuple[JoinedExperiment, ...]


def join_traces(
    paper: JoinedPaper, chosen: Mapping[tuple[str, str], str], folder: Path, output: Path
) -> None:
    """Write a paper's atlas file from the traces under the folder of experiments.

    chosen: (selecting experiment, run) → point. A trace that is damaged, foreign or not the one
    that belongs in its place is refused by name, and nothing is written. Other netCDF files among
    the traces are left out and named in the log.
    """
    attributes: dict[str, dict[str, Any]] = {"/": {"format": FORMAT}}
    traces: dict[str, Path] = {}
    for experiment in paper.experiments:
        place, own = f"/{paper.paper}/{experiment.name}", folder / experiment.name / "traces"
        attributes[place] = experiment.model_dump(include={"title", "source", "notes", "dataset"})
        for run in experiment.runs:
            selected = chosen[run.selected_in, run.name]
            attributes[f"{place}/{run.name}"] = {"title": run.title, "selected": selected}
            for point in run.points:
                traces[f"{place}/{run.name}/{point}"] = own / run.name / f"{point}.nc"
        _name_strays(own, set(traces.values()))
    _write(output, attributes, traces, _check_trace)


def join_papers(files: Sequence[Path], output: Path) -> None:
    """Write one atlas of the papers' atlas files; a damaged or foreign one is refused by name."""
    papers = {f"/{file.stem}": file for file in files}
    _write(output, {"/": {"format": FORMAT}}, papers, _check_paper)


def _name_strays(folder: Path, known: set[Path]) -> None:
    for file in sorted(folder.rglob("*.nc")):
        if file not in known:
            _LOG.warning(
                "%s: left out: no selected run has this grid point. Delete it if it is a leftover "
                "of an older configuration.",
                file,
            )


def _check_trace(trace: netCDF4.Dataset, place: str, file: Path) -> netCDF4.Dataset:
    """The group that is copied: all of the trace."""
    if _attribute(trace, "format") != TRACE_FORMAT:
        raise FedatlasError(
            f"{file}: is not a trace of this version (its format is "
            f"{_attribute(trace, 'format')!r}, expected {TRACE_FORMAT!r}). Delete it and run again."
        )
    own = "/".join(str(_attribute(trace, key)) for key in ("paper", "experiment", "run", "point"))
    if own != place.removeprefix("/"):
        raise FedatlasError(
            f"{file}: holds the trace {own}, but stands where {place.removeprefix('/')} belongs. "
            "Delete it and run again."
        )
    dimensions, status = set(trace.dimensions), trace.variables.get("status")
    misshapen = dimensions != {"seed", "record"} or trace.groups
    if misshapen or status is None or status.dimensions != ("seed",):
        raise FedatlasError(
            f"{file}: is no whole trace: it needs the dimensions seed and record and a status by "
            f"seed, but has {', '.join(sorted(dimensions)) or 'no dimension'}. Delete it and run "
            "again."
        )
    return trace


def _check_paper(atlas: netCDF4.Dataset, place: str, file: Path) -> netCDF4.Dataset:
    """The group that is copied: the paper that the file is named after, and the only one."""
    if _attribute(atlas, "format") != FORMAT:
        raise FedatlasError(f"{file}: is no atlas of this version. Delete it and run again.")
    if list(atlas.groups) != [place.removeprefix("/")]:
        raise FedatlasError(
            f"{file}: holds the papers {', '.join(atlas.groups) or '(none)'}, but must hold "
            f"{place.removeprefix('/')} only. Delete it and run again."
        )
    return atlas[place]


def _attribute(group: netCDF4.Dataset, name: str) -> Any:
    return group.getncattr(name) if name in group.ncattrs() else None


_Check = Callable[[netCDF4.Dataset, str, Path], netCDF4.Dataset]


def _write(
    output: Path,
    attributes: Mapping[str, Mapping[str, Any]],
    sources: Mapping[str, Path],
    check: _Check,
) -> None:
    """Write groups: their attributes, and those that are copied from files.

    netCDF goes over all groups of a file when values are first written after a definition: all is
    defined before the first value, or the time would grow with the square of the traces.
    """
    with (
        write_atomically(output) as temporary,
        netCDF4.Dataset(temporary, "w", format="NETCDF4") as joined,
    ):
        joined.set_fill_off()
        for place, values in attributes.items():
            (joined if place == "/" else joined.createGroup(place)).setncatts(dict(values))
        for place, file in sources.items():
            with _opened(file) as source:
                _define(check(source, place, file), joined.createGroup(place))
        for place, file in sources.items():
            with _opened(file) as source:
                _fill(check(source, place, file), joined[place], file)


@contextmanager
def _opened(file: Path) -> Iterator[netCDF4.Dataset]:
    try:
        source = netCDF4.Dataset(file)
    except OSError as error:
        raise FedatlasError(
            f"{file}: not a readable netCDF file ({error}). Delete it and run again."
        ) from error
    with source:
        source.set_auto_maskandscale(False)
        yield source


def _define(source: netCDF4.Dataset, target: netCDF4.Dataset) -> None:
    target.setncatts({name: source.getncattr(name) for name in source.ncattrs()})
    for name, dimension in source.dimensions.items():
        target.createDimension(name, len(dimension))
    for name, variable in source.variables.items():
        attributes = {key: variable.getncattr(key) for key in variable.ncattrs()}
        fill = attributes.pop("_FillValue", None)
        copy = target.createVariable(name, variable.dtype, variable.dimensions, fill_value=fill)
        copy.setncatts(attributes)
    for name, group in source.groups.items():
        _define(group, target.createGroup(name))


def _fill(source: netCDF4.Dataset, target: netCDF4.Dataset, file: Path) -> None:
    target.set_auto_maskandscale(False)
    for name, variable in source.variables.items():
        target.variables[name][...] = _values(variable, file)
    for name, group in source.groups.items():
        _fill(group, target.groups[name], file)


def _values(variable: netCDF4.Variable, file: Path) -> np.ndarray:
    try:
        return variable[...]
    except (OSError, RuntimeError) as error:
        raise FedatlasError(
            f"{file}: {variable.name} cannot be read ({error}). Delete it and run again."
        ) from error
