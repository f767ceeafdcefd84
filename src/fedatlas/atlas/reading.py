"""Open an atlas and walk over its runs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import xarray as xr
from h5py import h5g, h5i, h5o

from fedatlas.atlas import FORMAT
from fedatlas.atlas.costs import with_costs
from fedatlas.atlas.store import attributes_of, open_group
from fedatlas.errors import FedatlasError, similar
from fedatlas.traces.contents import checked_children, naming, opened_child
from fedatlas.traces.seal import check_seal
from fedatlas.traces.trace import judged

if TYPE_CHECKING:
    import pandas as pd


def open_atlas(path: Path | str) -> "Atlas":
    """The atlas, a mapping from places, such as paper/experiment/run/point, to trees.

    The file stays open until the atlas is closed: `with fedatlas.open_atlas(path) as atlas: …`.
    FedatlasError names a file that is damaged or no atlas; the seal of the whole file is checked
    here, what a group holds when it is opened.

    >>> atlas = fedatlas.open_atlas(ATLAS)
    >>> atlas.runs()[["experiment", "run", "point", "selected"]].head(3)
          experiment   run          point  selected
    0  fedpage-first  page  step_size-0.1      True
    1  fedpage-first  page  step_size-0.3     False
    2  fedpage-first   avg           only      True
    >>> atlas.close()
    """
    return Atlas(Path(path))


@contextmanager
def opened(atlas: "Atlas | Path | str") -> Iterator["Atlas"]:
    """An open atlas as it is; a file's is closed at the end."""
    if isinstance(atlas, Atlas):
        yield atlas
        return
    with open_atlas(atlas) as own:
        yield own


class Atlas(Mapping[str, xr.DataTree]):
    """An open atlas. Groups are opened, and checked, when they are asked for."""

    def __init__(self, path: Path) -> None:
        """`open_atlas` says what is refused."""
        check_seal(path)
        self.path = path
        self._seen: dict[int, bytes] = {}
        with naming(path):
            self._file = h5py.File(path, "r")
        try:
            self.names()
            self.attrs = self.attributes("/")
            self._check_format()
        except FedatlasError:
            self.close()
            raise

    def _check_format(self) -> None:
        found = self.attrs.get("format")
        if found != FORMAT:
            raise FedatlasError(
                f"{self.path}: is not an atlas of this version (its format is {found!r}, expected "
                f"{FORMAT!r}). Name results/atlas/atlas.nc, or delete it and run again."
            )

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

    def names(self, place: str = "") -> list[str]:
        """The names of the groups in a group, in the order of the atlas."""
        group = self._group(place)
        with naming(self.path):
            children = checked_children(group, self._seen).items()
            return [name.decode() for name, child in children if isinstance(child, h5g.GroupID)]

    def attributes(self, place: str) -> dict[str, Any]:
        """The attributes of a group."""
        group = self._group(place)
        with naming(self.path):
            return attributes_of(h5py.Group(group))

    def dataset(self, place: str) -> xr.Dataset:
        """The attributes and variables of a group; of a point, its trace."""
        group = self._group(place)
        with naming(self.path):
            checked_children(group, self._seen)
            return open_group(h5py.Group(group))

    def _group(self, place: str) -> h5g.GroupID:
        with naming(self.path):
            group, path = h5o.open(self._file.id, b"."), b"/"
        for name in filter(None, place.encode().split(b"/")):
            if name not in group:
                raise KeyError(place)
            with naming(self.path):
                group = opened_child(group, path, name, self._seen)
                path = h5i.get_name(group)
            if not isinstance(group, h5g.GroupID):
                raise KeyError(place)
        return group

    def runs(self) -> "pd.DataFrame":
        """All runs at all points of their grids, a row each."""
        import pandas as pd

        rows = [
            (paper, experiment, run, point, stated["selected"] == point, run_title(stated))
            for paper in self
            for experiment in self.names(paper)
            for run in self.names(f"{paper}/{experiment}")
            for stated in [self.attributes(f"{paper}/{experiment}/{run}")]
            for point in self.names(f"{paper}/{experiment}/{run}")
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
        return "\n".join([f"atlas {self.path}", *told])

    def close(self) -> None:
        """Close the file; values that were not read are lost."""
        self._file.close()

    def __enter__(self) -> "Atlas":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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

    @property
    def name(self) -> str:
        """Its place under its paper."""
        return f"{self.experiment}/{self.run}/{self.point}"


def atlas_runs(
    atlas: Atlas, *, experiments: Sequence[str] | None = None, all_points: bool = False
) -> Iterator[AtlasRun]:
    """Runs in the order of the atlas, each at its selected point or at all its points.

    experiments: names or patterns such as "vfb2-*", all by default. FedatlasError for one that
    matches no experiment.
    """
    places = [(paper, experiment) for paper in atlas for experiment in atlas.names(paper)]
    named = [experiment for _, experiment in places]
    for pattern in experiments or ():
        if not any(fnmatchcase(name, pattern) for name in named):
            raise FedatlasError(
                f"experiments: '{pattern}' matches none of the atlas, which has: "
                f"{', '.join(named) or 'none'}"
            )
    patterns = ["*"] if experiments is None else experiments
    for paper, experiment in places:
        if any(fnmatchcase(experiment, pattern) for pattern in patterns):
            for run in atlas.names(f"{paper}/{experiment}"):
                yield from _points(atlas, paper, experiment, run, all_points)


def _points(
    atlas: Atlas, paper: str, experiment: str, run: str, all_points: bool
) -> Iterator[AtlasRun]:
    place = f"{paper}/{experiment}/{run}"
    stated = atlas.attributes(place)
    for point in atlas.names(place):
        selected = stated["selected"] == point
        if selected or all_points:
            trace = judged(atlas.dataset(f"{place}/{point}"))
            yield AtlasRun(paper, experiment, run, point, run_title(stated), selected, trace)


def run_title(stated: Mapping[str, Any]) -> str:
    """How figures name a run with these attributes; one whose code has changed since is marked."""
    return f"{stated['title']}{' (stale)' if stated.get('stale') == 'yes' else ''}"
