"""Columns of features, or channels of images, brought to a common scale."""

import logging
from collections.abc import Iterator, Sequence

import numpy as np

from fedatlas.errors import FedatlasError

log = logging.getLogger(__name__)

# Values that are float64 at a time: 32 MiB of them.
BLOCK_VALUES = 1 << 22
# Squares of much larger values overflow.
LARGEST = 1e150

# Names of constant columns in a log line; images can have hundreds.
_LISTED = 20

#: Mean and scale of each column, as metadata keep them.
Scaling = dict[str, list[float]]


def check_range(columns: np.ndarray, names: Sequence[object] | None, where: object) -> None:
    """Raise FedatlasError, which names column and value, unless (n, d) columns can be scaled."""
    value = max(float(columns.max()), float(columns.min()), key=abs)
    if abs(value) > LARGEST:
        column = int(np.argwhere(columns == value)[0, 1])
        raise FedatlasError(
            f"{where}: column '{names[column] if names else column}': the value {value} is too "
            f"large to be scaled, above {LARGEST:g}: mend it; of a CSV file, list it as 'missing' "
            "under 'csv' if it stands for a missing value"
        )


def scaling_of(
    features: np.ndarray, centre: bool = True, numeric: Sequence[int] | None = None
) -> Scaling:
    """Mean and deviation of each column (n, d) → (d,), or 0 and root mean square without `centre`.

    The scale of a constant column is 0: rounding would leave it a tiny deviation, and blow it up.
    numeric: the columns that are no indicators, which get mean 0 and scale 1; None: all.
    """
    constant = features.min(axis=0) == features.max(axis=0)
    mean = features.mean(axis=0) if centre else np.zeros(features.shape[1])
    scale = np.sqrt(((features - mean) ** 2).mean(axis=0))
    scale[constant] = 0
    if numeric is not None:
        indicators = np.delete(np.arange(features.shape[1]), numeric)
        mean[indicators], scale[indicators] = 0, 1
    return {"mean": mean.tolist(), "scale": scale.tolist()}


def constant_columns(
    scaling: Scaling | None, names: Sequence[str] | None = None
) -> list[str] | list[int]:
    """The columns that `scaled` makes 0, by name where they have any, else by index."""
    scales = scaling["scale"] if scaling else ()
    found = [column for column, scale in enumerate(scales) if scale == 0]
    return [names[column] for column in found] if names else found


def warn_of_constant(columns: list[str] | list[int], where: str) -> None:
    """Log columns that `standardise` makes 0."""
    if columns:
        listed = ", ".join(map(str, columns[:_LISTED]))
        more = f" and {len(columns) - _LISTED} more" if len(columns) > _LISTED else ""
        counted = "" if isinstance(columns[0], str) else " (counted from 0)"
        named = f"constant columns{counted}, which 'standardise' makes 0: {listed}{more}"
        log.warning("%s: %s", where, named)


def scaled(features: np.ndarray, scaling: Scaling) -> np.ndarray:
    """(features − mean) / scale by column; columns of scale 0 become 0.

    features: (n, d), or (n, steps · d) of time series, and of that type are the results.
    """
    mean, scale = np.array(scaling["mean"]), np.array(scaling["scale"])
    results = np.zeros_like(features)
    rows, of_rows = features.reshape(-1, len(mean)), results.reshape(-1, len(mean))
    # In blocks: of float32, all differences at a time would take twice the memory of the features.
    block_rows = max(1, BLOCK_VALUES // len(mean))
    for start in range(0, len(rows), block_rows):
        block = slice(start, start + block_rows)
        centred = rows[block] - mean
        np.divide(centred, scale, out=centred, where=scale > 0)
        of_rows[block] = np.where(scale > 0, centred, 0)
    return results


#: Mean and deviation of each channel, in units of the stored values, as metadata keep them.
ChannelScaling = dict[str, list[float]]


def channel_scaling_of(features: np.ndarray, channels: int) -> ChannelScaling:
    """Mean and deviation of each channel of images (n, d), channels first, → (channels,).

    Images of bytes are never float64 as a whole. Raises FedatlasError when a channel is constant.
    """
    images = features.reshape(len(features), channels, -1)
    values = images.shape[0] * images.shape[2]
    mean = sum(block.sum(axis=(0, 2), dtype=np.float64) for block in _blocks(images)) / values
    squares = sum(
        ((block - mean[:, np.newaxis]) ** 2).sum(axis=(0, 2)) for block in _blocks(images)
    )
    # By its extremes: rounding would leave a constant channel a tiny deviation.
    constant = images.min(axis=(0, 2)) == images.max(axis=(0, 2))
    if constant.any():
        channel = int(np.argmax(constant))
        raise FedatlasError(
            f"channel {channel} is {images[0, channel, 0]:g} in every image: its deviation is 0 "
            "and it cannot be normalised; remove 'normalise' from the catalogue"
        )
    return {"mean": mean.tolist(), "deviation": np.sqrt(squares / values).tolist()}


def _blocks(images: np.ndarray) -> Iterator[np.ndarray]:
    rows = max(1, BLOCK_VALUES // (images.shape[1] * images.shape[2]))
    return (images[start : start + rows] for start in range(0, len(images), rows))
