"""The channels of MIMIC-III's in-hospital mortality benchmark, and time series of them.

Harutyunyan et al., Multitask learning and benchmarking with clinical time series data, Scientific
Data 6, 2019, and the settings of its discretiser, github.com/YerevaNN/mimic3-benchmarks: 17
channels in alphabetical order, of which 5 hold categories, make 59 columns of values (a column for
each category) and 17 masks, 1 where the channel was measured in that step.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import numpy as np
from pydantic import model_validator

from fedatlas.data.datasets import Dataset
from fedatlas.data.scaling import Scaling, scaling_of


@dataclass(frozen=True)
class Channel:
    """What is measured, under the benchmark's own name.

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
        """Of numbers over samples and steps; indicators get mean 0 and scale 1."""
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
