"""Open traces that are kept together, whatever keeps them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.store.atlas import Atlas
from fedatlas.store.tables import SUFFIX


def open_atlas(path: Path | str) -> Atlas:
    """The atlas, a mapping from places, such as paper/experiment/run/point, to trees.

    path: the workflow's atlas (.nc), a table that `fedatlas export` wrote (.parquet), a folder that
    `fedatlas publish` wrote, one with several of those, or a results folder. A file stays open
    until the atlas is closed: `with fedatlas.open_atlas(path) as atlas: …`. FedatlasError names a
    file that is damaged or no atlas, and a trace that two tables hold; the seal or checksum of the
    whole file is checked here, what a group of an atlas holds when it is opened.

    >>> atlas = fedatlas.open_atlas(ATLAS)
    >>> atlas.runs()[["experiment", "run", "point", "selected"]].head(3)
          experiment   run          point  selected
    0  fedpage-first  page  step_size-0.1      True
    1  fedpage-first  page  step_size-0.3     False
    2  fedpage-first   avg           only      True
    >>> atlas.close()
    """
    if not isinstance(path, str | Path):
        raise FedatlasError(
            f"{path!r} is no path: name one file or folder, or the folder that holds several "
            "published ones"
        )
    path = Path(path)
    if path.is_dir() and (path / "experiments").is_dir():
        from fedatlas.store.results_atlas import ResultsAtlas

        return ResultsAtlas(path)
    if path.is_dir() or path.suffix == SUFFIX:
        from fedatlas.store.table_atlas import TableAtlas  # loads pyarrow, which few need

        return TableAtlas(path)
    from fedatlas.store.netcdf_atlas import NetcdfAtlas

    return NetcdfAtlas(path)


@contextmanager
def opened(atlas: Atlas | Path | str) -> Iterator[Atlas]:
    """An open atlas as it is; a file's is closed at the end."""
    if isinstance(atlas, Atlas):
        yield atlas
        return
    with open_atlas(atlas) as own:
        yield own
