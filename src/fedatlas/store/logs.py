"""Logs of other programs, each read to one long frame: a row for each run, seed and round.

Nothing in them is executed or unpickled.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import xarray as xr

from fedatlas.errors import FedatlasError, first_line, similar

if TYPE_CHECKING:
    import pandas as pd

#: Column with the name of the file, folder or run that a row is of.
NAME = "(name)"


class Log(NamedTuple):
    """where: the source, as errors name it. kind: its format. name: of the source."""

    where: str
    kind: str
    name: str
    frame: "pd.DataFrame"

    @property
    def columns(self) -> list[str]:
        """Names of what the source holds."""
        return [str(column) for column in self.frame if column != NAME]


class _Format(NamedTuple):
    """matches: names of files, or of files anywhere in a folder, that are of the format.

    read: one of these, by its name below the source.
    """

    title: str
    matches: str
    read: "Callable[[Path], pd.DataFrame]"


def _read_csv(file: Path) -> "pd.DataFrame":
    import pandas as pd

    return pd.read_csv(file, sep="\t" if ".tsv" in file.suffixes else ",")


def _read_parquet(file: Path) -> "pd.DataFrame":
    import pandas as pd

    return pd.read_parquet(file)


#: By the name that `--format` takes.
FORMATS = {
    "csv": _Format("CSV", "*.[ct]sv", _read_csv),
    "parquet": _Format("Parquet", "*.parquet", _read_parquet),
}


def read_log(
    source: "Path | str | Sequence[Path | str] | pd.DataFrame | xr.Dataset", kind: str = ""
) -> Log:
    """The long frame of files or folders of one format, or of a frame or a data set.

    FedatlasError names what cannot be read, and where formats are not told apart.
    """
    import pandas as pd

    if isinstance(source, xr.Dataset):
        return _named(Log("data set", "xarray", "mine", source.to_dataframe().reset_index()))
    if isinstance(source, pd.DataFrame):
        return _named(Log("frame", "pandas", "mine", source.reset_index(drop=True)))
    listed = [source] if isinstance(source, Path | str) else source
    paths = [Path(one) for one in listed]
    if kind and kind not in FORMATS:
        raise FedatlasError(
            f"format: '{kind}' is none of {', '.join(FORMATS)}{similar(kind, FORMATS)}"
        )
    frames, kinds = [], {}
    for path in paths:
        for name, own in [(kind, FORMATS[kind])] if kind else FORMATS.items():
            for file in _matching(path, own.matches):
                frames.append(_frame(path, file, own))
                kinds[own.title] = name
    where = ", ".join(map(str, paths))
    if not frames or len(kinds) > 1:
        told = f"holds {' and '.join(kinds)}" if kinds else "holds none of the formats"
        raise FedatlasError(
            f"{where}: {told}: name files or folders of one format, or say which by --format: "
            f"{', '.join(FORMATS)}"
        )
    stem = re.sub(r"[^\w.-]+", "-", paths[0].resolve().name.partition(".")[0]) or "mine"
    frame = pd.concat(frames, ignore_index=True)
    return _named(Log(where, next(iter(kinds)), stem, frame))


def _matching(path: Path, pattern: str) -> Iterable[Path]:
    if not path.exists():
        raise FedatlasError(f"{path}: is not there: name a file or a folder")
    return sorted(path.rglob(pattern)) if path.is_dir() else [path] * path.match(pattern)


def _frame(path: Path, file: Path, own: _Format) -> "pd.DataFrame":
    """A file's rows, with its name below the path."""
    try:
        frame = own.read(file)
    except FedatlasError:
        raise
    except Exception as error:  # of any library
        raise FedatlasError(f"{file}: cannot be read as {own.title}: {first_line(error)}") from None
    if NAME not in frame:
        below = file.relative_to(path) if path.is_dir() else Path(file.name)
        frame[NAME] = str(below.with_suffix(""))
    return frame


def _named(log: Log) -> Log:
    """With a name where there is none; FedatlasError without a row."""
    if not len(log.frame):
        raise FedatlasError(f"{log.where}: holds no rows")
    return log if NAME in log.frame else log._replace(frame=log.frame.assign(**{NAME: "mine"}))
