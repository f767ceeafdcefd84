"""MIMIC-III's in-hospital mortality benchmark, as its scripts leave it → time series by the hour.

Harutyunyan et al., Multitask learning and benchmarking with clinical time series data, Scientific
Data 6, 2019; github.com/YerevaNN/mimic3-benchmarks. A list names the stays of a split and their
labels; a stay is a table of times, in hours since admission, and what was measured at them.

Discretised as there: of several measurements of a channel in one hour the last counts, and a whole
hour belongs to the step that it ends. Nothing is executed or unpickled: the benchmark's pickled
means and deviations are not used, but computed from split `train`. Its validation stays, 3222, are
in neither split.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.clinical import CHANNELS, COLUMNS, HOURS, SeriesDataset, encoded
from fedatlas.data.datasets import Files
from fedatlas.data.folders import inside, text_lines
from fedatlas.data.labels import Listed, Raw, as_listed, plain_number
from fedatlas.errors import FedatlasError

# The archive's own folder.
TOP = "in-hospital-mortality"
LIST_HEADER = "stay,y_true"
HEADER = ",".join(["Hours", *(channel.name for channel in CHANNELS)])
# By how much the benchmark lets times, in hours, miss a whole hour or the order of lines.
TOLERANCE = 1e-6
# Series are stored as float32.
LARGEST = float(np.finfo(np.float32).max)
REMEDY = "run the benchmark's scripts again"


def _key(text: str) -> float | str:
    """What categories are compared by: the number where there is one, else the trimmed text."""
    number = plain_number(text)
    return text.strip() if number is None else number


# Where each category stands among its channel's.
CATEGORIES: tuple[dict[float | str, int], ...] = tuple(
    {_key(category): position for position, category in enumerate(channel.categories)}
    for channel in CHANNELS
)


class Mimic3Dataset(SeriesDataset):
    """The benchmark's folder, packed: stays in the order of its lists, (n, 48 · 76) float32."""

    files_of_split: ClassVar[Files] = "one archive to 'unpack'"
    labels_are_text: ClassVar[bool] = True

    format: Literal["mimic3"]

    @model_validator(mode="after")
    def _is_of_the_benchmark(self) -> Self:
        if self.shape[0] != HOURS:
            raise ValueError(f"'format: mimic3' needs 'shape': [{HOURS}, {COLUMNS}]")
        for name in self.splits:
            if name not in ("train", "test"):
                raise ValueError(f"split '{name}': 'format: mimic3' has the splits train and test")
        return self

    def read(self, split: str, raw: list[Path]) -> Samples:
        """See Dataset.

        FedatlasError also when a file is not laid out as the benchmark does, or a value is not a
        finite number or no category of its channel.
        """
        (folder,) = raw
        assert self.labels is not None  # a binary set has them
        listed = inside(folder, f"{TOP}/{split}_listfile.csv")
        stays = _stays(listed, self.labels, self.split(split).rows)
        measurements = np.full((len(stays), HOURS, len(CHANNELS)), np.nan)
        for stay, measured in zip(stays, measurements, strict=True):
            path = inside(folder, f"{TOP}/{split}/{stay}")
            if not path.is_file():
                raise FedatlasError(
                    f"{path}: no such file, but {listed.name} lists it; pack the whole folder, or "
                    f"{REMEDY}"
                )
            _fill(measured, path)
        return Samples.numbered(np.array(list(stays.values())), encoded(measurements))


def _stays(path: Path, labels: Mapping[Raw, float], rows: int | None) -> dict[str, float]:
    """The file names and the labels of the stays in a list."""
    if not path.parent.is_dir():
        raise FedatlasError(
            f"{path.parent}: no such folder; pack the benchmark's folder '{TOP}' itself, as the "
            "catalogue's 'login' says"
        )
    known = Listed(labels)
    stays: dict[str, float] = {}
    for number, line in _lines(path, LIST_HEADER):
        stay, *label = line.split(",")
        # It becomes the name of a file.
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,200}\.csv", stay) or len(label) != 1:
            raise _broken(path, number, f"'{line}' is not the name of a stay's file and its label")
        if stay in stays:
            raise _broken(path, number, f"'{stay}' is listed twice")
        value = known.meaning(label[0])
        if value is None:
            only = f"but 'labels' in the catalogue maps {', '.join(map(as_listed, labels))} only"
            raise _broken(path, number, f"column 'y_true' holds '{label[0]}', {only}")
        stays[stay] = value
    if not stays or rows not in (None, len(stays)):
        raise FedatlasError(
            f"{path}: lists {len(stays)} stays, expected {rows or 'at least one'}; it may be cut "
            f"short, or be of another version: {REMEDY}"
        )
    return stays


def _fill(measured: np.ndarray, path: Path) -> None:
    """Write a stay's values into (T, 17); what was not measured stays as it is."""
    lines = _lines(path, HEADER)
    if not lines:
        raise FedatlasError(f"{path}: holds no measurements; {REMEDY}")
    latest = 0.0
    for number, line in lines:
        time, *fields = line.split(",")
        if len(fields) != len(CHANNELS):
            problem = f"{1 + len(fields)} fields, but the header has {1 + len(CHANNELS)}"
            raise _broken(path, number, f"{problem}; is the line cut short?")
        hours = plain_number(time)
        holds = f"column 'Hours' holds '{time}'"
        if hours is None or not -TOLERANCE < hours < HOURS + TOLERANCE:
            raise _broken(path, number, f"{holds}, which is no number from 0 to {HOURS}")
        if hours < latest - TOLERANCE:
            raise _broken(path, number, f"{holds} after {latest:g}: times must ascend")
        latest = hours
        step = int(max(hours - TOLERANCE, 0))
        for position, field in enumerate(fields):
            if field:
                measured[step, position] = _value(field, position, path, number)


def _value(field: str, position: int, path: Path, line: int) -> float:
    """A finite number, or the position of a category."""
    names = CHANNELS[position].categories
    value = CATEGORIES[position].get(_key(field)) if names else plain_number(field)
    if value is None or not abs(value) <= LARGEST:
        wanted = f"none of its categories: {', '.join(names)}" if names else "not a finite number"
        holds = f"column '{CHANNELS[position].name}' holds '{field}'"
        raise _broken(path, line, f"{holds}, which is {wanted}")
    return value


def _broken(path: Path, line: int, problem: str) -> FedatlasError:
    return FedatlasError(f"{path}:{line}: {problem}; {REMEDY}")


def _lines(path: Path, header: str) -> list[tuple[int, str]]:
    """The lines after the header, with their numbers in the file, which start at 1."""
    first, *lines = text_lines(path) or [""]
    if first.strip() != header:
        raise _broken(path, 1, f"the header is '{first}', expected '{header}'")
    return list(enumerate(lines, start=2))
