"""Joining traces into atlas files: per paper first, then the papers' files into one.

An atlas is a netCDF-4 file with the groups /<paper>/<experiment>/<run>/<point>; each point's group
holds a trace as it was written, bit for bit. An atlas is written whole or not at all. Memory is
bounded by the largest trace.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import h5py

from fedatlas.atlas.groups import GroupCopier, make_group, text_of
from fedatlas.atlas.layout import FORMAT
from fedatlas.errors import FedatlasError
from fedatlas.files import write_atomically
from fedatlas.schema.models import Model
from fedatlas.traces.contents import check_contents, opened_hdf5
from fedatlas.traces.netcdf import check_format
from fedatlas.traces.seal import seal
from fedatlas.traces.trace import FORMAT as TRACE_FORMAT

_LOG = logging.getLogger(__name__)


class JoinedRun(Model):
    """A run with its title in figures and all of its grid points."""

    name: str
    title: str
    selected_in: str  # the experiment whose selection chose the point
    points: tuple[str, ...]


class JoinedExperiment(Model):
    """An experiment whose runs are joined, with what its file says about it."""

    name: str
    title: str
    source: str
    notes: str
    dataset: str
    runs: tuple[JoinedRun, ...]


class JoinedPaper(Model):
    """The content of one paper's file, in order."""

    paper: str
    experiments: tuple[JoinedExperiment, ...]


def join_traces(
    paper: JoinedPaper, chosen: Mapping[tuple[str, str], str], folder: Path, output: Path
) -> None:
    """Write a paper's atlas file from the traces under the folder of experiments.

    chosen: (selecting experiment, run) → point. FedatlasError names a trace that is damaged,
    foreign or misplaced; nothing is written then. Other netCDF files among the traces are left out,
    and the log names them.
    """
    attributes: dict[str, dict[str, str]] = {}
    traces: dict[str, Path] = {}
    for experiment in paper.experiments:
        place, own = f"/{paper.paper}/{experiment.name}", folder / experiment.name / "traces"
        attributes[place] = experiment.model_dump(include={"title", "source", "notes", "dataset"})
        for run in experiment.runs:
            selected = chosen.get((run.selected_in, run.name))
            if selected not in run.points:
                raise FedatlasError(
                    f"{run.selected_in}: its selection has no run '{run.name}' at one of its "
                    f"points (but {selected}). Delete its selection.json and run again."
                )
            attributes[f"{place}/{run.name}"] = {"title": run.title, "selected": selected}
            for point in run.points:
                traces[f"{place}/{run.name}/{point}"] = own / run.name / f"{point}.nc"
        _name_strays(own, set(traces.values()))
    _write(output, attributes, traces, _check_trace)


def join_papers(files: Sequence[Path], output: Path) -> None:
    """Write one atlas of the papers' atlas files; a damaged or foreign one is refused by name."""
    papers = {f"/{file.stem}": file for file in files}
    _write(output, {}, papers, _check_paper)


def _name_strays(folder: Path, known: set[Path]) -> None:
    for file in sorted(folder.rglob("*.nc")):
        # Hidden files are being written, or were when their job was interrupted.
        if file not in known and not file.name.startswith("."):
            _LOG.warning(
                "%s: left out: no selected run has this grid point. Delete it if it is a leftover "
                "of an older configuration.",
                file,
            )


def _check_trace(trace: h5py.File, place: str, file: Path) -> h5py.Group:
    """The group to copy: the whole trace, which must be the one that belongs in this place."""
    check_format(file, text_of(trace, "format"), TRACE_FORMAT, "a trace")
    own = "/".join(str(text_of(trace, key)) for key in ("paper", "experiment", "run", "point"))
    if own != place.removeprefix("/"):
        raise FedatlasError(
            f"{file}: holds the trace {own}, but stands where {place.removeprefix('/')} belongs. "
            "Delete it and run again."
        )
    return trace


def _check_paper(atlas: h5py.File, place: str, file: Path) -> h5py.Group:
    """The group to copy: the paper after which the file is named."""
    check_format(file, text_of(atlas, "format"), FORMAT, "an atlas")
    if list(atlas) != [place.removeprefix("/")]:
        raise FedatlasError(
            f"{file}: holds {', '.join(atlas) or 'nothing'}, but must hold the paper "
            f"{place.removeprefix('/')} only. Delete it and run again."
        )
    return atlas[place]


def _write(
    output: Path,
    attributes: Mapping[str, Mapping[str, str]],
    sources: Mapping[str, Path],
    check: Callable[[h5py.File, str, Path], h5py.Group],
) -> None:
    copier = GroupCopier()
    with write_atomically(output) as temporary:
        with h5py.File(temporary, "w", track_order=True) as joined:
            joined.attrs["format"] = FORMAT
            for place, values in attributes.items():
                make_group(joined, place).attrs.update(values)
            for place, file in sources.items():
                check_contents(file)
                with opened_hdf5(file) as source:
                    copier.copy(check(source, place, file), make_group(joined, place))
        seal(temporary)
