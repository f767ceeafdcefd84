"""Time series of clinical channels: measurements → the columns that networks take."""

from typing import Self

import numpy as np
from pydantic import model_validator

from fedatlas.data.clinical_channels import (
    CHANNELS,
    COLUMNS,
    CONTINUOUS_COLUMNS,
    FIRST_COLUMNS,
    FIRST_MASK,
)
from fedatlas.data.datasets import Dataset
from fedatlas.data.scaling import Scaling, series_scaling_of


class SeriesDataset(Dataset):
    """Samples are steps with the columns of `fedatlas.data.clinical_channels`."""

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
        return series_scaling_of(features, COLUMNS, CONTINUOUS_COLUMNS, self.centre)


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
