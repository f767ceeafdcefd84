"""Join traces into one atlas file per paper, and these files into one atlas.

An atlas is a netCDF-4 file with the groups /<paper>/<experiment>/<run>/<point>; the group of a
point holds its trace bit for bit. An atlas is written whole or not at all. The largest trace bounds
the memory.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import h5py

from fedatlas.atlas import FORMAT
from fedatlas.atlas.groups import GroupCopier, make_group, text_of
from fedatlas.errors import FedatlasError
from fedatlas.files import write_atomically
from fedatlas.schema.models import Model
from fedatlas.traces.contents import checked_children, opened_hdf5
from fedatlas.traces.netcdf import check_format
from fedatlas.traces.seal import check_seal, seal
from fedatlas.traces.trace import FORMAT as TRACE_FORMAT

_LOG = logging.getLogger(__name__)


class JoinedRun(Model):
    """A run with its title in figures and all its grid points."""

    name: str
    title: str
    selected_in: str  # the experiment whose selection chose the point
    points: tuple[str, ...]


class JoinedExperiment(Model):
    """An experiment whose runs are joined, with the texts of its file."""

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

    chosen: (selecting experiment, run) → point. FedatlasError names a damaged, foreign or misplaced
    trace; nothing is written then. Leftover netCDF files among the traces are skipped and logged.
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
        # Hidden files are being written, or were when their job was interrupted.
        found = {file for file in own.rglob("*.nc") if not file.name.startswith(".")}
        for file in sorted(found.difference(traces.values())):
            _LOG.warning(
                "%s: left out: no selected run has this grid point. Delete it if it is a leftover "
                "of an older configuration.",
                file,
            )
    _write(output, attributes, traces, _checked_trace)


def join_papers(files: Sequence[Path], output: Path) -> None:
    """Write one atlas of the papers' atlas files; FedatlasError names a damaged or foreign one."""
    _write(output, {}, {f"/{file.stem}": file for file in files}, _checked_paper)


def _checked_trace(trace: h5py.File, place: str, file: Path) -> h5py.Group:
    """The group to copy: the whole trace, which must belong in this place."""
    check_format(file, text_of(trace, "format"), TRACE_FORMAT, "a trace")
    own = "/".join(str(text_of(trace, key)) for key in ("paper", "experiment", "run", "point"))
    if own != place.removeprefix("/"):
        raise FedatlasError(
            f"{file}: holds the trace {own}, but stands where {place.removeprefix('/')} belongs. "
            "Delete it and run again."
        )
    return trace


def _checked_paper(atlas: h5py.File, place: str, file: Path) -> h5py.Group:
    """The group to copy: the paper that gives the file its name."""
    name, papers = place.removeprefix("/"), checked_children(atlas.id, {})
    check_format(file, text_of(atlas, "format"), FORMAT, "an atlas")
    if list(papers) != [name.encode()]:
        raise FedatlasError(
            f"{file}: holds {', '.join(atlas) or 'nothing'}, but must hold the paper "
            f"{name} only. Delete it and run again."
        )
    return atlas[name]


def _write(
    output: Path,
    attributes: Mapping[str, Mapping[str, str]],
    sources: Mapping[str, Path],
    checked: Callable[[h5py.File, str, Path], h5py.Group],
) -> None:
    """attributes, sources: by place in the atlas. checked: the group of a source to copy."""
    copier = GroupCopier()
    with write_atomically(output) as temporary:
        with h5py.File(temporary, "w", track_order=True) as joined:
            joined.attrs["format"] = FORMAT
            for place, values in attributes.items():
                make_group(joined, place).attrs.update(values)
            for place, file in sources.items():
                check_seal(file)
                with opened_hdf5(file) as source:
                    copier.copy(checked(source, place, file), make_group(joined, place))
        seal(temporary)
