"""Measurements of clinical channels → the columns that networks take."""

import numpy as np

from fedatlas.data.clinical_channels import CHANNELS, COLUMNS, FIRST_COLUMNS, FIRST_MASK


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
