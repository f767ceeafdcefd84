"""Joining traces into atlas files: per paper first, then the papers' files into one.

An atlas is a netCDF-4 file with the groups /<paper>/<experiment>/<run>/<point>; the last hold the
traces as they were written, bit for bit. Every file is checked before it is copied, and an atlas is
written whole or not at all. Memory is bounded by the largest trace.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import h5py

from fedatlas.atlas.groups import GroupCopier, make_group, size_of_dimension, text_of
from fedatlas.atlas.layout import FORMAT
from fedatlas.errors import FedatlasError
from fedatlas.files import write_atomically
from fedatlas.schema.models import Model
from fedatlas.traces.seal import check_seal, seal
from fedatlas.traces.trace import FORMAT as TRACE_FORMAT

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
        # Hidden files are what is being written, or was when it was interrupted.
        if file not in known and not file.name.startswith("."):
            _LOG.warning(
                "%s: left out: no selected run has this grid point. Delete it if it is a leftover "
                "of an older configuration.",
                file,
            )


def _check_trace(trace: h5py.File, place: str, file: Path) -> h5py.Group:
    """The group that is copied: all of the trace."""
    found = text_of(trace, "format")
    if found != TRACE_FORMAT:
        raise FedatlasError(
            f"{file}: is not a trace of this version (its format is {found!r}, expected "
            f"{TRACE_FORMAT!r}). Delete it and run again."
        )
    own = "/".join(str(text_of(trace, key)) for key in ("paper", "experiment", "run", "point"))
    if own != place.removeprefix("/"):
        raise FedatlasError(
            f"{file}: holds the trace {own}, but stands where {place.removeprefix('/')} belongs. "
            "Delete it and run again."
        )
    sizes = {name: size_of_dimension(trace, name) for name in ("seed", "record")}
    status = trace.get("status")
    by_seed = isinstance(status, h5py.Dataset) and status.shape == (sizes["seed"],)
    if None in sizes.values() or not by_seed:
        raise FedatlasError(
            f"{file}: is no whole trace: it needs the dimensions seed and record, and a status by "
            "seed. Delete it and run again."
        )
    return trace


def _check_paper(atlas: h5py.File, place: str, file: Path) -> h5py.Group:
    """The group that is copied: the paper that the file is named after, and the only one."""
    found = text_of(atlas, "format")
    if found != FORMAT:
        raise FedatlasError(
            f"{file}: is no atlas of this version (its format is {found!r}, expected {FORMAT!r}). "
            "Delete it and run again."
        )
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
    """Write groups: their attributes, and those that are copied from files."""
    copier = GroupCopier()
    with write_atomically(output) as temporary:
        with h5py.File(temporary, "w", track_order=True) as joined:
            joined.attrs["format"] = FORMAT
            for place, values in attributes.items():
                make_group(joined, place).attrs.update(values)
            for place, file in sources.items():
                check_seal(file)
                with _named(file), h5py.File(file, "r") as source:
                    copier.copy(check(source, place, file), make_group(joined, place))
        seal(temporary)


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """What HDF5 says of a damaged file does not name it."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise FedatlasError(
            f"{file}: not a readable netCDF file ({error}). Delete it and run again."
        ) from error
