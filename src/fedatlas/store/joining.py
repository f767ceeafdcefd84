"""Join traces into one atlas file per paper, and these files into one atlas.

An atlas is a netCDF-4 file with the groups /<paper>/<experiment>/<run>/<point>; the group of a
point holds its trace bit for bit. An atlas is written whole or not at all. The largest trace bounds
the memory. The atlas keeps runs that it held before, where that is asked for.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import h5py
from h5py import h5g

from fedatlas.errors import FedatlasError
from fedatlas.files import write_atomically, write_text
from fedatlas.markdown import counted
from fedatlas.schema.models import Model
from fedatlas.store import FORMAT
from fedatlas.store.contents import check_format, checked_children, opened_hdf5
from fedatlas.store.groups import GroupCopier, make_group, text_of
from fedatlas.store.netcdf import check_seal, seal
from fedatlas.store.trace import FORMAT as TRACE_FORMAT

_LOG = logging.getLogger(__name__)
# What an experiment's file says of it.
_DECLARED = ("title", "source", "notes", "dataset")
_DECLARED_OF_RUNS = ("title", "selected", "code")


class JoinedRun(Model):
    """A run with its title in figures and all its grid points."""

    name: str
    title: str
    code: str  # its modules, with a + between them
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
        attributes[place] = experiment.model_dump(include=set(_DECLARED))
        for run in experiment.runs:
            selected = chosen.get((run.selected_in, run.name))
            if selected not in run.points:
                raise FedatlasError(
                    f"{run.selected_in}: its selection has no run '{run.name}' at one of its "
                    f"points (but {selected}). Move its selection.json away and run again."
                )
            attributes[f"{place}/{run.name}"] = {
                "title": run.title,
                "selected": selected,
                "code": run.code,
            }
            for point in run.points:
                traces[f"{place}/{run.name}/{point}"] = own / run.name / f"{point}.nc"
        # Hidden files are being written, or were when their job was interrupted.
        found = {file for file in own.rglob("*.nc") if not file.name.startswith(".")}
        for file in sorted(found.difference(traces.values())):
            _LOG.warning(
                "%s: left out: no selected run has this grid point",
                file,
            )
    _write(output, attributes, traces)


class Joined(NamedTuple):
    """What a joining did: experiments whose runs are new in the atlas, and runs that it kept."""

    added: list[str]
    kept: list[str]
    stale: list[str]
    lost: list[str]

    def told(self) -> str:
        """In one line."""
        parts = [f"added {', '.join(self.added) or 'nothing new'}"]
        if self.kept:
            stale = f", of them stale: {', '.join(self.stale)}" if self.stale else ""
            parts.append(f"kept {counted(len(self.kept), 'run')} of earlier selections{stale}")
        if self.lost:
            parts.append(f"lost {', '.join(self.lost)}, which the former atlas lacks")
        return "; ".join(parts)


def join_papers(
    files: Sequence[Path],
    output: Path,
    kept: Mapping[str, bool] | None = None,
    contents: Path | None = None,
) -> Joined:
    """Write one atlas of the papers' atlas files, and of runs of the atlas that it replaces.

    kept: experiment/run of those → whether it is stale, which a reader is told. contents: where to
    list experiment/run → modules and digest of the code that made it. FedatlasError names a damaged
    or foreign file; the former atlas is left as it was then.
    """
    waiting, listed = dict(kept or {}), {}
    former: set[str] = set()
    with ExitStack() as opened, write_atomically(output) as temporary:
        experiments: dict[tuple[str, str], tuple[h5py.Group, dict[str, h5py.Group]]] = {}
        for file in files:
            check_seal(file)
            paper = _checked_paper(opened.enter_context(opened_hdf5(file)), file)
            for name, group in _groups(paper).items():
                experiments[file.stem, name] = group, _groups(group)
        before = _former(output, opened, needed=bool(waiting))
        for paper_name, paper in _groups(before).items() if before else ():
            for name, group in _groups(paper).items():
                former.add(name)
                _, runs = experiments.get((paper_name, name), (group, {}))
                for run, found in _groups(group).items():
                    if f"{name}/{run}" in waiting and run not in runs:
                        runs[run] = found
                        experiments.setdefault((paper_name, name), (group, runs))
        copier = GroupCopier()
        with h5py.File(temporary, "w", track_order=True) as joined:
            joined.attrs["format"] = FORMAT
            # Those of this selection come first, in its order.
            for (paper_name, name), (group, runs) in experiments.items():
                target = make_group(joined, f"{paper_name}/{name}")
                target.attrs.update({key: str(text_of(group, key)) for key in _DECLARED})
                for run, found in runs.items():
                    # Written anew, as an attribute that is overwritten leaves traces in the file.
                    declared = {key: str(text_of(found, key)) for key in _DECLARED_OF_RUNS}
                    stale = "yes" if waiting.pop(f"{name}/{run}", False) else "no"
                    place = make_group(target, run)
                    place.attrs.update(declared | {"stale": stale})
                    for point, trace in _groups(found).items():
                        copier.copy(trace, make_group(place, point))
                    listed[f"{name}/{run}"] = _made_by(found)
        seal(temporary)
    if contents is not None:
        write_text(contents, json.dumps(listed, indent=2, sort_keys=True) + "\n")
    new = {name for _, name in experiments} - former
    stayed = [name for name in kept or {} if name not in waiting]
    old = [name for name in stayed if (kept or {})[name]]
    return Joined(sorted(new), stayed, old, sorted(waiting))


def _former(atlas: Path, opened: ExitStack, needed: bool) -> h5py.File | None:
    """The atlas that is there, if it can be read; FedatlasError if it cannot but is needed."""
    if not atlas.exists():
        return None
    try:
        check_seal(atlas)
        before: h5py.File = opened.enter_context(opened_hdf5(atlas))
        check_format(atlas, text_of(before, "format"), FORMAT, "an atlas")
    except FedatlasError:
        if needed:
            raise
        return None
    return before


def _groups(group: h5py.Group) -> dict[str, h5py.Group]:
    children = checked_children(group.id, {}).items()
    return {
        name.decode(): h5py.Group(child)
        for name, child in children
        if isinstance(child, h5g.GroupID)
    }


def _made_by(run: h5py.Group) -> dict[str, str]:
    """The code of a run, and its digest when the traces were made, which all agree."""
    traces = list(_groups(run).values())
    digest = text_of(traces[0], "source_digest") if traces else None
    return {"code": text_of(run, "code") or "", "digest": digest or ""}


def _checked_trace(trace: h5py.File, place: str, file: Path) -> h5py.Group:
    """The group to copy: the whole trace, which must belong in this place."""
    check_format(file, text_of(trace, "format"), TRACE_FORMAT, "a trace")
    own = "/".join(str(text_of(trace, key)) for key in ("paper", "experiment", "run", "point"))
    if own != place.removeprefix("/"):
        raise FedatlasError(
            f"{file}: holds the trace {own}, but stands where {place.removeprefix('/')} belongs. "
            "Move it to its own place, or elsewhere, and run again."
        )
    return trace


def _checked_paper(atlas: h5py.File, file: Path) -> h5py.Group:
    """The paper that gives the file its name."""
    name, papers = file.stem, checked_children(atlas.id, {})
    check_format(file, text_of(atlas, "format"), FORMAT, "an atlas")
    if list(papers) != [name.encode()]:
        raise FedatlasError(
            f"{file}: holds {', '.join(atlas) or 'nothing'}, but must hold the paper "
            f"{name} only. Move it away and run again."
        )
    return atlas[name]


def _write(
    output: Path,
    attributes: Mapping[str, Mapping[str, str]],
    traces: Mapping[str, Path],
) -> None:
    """attributes, traces: by place in the atlas."""
    copier = GroupCopier()
    with write_atomically(output) as temporary:
        with h5py.File(temporary, "w", track_order=True) as joined:
            joined.attrs["format"] = FORMAT
            for place, values in attributes.items():
                make_group(joined, place).attrs.update(values)
            for place, file in traces.items():
                check_seal(file)
                with opened_hdf5(file) as source:
                    copier.copy(_checked_trace(source, place, file), make_group(joined, place))
        seal(temporary)
