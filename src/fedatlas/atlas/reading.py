"""Open an atlas and walk over its runs."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import xarray as xr

from fedatlas.atlas import FORMAT
from fedatlas.errors import FedatlasError
from fedatlas.traces.contents import check_contents


def open_atlas(path: Path | str) -> xr.DataTree:
    """The atlas as a tree /paper/experiment/run/point; values are read when they are used.

    The file stays open until the tree is closed: `with fedatlas.open_atlas(path) as atlas: …`.
    FedatlasError names a file that is damaged or no atlas.
    """
    check_contents(Path(path))
    try:
        atlas = xr.open_datatree(path, engine="netcdf4")
    except Exception as error:  # damage can make netCDF and xarray raise anything
        raise FedatlasError(
            f"{path}: not a readable netCDF file ({error}). Delete it and run again."
        ) from error
    found = atlas.attrs.get("format")
    if found != FORMAT:
        atlas.close()
        raise FedatlasError(
            f"{path}: is not an atlas of this version (its format is {found!r}, expected "
            f"{FORMAT!r}). Name results/atlas/atlas.nc, or delete it and run again."
        )
    return atlas


class AtlasRun(NamedTuple):
    """A run of an experiment at one grid point."""

    paper: str
    experiment: str
    run: str
    point: str
    title: str  # as figures print it
    selected: bool  # whether the experiment chose this point
    trace: xr.Dataset  # read when used

    @property
    def name(self) -> str:
        """Its place under its paper."""
        return f"{self.experiment}/{self.run}/{self.point}"


def atlas_runs(
    atlas: xr.DataTree, *, experiments: Sequence[str] | None = None, all_points: bool = False
) -> Iterator[AtlasRun]:
    """Runs in the order of the atlas, each at its selected point or at all its points.

    experiments: names or patterns such as "vfb2-*", all by default. FedatlasError for one that
    matches no experiment.
    """
    named = [name for paper in atlas.children.values() for name in paper.children]
    for pattern in experiments or ():
        if not any(fnmatchcase(name, pattern) for name in named):
            raise FedatlasError(
                f"experiments: '{pattern}' matches none of the atlas, which has: "
                f"{', '.join(named) or 'none'}"
            )
    patterns = ["*"] if experiments is None else experiments
    for paper, of_paper in atlas.children.items():
        for experiment, runs in of_paper.children.items():
            if not any(fnmatchcase(experiment, pattern) for pattern in patterns):
                continue
            for run, points in runs.children.items():
                for point, node in points.children.items():
                    selected = points.attrs["selected"] == point
                    if selected or all_points:
                        title, trace = points.attrs["title"], node.to_dataset()
                        yield AtlasRun(paper, experiment, run, point, title, selected, trace)
