"""Atlases: several experiments in a results or published folder, and a walk over their runs.

Everything has a place: paper/experiment/run/point.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import xarray as xr

from fedatlas.errors import FedatlasError, similar
from fedatlas.extensions import projects
from fedatlas.plain_text import printable
from fedatlas.plan.build import Plan, build_plan
from fedatlas.plan.places import shipped_configuration, where_published
from fedatlas.provenance.expected import why_stale
from fedatlas.schema.config import Names, is_named, listed
from fedatlas.store.experiment import PUBLISHED, SUFFIXES, TRACES, Experiment
from fedatlas.store.netcdf import SUMS, check_sums
from fedatlas.store.trace import judged
from fedatlas.store.views import with_costs

if TYPE_CHECKING:
    import pandas as pd


class Atlas(Mapping[str, xr.DataTree]):
    """Open experiments; a mapping from places, such as paper/experiment/run/point, to trees.

    path: the file or folder. attrs: `thinned` says how records were thinned, if they were. shows:
    experiment that only shows runs of another one here → these runs, as experiment/run. plan: by
    which traces are stale, if there is one.
    """

    def __init__(
        self, path: Path, files: Sequence[Path], *, results: bool = False, plan: Plan | None = None
    ) -> None:
        """results: whether it is a results folder, of which traces may be stale.

        plan: by which they are; without one their code alone decides. FedatlasError names a file
        that is damaged or another, and one that holds a trace of another file.
        """
        self.path, self._is_results, self.plan = path, results, plan
        self.kept: object = None  # what is needed as long as the atlas, such as a folder
        self.shows: dict[str, list[str]] = {}
        self._names: dict[str, list[str]] = {"": []}
        self._attributes: dict[str, dict[str, Any]] = {"": {}}
        self._experiments: dict[str, Experiment] = {}  # by place of a point
        self._why_stale: dict[str, str] = {}  # by place of a point; found when it is asked for
        found = [Experiment(file) for file in files]
        there = {one.heading.experiment for one in found}
        for one in found:
            name, owner = one.heading.experiment, one.heading.runs_of
            if results and one.path.parent.name != name:
                raise FedatlasError(
                    f"{one.path}: holds {name}, another experiment than its place says. Move "
                    "it to its own place, or elsewhere."
                )
            if owner in there:
                self.shows[name] = [f"{owner}/{run}" for run in one.points]
            elif one.points:  # an experiment may train nothing
                self._add(one)
        thinned = {one.heading.thinned for one in found} - {""}
        self.attrs = {"thinned": "; ".join(sorted(thinned))}

    def _add(self, one: Experiment) -> None:
        experiment = f"{one.heading.paper}/{one.heading.experiment}"
        about = one.heading.model_dump(include={"title", "source", "notes", "dataset", "licence"})
        self._enter(one.heading.paper, {})
        self._enter(experiment, about)
        for run, points in one.points.items():
            titles = {point.title for point in points.values()}
            chosen = [name for name, point in points.items() if point.selected]
            self._enter(f"{experiment}/{run}", {"title": min(titles), "selected": ""})
            if chosen:
                self._attributes[f"{experiment}/{run}"]["selected"] = chosen[0]
            for name, point in points.items():
                place = f"{experiment}/{run}/{name}"
                if place in self._experiments:
                    raise FedatlasError(
                        f"{one.path}: holds {place}, which {self._experiments[place].path} holds, "
                        "too; open one of the two, or keep them apart"
                    )
                self._enter(place, point.attributes)
                self._experiments[place] = one

    def _enter(self, place: str, attributes: dict[str, Any]) -> None:
        """Add a place, unless another part of its experiment did."""
        if place not in self._names:
            outer, _, name = place.rpartition("/")
            self._names[outer].append(name)
            self._names[place], self._attributes[place] = [], attributes

    def names(self, place: str = "") -> list[str]:
        """The names of what lies in a place: papers, experiments, runs or points."""
        return list(self._names[place.strip("/")])

    def attributes(self, place: str) -> dict[str, Any]:
        """Attributes of an experiment, a run or a point."""
        return dict(self._attributes[place.strip("/")])

    def dataset(self, place: str) -> xr.Dataset:
        """The trace of a point, of which values are read when they are used; else attributes."""
        place = place.strip("/")
        if place not in self._experiments:
            return xr.Dataset(attrs=self._attributes[place])
        return self._experiments[place].trace(*place.split("/")[2:])

    def why_stale(self, place: str) -> str:
        """What has changed since the trace of a point was computed; empty if nothing is known."""
        place = place.strip("/")
        _, _, run, point = place.split("/")
        if not self._is_results:
            return self._experiments[place].points[run][point].stale
        if place not in self._why_stale:
            found = self._attributes[place]
            own = (found["experiment"], run, point)
            self._why_stale[place] = why_stale(own, found, self.plan, self.path)
        return self._why_stale[place]

    def is_published(self, place: str) -> bool:
        """Whether the file of a point is one that `fedatlas publish` wrote."""
        return self._experiments[place].path.name != TRACES

    def title(self, run: str, *points: str) -> str:
        """How figures name the run at this place; marked if a point is stale or made elsewhere."""
        places = [f"{run}/{point}" for point in points]
        foreign = any("foreign" in self.attributes(place) for place in places)
        stale = any(map(self.why_stale, places))
        marks = f"{' (foreign)' if foreign else ''}{' (stale)' if stale else ''}"
        return f"{self.attributes(run)['title']}{marks}"

    def __getitem__(self, place: str) -> xr.DataTree:
        """The tree of all that lies in a place; values are read when they are used."""
        place = place.strip("/")
        within = [one for one in self._names if f"{one}/".startswith(f"{place}/") or not place]
        if not within:
            raise KeyError(place)
        nodes = {one.removeprefix(place) or "/": self.dataset(one) for one in within}
        return xr.DataTree.from_dict(nodes, name=place.rpartition("/")[2] or None)

    def __iter__(self) -> Iterator[str]:
        """The names of papers."""
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def to_datatree(self) -> xr.DataTree:
        """The whole atlas, /paper/experiment/run/point."""
        return self["/"]

    def places(self, experiments: Names = None, *, all_points: bool = True) -> list[str]:
        """Places of the points of all runs, or of the selected ones; of runs without one, all.

        experiments: names or patterns, all by default.
        """
        patterns = listed(experiments)
        return [
            f"{place}/{point}"
            for paper in self
            for experiment in self.names(paper)
            if patterns is None or is_named(experiment, patterns)
            for run in self.names(f"{paper}/{experiment}")
            for place in [f"{paper}/{experiment}/{run}"]
            for point in self.names(place)
            if all_points or self.attributes(place)["selected"] in ("", point)
        ]

    def runs(self) -> "pd.DataFrame":
        """All runs at all points of their grids, a row each."""
        import pandas as pd

        rows = []
        for place in self.places():
            outer, _, point = place.rpartition("/")
            selected = self.attributes(outer)["selected"] == point
            rows.append((*place.split("/"), selected, self.title(outer, point)))
        columns = ("paper", "experiment", "run", "point", "selected", "title")
        return pd.DataFrame(rows, columns=columns)

    def sel(self, experiment: str, run: str, point: str | None = None) -> xr.Dataset:
        """A run's trace of the judged seeds, with all its costs as coordinates.

        point: of the run's grid, the selected one by default. Costs are what the trace counts,
        "bytes" of all directions and "exchanges". Those that all seeds share lie along `record`
        only, so that `median("seed")` keeps them; `fedatlas.along` puts seeds whose costs differ on
        one axis. FedatlasError for an experiment, run or point that is not there.

        >>> atlas = fedatlas.open_atlas(ATLAS)
        >>> trace = atlas.sel("fedpage-first", "page").load()
        >>> trace.gradient_norm.dims, trace.bytes.dims, trace["round"].dims
        (('seed', 'record'), ('seed', 'record'), ('record',))
        >>> lines = trace.gradient_norm.plot.line(x="bytes", hue="seed", yscale="log")
        >>> lines = trace.median("seed").gradient_norm.plot(x="round", yscale="log")
        """
        papers = {name: paper for paper in self for name in self.names(paper)}
        _check_known("experiment", experiment, papers)
        place = f"{papers[experiment]}/{experiment}"
        _check_known("run", run, self.names(place))
        place += f"/{run}"
        chosen = self.attributes(place)["selected"] if point is None else point
        _check_known("point", chosen, self.names(place))
        return with_costs(judged(self.dataset(f"{place}/{chosen}")))

    def __repr__(self) -> str:
        told = [f"{paper}: {', '.join(self.names(paper))}" for paper in self]
        return printable("\n".join([f"atlas {self.path}", *told]))


def open_atlas(path: Path | str, *, plan: Plan | None = None) -> Atlas:
    """Open the runs of experiments that lie together.

    path: a results folder, a folder that `fedatlas publish` wrote, one with several of either, or
    the file of one experiment (traces.nc). Where nothing is there, "published/crosspaper" is that
    of fedatlas' repository. plan: by which traces of a results folder are stale; by their code
    alone without it. Values are read when they are used. An experiment that only shows runs of
    another one is left out where that one is there. Seals and checksums of files are checked here.
    FedatlasError names a file that is damaged, missing or another, and a trace that two files hold.

    >>> atlas = fedatlas.open_atlas(ATLAS)
    >>> atlas.runs()[["experiment", "run", "point", "selected"]].head(3)
          experiment   run          point  selected
    0  fedpage-first  page  step_size-0.1      True
    1  fedpage-first  page  step_size-0.3     False
    2  fedpage-first   avg           only      True
    """
    if not isinstance(path, str | Path):
        raise FedatlasError(
            f"{path!r} is no path: name one file or folder, or the folder that holds several "
            "published ones"
        )
    path = where_published(Path(path))
    if (path / "experiments").is_dir():
        files = sorted(path.glob(f"experiments/*/{TRACES}"))
        if not files:
            raise FedatlasError(
                f"{path}: holds no runs (experiments/*/{TRACES}) yet: fedatlas run writes them"
            )
        return Atlas(path, files, results=True, plan=plan)
    if path.is_dir():
        return Atlas(path, _published(path))
    if not path.exists():
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        close = similar(path.name, (each.name for each in beside))
        remedy = close or "; name a folder of results, a published one, or an experiment's traces"
        raise FedatlasError(f"{path}: there is no such file or folder{remedy}")
    check_sums(path.parent, [path])
    return Atlas(path, [path])


def open_marked(path: Path, config: Path | None) -> Atlas:
    """Open runs; those of a results folder are stale by its configuration, and marked.

    config: its folder, the workflow's by default; projects' are read besides.
    """
    if not (path / "experiments").is_dir():
        return open_atlas(path)
    held = {folder.name for folder in (path / "experiments").iterdir()}
    plan = build_plan(config or shipped_configuration(), *projects(), names=held)
    # A folder from elsewhere is no older state of this configuration.
    ours = path.resolve().parent == Path.cwd() or not held.isdisjoint(plan.experiments)
    return open_atlas(path, plan=plan if ours else None)


def _published(path: Path) -> list[Path]:
    """Files of a published folder, or of all such and results folders in it, as lists say."""
    if (path / TRACES).is_file():
        return [path / TRACES]
    names = [f"[!.]*{suffix}" for suffix in SUFFIXES]
    files = sorted(file for name in names for file in path.glob(name)) or sorted(
        file for name in names for file in path.glob(f"*/{name}")
    )
    files += sorted(path.glob(f"*/experiments/*/{TRACES}"))
    listed_in = {sums.parent for sums in (*path.glob(SUMS), *path.glob(f"*/{SUMS}"))}
    for folder in sorted(listed_in.union(file.parent for file in files)):
        own = [file for file in files if file.parent == folder]
        for suffix in SUFFIXES:
            check_sums(folder, [file for file in own if file.name.endswith(suffix)], suffix)
    if not files:
        raise FedatlasError(
            f"{path}: holds no runs: neither results (experiments/) nor published files "
            f"(*{PUBLISHED}), here or in a folder of it"
        )
    return files


def as_atlas(atlas: Atlas | Path | str) -> Atlas:
    """An open atlas as it is; a path is opened."""
    return atlas if isinstance(atlas, Atlas) else open_atlas(atlas)


def _check_known(kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        close = similar(name, known) or f"; there are {', '.join(known)}"
        raise FedatlasError(f"{kind}: '{name}' is not in the atlas{close}")


class AtlasRun(NamedTuple):
    """A run of an experiment at one grid point."""

    paper: str
    experiment: str
    run: str
    point: str
    title: str  # as figures print it
    selected: bool  # whether the experiment chose this point
    trace: xr.Dataset  # of the judged seeds; read when used
    stale: str = ""  # what has changed since it was computed

    @property
    def name(self) -> str:
        """Its place under its paper."""
        return f"{self.experiment}/{self.run}/{self.point}"

    @property
    def place(self) -> str:
        """Its place in the atlas."""
        return f"{self.paper}/{self.name}"


def atlas_runs(
    atlas: Atlas,
    *,
    experiments: Names = None,
    runs: Names = None,
    all_points: bool = False,
) -> Iterator[AtlasRun]:
    """Runs in the order of the atlas, each at its selected point or at all its points.

    experiments: names or patterns such as "vfb2-*"; FedatlasError for one that is not there. runs:
    names, or experiment/run; see `check_runs`. Both are all by default.
    """
    runs = listed(runs)
    named = [experiment for paper in atlas for experiment in atlas.names(paper)]
    for pattern in listed(experiments) or ():
        if not any(is_named(name, [pattern]) for name in named):
            raise FedatlasError(
                f"experiments: '{pattern}' matches none of the atlas, which has: "
                f"{', '.join(named) or 'none'}"
            )
    for paper, experiment, run, point in (place.split("/") for place in atlas.places(experiments)):
        outer = f"{paper}/{experiment}/{run}"
        chosen = atlas.attributes(outer)["selected"] == point
        asked = runs is None or run in runs or f"{experiment}/{run}" in runs
        if asked and (all_points or chosen):
            place, title = f"{outer}/{point}", atlas.title(outer, point)
            trace, stale = judged(atlas.dataset(place)), atlas.why_stale(place)
            yield AtlasRun(paper, experiment, run, point, title, chosen, trace, stale)


def check_runs(runs: Names, places: Iterable[str]) -> None:
    """FedatlasError for a run, or experiment/run, of which none of the places is a point."""
    named = [place.split("/") for place in places]
    known = dict.fromkeys(run for _, _, run, _ in named)
    in_full = (f"{experiment}/{run}" for _, experiment, run, _ in named)
    missing = {*(listed(runs) or ())}.difference(known, in_full)
    if missing:
        raise FedatlasError(
            f"runs: {', '.join(sorted(missing))} not found; there are {', '.join(known)}"
        )
