"""Clinical time series of MIMIC-III's in-hospital mortality benchmark, by the hour.

Harutyunyan et al., Multitask learning and benchmarking with clinical time series data, Scientific
Data 6, 2019; github.com/YerevaNN/mimic3-benchmarks. 17 channels in alphabetical order, of which 5
hold categories, make 59 columns of values (a column for each category) and 17 masks, 1 where the
channel was measured in that step.

The benchmark's scripts leave a list of the stays of each split with their labels; a stay is a table
of times, in hours since admission, and what was measured at them. Discretised as there: of several
measurements of a channel in one hour the last counts, and a whole hour belongs to the step that it
ends. Nothing is executed or unpickled: the benchmark's pickled means and deviations are not used,
but computed from split `train`. Its validation stays, 3222, are in neither split.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, Files
from fedatlas.data.reading import Listed, Raw, as_listed, plain_number, text_lines
from fedatlas.data.scaling import Scaling, scaling_of
from fedatlas.errors import FedatlasError


@dataclass(frozen=True)
class Channel:
    """A quantity that is measured, under the benchmark's own name.

    normal: what stands before the first measurement; of categories, one of them.
    categories: in the benchmark's order, which is no order of severity; empty for numbers.
    """

    name: str
    normal: float | str
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Number of columns of its values."""
        return len(self.categories) or 1

    @property
    def normal_value(self) -> float:
        """The normal value, of categories its position among them."""
        if isinstance(self.normal, str):
            return self.categories.index(self.normal)
        return self.normal


def listed(text: str) -> tuple[str, ...]:
    """Categories in one text, with | between."""
    return tuple(text.split("|"))


CHANNELS = (
    Channel("Capillary refill rate", "0.0", listed("0.0|1.0")),
    Channel("Diastolic blood pressure", 59.0),
    Channel("Fraction inspired oxygen", 0.21),
    Channel(
        "Glascow coma scale eye opening",
        "4 Spontaneously",
        listed(
            "To Pain|3 To speech|1 No Response|4 Spontaneously|None|To Speech|Spontaneously|"
            "2 To pain"
        ),
    ),
    Channel(
        "Glascow coma scale motor response",
        "6 Obeys Commands",
        listed(
            "1 No Response|3 Abnorm flexion|Abnormal extension|No response|4 Flex-withdraws|"
            "Localizes Pain|Flex-withdraws|Obeys Commands|Abnormal Flexion|6 Obeys Commands|"
            "5 Localizes Pain|2 Abnorm extensn"
        ),
    ),
    Channel("Glascow coma scale total", "15", listed("11|10|13|12|15|14|3|5|4|7|6|9|8")),
    Channel(
        "Glascow coma scale verbal response",
        "5 Oriented",
        listed(
            "1 No Response|No Response|Confused|Inappropriate Words|Oriented|No Response-ETT|"
            "5 Oriented|Incomprehensible sounds|1.0 ET/Trach|4 Confused|2 Incomp sounds|"
            "3 Inapprop words"
        ),
    ),
    Channel("Glucose", 128.0),
    Channel("Heart Rate", 86.0),
    Channel("Height", 170.0),
    Channel("Mean blood pressure", 77.0),
    Channel("Oxygen saturation", 98.0),
    Channel("Respiratory rate", 19.0),
    Channel("Systolic blood pressure", 118.0),
    Channel("Temperature", 36.6),
    Channel("Weight", 81.0),
    Channel("pH", 7.4),
)

#: The length of the benchmark's series, from admission on, a step each.
HOURS = 48

*FIRST_COLUMNS, FIRST_MASK = accumulate((channel.width for channel in CHANNELS), initial=0)
COLUMNS = FIRST_MASK + len(CHANNELS)

#: The columns of numbers; all others are indicators.
CONTINUOUS_COLUMNS = tuple(
    first for first, channel in zip(FIRST_COLUMNS, CHANNELS, strict=True) if not channel.categories
)


class SeriesDataset(Dataset):
    """Samples are steps with these columns."""

    shape: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _has_the_columns(self) -> Self:
        if self.task != "binary":
            raise ValueError("clinical time series have 'task: binary'")
        if len(self.shape) != 2 or self.shape[1] != COLUMNS:
            raise ValueError(f"clinical time series need 'shape': [steps, {COLUMNS}]")
        return self

    @property
    def numeric_columns(self) -> list[int]:
        steps = range(0, self.features, COLUMNS)
        return [first + column for first in steps for column in CONTINUOUS_COLUMNS]

    def standardisation(self, features: np.ndarray) -> Scaling:
        """Scaling of numbers over samples and steps; indicators get mean 0 and scale 1."""
        steps = features.reshape(-1, COLUMNS)
        scaling = {"mean": [0.0] * COLUMNS, "scale": [1.0] * COLUMNS}
        for column in CONTINUOUS_COLUMNS:
            # One at a time: as float64 all of them would take twice the memory of the series.
            found = scaling_of(steps[:, [column]].astype(np.float64), self.centre)
            for key, values in scaling.items():
                (values[column],) = found[key]
        return scaling


def encoded(measurements: np.ndarray) -> np.ndarray:
    """Fill gaps by the latest value before them and encode: (n, T, 17) → (n, T · 76) float32.

    measurements: one per channel and step, of categories their position in `Channel.categories`;
        NaN where there is none, so that the normal value stands until the first one.
    """
    samples, steps, _ = measurements.shape
    columns = np.zeros((samples, steps, COLUMNS), np.float32)
    for number, (channel, first) in enumerate(zip(CHANNELS, FIRST_COLUMNS, strict=True)):
        values = measurements[:, :, number]
        measured = ~np.isnan(values)
        latest = np.maximum.accumulate(np.where(measured, np.arange(steps), -1), axis=1)
        held = np.take_along_axis(values, np.maximum(latest, 0), axis=1)
        filled = np.where(latest < 0, channel.normal_value, held)[:, :, np.newaxis]
        columns[:, :, first : first + channel.width] = (
            filled == np.arange(channel.width) if channel.categories else filled
        )
        columns[:, :, FIRST_MASK + number] = measured
    return columns.reshape(samples, steps * COLUMNS)


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
    """The key by which categories are compared: their number if they are one, else their text."""
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
        listed = folder / TOP / f"{split}_listfile.csv"
        stays = _stays(listed, self.labels, self.split(split).rows)
        measurements = np.full((len(stays), HOURS, len(CHANNELS)), np.nan)
        for stay, measured in zip(stays, measurements, strict=True):
            _fill(measured, folder / TOP / split / stay)
        return Samples.numbered(np.array(list(stays.values())), encoded(measurements))


def _stays(path: Path, labels: Mapping[Raw, float], rows: int | None) -> dict[str, float]:
    """The file names and the labels of the stays in a list."""
    known = Listed(labels)
    stays: dict[str, float] = {}
    for number, (stay, label) in _rows(path, LIST_HEADER):
        # It becomes the name of a file.
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,200}\.csv", stay):
            raise _broken(path, number, f"'{stay}' is not the name of a stay's file")
        if stay in stays:
            raise _broken(path, number, f"'{stay}' is listed twice")
        value = known.meaning(label)
        if value is None:
            only = f"but 'labels' in the catalogue maps {', '.join(map(as_listed, labels))} only"
            raise _broken(path, number, f"column 'y_true' holds '{label}', {only}")
        stays[stay] = value
    if rows not in (None, len(stays)):
        raise FedatlasError(
            f"{path}: lists {len(stays)} stays, expected {rows}; it may be cut short, or be of "
            f"another version: {REMEDY}"
        )
    return stays


def _fill(measured: np.ndarray, path: Path) -> None:
    """Write a stay's values into (T, 17); what was not measured stays as it is."""
    latest = 0.0
    for number, (time, *fields) in _rows(path, HEADER):
        hours = plain_number(time)
        holds = f"column 'Hours' holds '{time}'"
        if hours is None or not -TOLERANCE < hours < HOURS + TOLERANCE:
            raise _broken(path, number, f"{holds}, which is no number from 0 to {HOURS}")
        if hours < latest - TOLERANCE:
            raise _broken(path, number, f"{holds} after {latest:g}: times must ascend")
        latest = hours
        step = int(max(hours - TOLERANCE, 0))
        for position, (channel, field) in enumerate(zip(CHANNELS, fields, strict=True)):
            if field:
                value = CATEGORIES[position].get(_key(field)) if channel.categories else _key(field)
                if not (isinstance(value, float | int) and abs(value) <= LARGEST):
                    listed = ", ".join(channel.categories)
                    wanted = f"none of its categories: {listed}" if listed else "no finite number"
                    holds = f"column '{channel.name}' holds '{field}', which is {wanted}"
                    raise _broken(path, number, holds)
                measured[step, position] = value


def _broken(path: Path, line: int, problem: str) -> FedatlasError:
    return FedatlasError(f"{path}:{line}: {problem}; {REMEDY}")


def _rows(path: Path, header: str) -> Iterator[tuple[int, list[str]]]:
    """The number in the file, from 1, and the fields of each line after the header."""
    first, *lines = text_lines(path) or [""]
    if first.strip() != header:
        raise _broken(path, 1, f"the header is '{first}', expected '{header}'")
    if not lines:
        raise FedatlasError(f"{path}: holds nothing but a header; {REMEDY}")
    columns = header.count(",") + 1
    for number, line in enumerate(lines, start=2):
        fields = line.split(",")
        if len(fields) != columns:
            problem = f"{len(fields)} fields, but the header has {columns}"
            raise _broken(path, number, f"{problem}; is the line cut short?")
        yield number, fields
