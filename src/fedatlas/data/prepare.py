"""Raw files → one Parquet file per split, whose metadata describe what it holds."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset
from fedatlas.data.formats import read_raw
from fedatlas.data.reading import count_non_zeros, in_smaller_layout
from fedatlas.data.scaling import (
    ChannelScaling,
    channel_scaling_of,
    check_range,
    constant_columns,
    scaled,
    warn_of_constant,
)
from fedatlas.data.tables import (
    METADATA_KEY,
    PREPARED_KEYS,
    from_table,
    open_parquet,
    read_metadata,
    read_rows,
    to_table,
)
from fedatlas.errors import FedatlasError, error_context
from fedatlas.files import canonical_json, tree_digest, write_atomically

# Large enough for fast columns, small enough to read a part of a data set of images.
ROW_GROUP_BYTES = 16 << 20
ROW_GROUP_ROWS = 1 << 16
# The metadata that say how values are scaled.
SCALING_KEYS = ("standardised", "normalisation", "scaled_labels")


def prepare(
    dataset: Dataset, split: str, raw: list[Path], output: Path, *, train: Path | None = None
) -> None:
    """Write one split as Parquet with the columns of `to_table`, whole or not at all.

    raw: the split's files in the order of the catalogue, empty for bundled and synthetic data.
    train: the prepared split `train`, needed by the other splits of a data set that is scaled.
    The layout is tensor for images and time series; dense if the format is, or if more than half of
    the values are not zero; otherwise sparse. Schema metadata `fedatlas` is canonical JSON with:
    dataset, split, task, classes, shape, rows, features, non_zeros, layout, labels, raw (name and
    digest of files), feature_names (of a CSV table, else None), numeric_columns (indices of the
    features that are no indicators; None: all), standardised (None, or mean and scale per column,
    of time series per column of a step), normalisation (None, or the mean and deviation per
    channel, of the values as stored, by which readers are to normalise them), scaled_labels
    (None, or the minimum and maximum that became 0 and 1) and, if there are any, kept (names of
    columns that are no features).
    Raises FedatlasError when the raw files cannot be read as the catalogue describes them.
    """
    samples = read_raw(dataset, split, raw)
    non_zeros = count_non_zeros(samples.features)
    if samples.is_sparse:
        samples = replace(samples, features=in_smaller_layout(samples.features))
    rows, features = samples.features.shape
    where = ", ".join(map(str, raw)) or dataset.name
    if dataset.standardise and not samples.is_sparse:
        check_range(samples.features, dataset.feature_names, where)
    if dataset.scale_labels:
        check_range(samples.label[:, np.newaxis], ["label"], where)
    with error_context(f"data set '{dataset.name}', split '{split}'"):
        scaling = _scaling(dataset, split, samples, train)
    samples = _scaled(samples, scaling)
    metadata = {
        "dataset": dataset.name,
        "split": split,
        "task": dataset.task,
        "classes": dataset.classes,
        "shape": dataset.shape,
        "rows": rows,
        "features": features,
        "non_zeros": non_zeros,
        "layout": samples.layout,
        "labels": dataset.model_dump(mode="json", include={"labels"})["labels"],
        "raw": [{"file": path.name, "sha256": tree_digest(path)} for path in raw],
        "feature_names": dataset.feature_names,
        "numeric_columns": dataset.numeric_columns,
        **scaling,
        **({"kept": sorted(samples.kept)} if samples.kept else {}),
    }
    table = to_table(samples, dataset.shape).replace_schema_metadata(
        {METADATA_KEY: canonical_json(metadata)}
    )
    # Writing and reading takes as much memory for a tensor's value, of any width, as for a float64.
    size = 8 * rows * features if samples.layout == "tensor" else table.nbytes
    group = ROW_GROUP_BYTES * rows // max(size, 1)
    with write_atomically(output) as temporary:
        pq.write_table(
            table,
            temporary,
            row_group_size=max(1, min(group, ROW_GROUP_ROWS)),
            compression="zstd",
            write_page_checksum=True,
        )


def read_prepared(path: Path) -> tuple[Samples, dict[str, Any]]:
    """Samples and metadata of a prepared file.

    Raises FedatlasError, naming the file, when it is missing, damaged or not one of ours.
    """
    # Not read_table: that would take a folder called `seed=1` for a column.
    with open_parquet(path) as file:
        metadata = read_metadata(file, path, PREPARED_KEYS)
        return from_table(read_rows(file), metadata["features"]), metadata


Scalings = dict[str, dict[str, Any] | None]


def _scaling(dataset: Dataset, split: str, samples: Samples, train: Path | None) -> Scalings:
    """The scaling of the split: the metadata `SCALING_KEYS` of split train."""
    for key in ("standardise", "normalise"):
        if getattr(dataset, key) and samples.is_sparse:
            raise FedatlasError(
                f"'{key}' would make sparse rows dense; leave it out of the catalogue"
            )
    if split == "train" or not dataset.scaled_by_train:
        standardised = dataset.standardisation(samples.features) if dataset.standardise else None
        constant = constant_columns(standardised, dataset.feature_names)
        warn_of_constant(constant, f"data set '{dataset.name}', split '{split}'")
        return {
            "standardised": standardised,
            "normalisation": _normalisation(dataset, samples),
            "scaled_labels": _extremes(samples.label) if dataset.scale_labels else None,
        }
    if train is None:
        raise FedatlasError("scaling needs the prepared split 'train'")
    with open_parquet(train) as file:
        metadata = read_metadata(file, train, SCALING_KEYS)
    return {key: metadata[key] for key in SCALING_KEYS}


def _normalisation(dataset: Dataset, samples: Samples) -> ChannelScaling | None:
    """Mean and deviation per channel of the values as stored, declared or those of the samples."""
    declared = dataset.normalise
    if declared is None:
        return None
    assert dataset.shape is not None and dataset.channels is not None  # the catalogue's own rules
    if declared.mean is None or declared.deviation is None:
        # Each view is an image.
        images = samples.features.reshape(-1, math.prod(dataset.shape[-3:]))
        return channel_scaling_of(images, dataset.channels)
    maximum = dataset.pixel_maximum or 1
    return {
        "mean": [maximum * mean for mean in declared.mean],
        "deviation": [maximum * deviation for deviation in declared.deviation],
    }


def _extremes(label: np.ndarray) -> dict[str, float]:
    minimum, maximum = float(label.min()), float(label.max())
    if minimum == maximum:
        raise FedatlasError(
            f"every label is {minimum:g}, which 'scale_labels: min_max' cannot scale"
        )
    return {"minimum": minimum, "maximum": maximum}


def _scaled(samples: Samples, scaling: Scalings) -> Samples:
    """Features of unit variance or mean square, labels from 0 to 1, as `scaling` says."""
    if columns := scaling["standardised"]:
        samples = replace(samples, features=scaled(samples.features, columns))
    if extremes := scaling["scaled_labels"]:
        spread = extremes["maximum"] - extremes["minimum"]
        samples = replace(samples, label=(samples.label - extremes["minimum"]) / spread)
    return samples
