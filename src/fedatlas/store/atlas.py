"""Traces that are kept together, by paper, experiment, run and grid point, and a walk over runs."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import xarray as xr

from fedatlas.errors import FedatlasError, similar
from fedatlas.plain_text import printable
from fedatlas.schema.config import Names, is_named, listed
from fedatlas.store.trace import judged
from fedatlas.store.views import with_costs

if TYPE_CHECKING:
    import pandas as pd


class Atlas(Mapping[str, xr.DataTree], ABC):
    """Open traces. What keeps them says how a group is found and read.

    path: the file or folder. attrs: of the whole. unchecked: folders whose traces have neither seal
    nor checksum. A group is a paper, an experiment, a run or a point.
    """

    path: Path
    attrs: dict[str, Any]
    unchecked: Sequence[Path] = ()

    @abstractmethod
    def names(self, place: str = "") -> list[str]:
        """The names of the groups in a group, in the order of the atlas."""

    @abstractmethod
    def attributes(self, place: str) -> dict[str, Any]:
        """The attributes of a group."""

    @abstractmethod
    def dataset(self, place: str) -> xr.Dataset:
        """The attributes and variables of a group; of a point, its trace."""

    def why_stale(self, place: str) -> str:
        """What has changed since the trace of a point was computed; empty if nothing is known."""
        declared = self.attributes(place.rpartition("/")[0])
        is_stale = declared.get("stale") == "yes"
        return "its code or its experiment has changed since" if is_stale else ""

    def title(self, run: str, *points: str) -> str:
        """How figures name the run at this place; marked if one of its points is stale."""
        stale = any(self.why_stale(f"{run}/{point}") for point in points)
        return run_title(self.attributes(run) | {"stale": "yes" if stale else "no"})

    def variables(self, place: str) -> set[str]:
        """The names of a group's variables; what keeps them may know them without their values."""
        return set(map(str, self.dataset(place).variables))

    @abstractmethod
    def close(self) -> None:
        """Close what is open; values that were not read are lost."""

    def __getitem__(self, place: str) -> xr.DataTree:
        """The group at this place with all groups in it; values are read when they are used."""
        nodes: dict[str, xr.Dataset] = {}
        waiting = [place.strip("/")]
        while waiting:
            path = waiting.pop()
            below = path.removeprefix(place.strip("/")) or "/"
            nodes[below] = self.dataset(path)
            waiting += [f"{path}/{name}".strip("/") for name in reversed(self.names(path))]
        return xr.DataTree.from_dict(nodes, name=place.strip("/").rpartition("/")[2] or None)

    def __iter__(self) -> Iterator[str]:
        """The names of papers."""
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def to_datatree(self) -> xr.DataTree:
        """The whole atlas, /paper/experiment/run/point; all groups are opened."""
        return self["/"]

    def runs(self) -> "pd.DataFrame":
        """All runs at all points of their grids, a row each."""
        import pandas as pd

        rows = [
            (paper, experiment, run, point, selected == point, self.title(place, point))
            for paper in self
            for experiment in self.names(paper)
            for run in self.names(f"{paper}/{experiment}")
            for place in [f"{paper}/{experiment}/{run}"]
            for selected in [self.attributes(place)["selected"]]
            for point in self.names(place)
        ]
        columns = ("paper", "experiment", "run", "point", "selected", "title")
        return pd.DataFrame(rows, columns=columns)

    def sel(self, experiment: str, run: str, point: str | None = None) -> xr.Dataset:
        """A run's trace of the judged seeds, with all its costs as coordinates.

        point: of the run's grid, the selected one by default. Costs are what the trace counts,
        "bytes" of all directions and "exchanges". Those that all seeds share lie along `record`
        only, so that `median("seed")` keeps them; `fedatlas.along` puts seeds whose costs differ on
        one axis. FedatlasError for an experiment, run or point that is not there.

        >>> with fedatlas.open_atlas(ATLAS) as atlas:
        ...     trace = atlas.sel("fedpage-first", "page").load()
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

    def __enter__(self) -> "Atlas":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ListedAtlas(Atlas):
    """An atlas whose groups are all known once it is open."""

    def __init__(self, path: Path, attrs: dict[str, Any], declared: Mapping[str, dict[str, Any]]):
        """declared: experiments, runs and points by place, each after what it lies in → attributes.

        Papers have none.
        """
        self.path, self.attrs = path, attrs
        self._declared: dict[str, dict[str, Any]] = {"": attrs}
        self._names: dict[str, list[str]] = {"": []}
        for place, own in declared.items():
            outer = place.rpartition("/")[0]
            if outer not in self._names:
                self._add(outer, {})
            self._add(place, own)

    def _add(self, place: str, declared: dict[str, Any]) -> None:
        outer, _, name = place.rpartition("/")
        self._names[outer].append(name)
        self._names[place], self._declared[place] = [], declared

    def names(self, place: str = "") -> list[str]:
        return list(self._names[place.strip("/")])

    def attributes(self, place: str) -> dict[str, Any]:
        return dict(self._declared[place.strip("/")])

    def dataset(self, place: str) -> xr.Dataset:
        place = place.strip("/")
        is_point = place.count("/") == 3 and place in self._names
        return self._trace(place) if is_point else xr.Dataset(attrs=self._declared[place])

    @abstractmethod
    def _trace(self, place: str) -> xr.Dataset:
        """The trace of a point that is there."""

    def close(self) -> None:
        """Nothing stays open."""


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


def atlas_runs(
    atlas: Atlas,
    *,
    experiments: Names = None,
    runs: Names = None,
    all_points: bool = False,
) -> Iterator[AtlasRun]:
    """Runs in the order of the atlas, each at its selected point or at all its points.

    experiments: names or patterns such as "vfb2-*". runs: names, or experiment/run. Both are all by
    default. FedatlasError for one that is not there.
    """
    experiments, runs = listed(experiments), listed(runs)
    places = [(paper, experiment) for paper in atlas for experiment in atlas.names(paper)]
    named = [experiment for _, experiment in places]
    for pattern in experiments or ():
        if not any(is_named(name, [pattern]) for name in named):
            raise FedatlasError(
                f"experiments: '{pattern}' matches none of the atlas, which has: "
                f"{', '.join(named) or 'none'}"
            )
    patterns = ["*"] if experiments is None else experiments
    there = [
        (paper, experiment, run)
        for paper, experiment in places
        if is_named(experiment, patterns)
        for run in atlas.names(f"{paper}/{experiment}")
    ]
    missing = set(runs or ()).difference(*({run, f"{own}/{run}"} for _, own, run in there))
    if missing:
        known = dict.fromkeys(run for *_, run in there)
        raise FedatlasError(
            f"runs: {', '.join(sorted(missing))} not found; there are {', '.join(known)}"
        )
    for paper, experiment, run in there:
        if runs is None or run in runs or f"{experiment}/{run}" in runs:
            yield from _points(atlas, paper, experiment, run, all_points)


def _points(
    atlas: Atlas, paper: str, experiment: str, run: str, all_points: bool
) -> Iterator[AtlasRun]:
    place = f"{paper}/{experiment}/{run}"
    chosen = atlas.attributes(place)["selected"]
    for point in atlas.names(place):
        selected = chosen == point
        if selected or all_points:
            trace = judged(atlas.dataset(f"{place}/{point}"))
            stale, title = atlas.why_stale(f"{place}/{point}"), atlas.title(place, point)
            yield AtlasRun(paper, experiment, run, point, title, selected, trace, stale)


def run_title(declared: Mapping[str, Any]) -> str:
    """How figures name a run with these attributes; a stale one is marked."""
    return f"{declared['title']}{' (stale)' if declared.get('stale') == 'yes' else ''}"
