"""Raw files → one Parquet file per split, which says of itself what it holds."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from fedatlas.data.catalogue import Dataset
from fedatlas.data.formats import read_raw
from fedatlas.data.parquet import METADATA_KEY, PREPARED_KEYS, open_parquet, read_metadata
from fedatlas.data.samples import Samples, from_table, to_table
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, file_digest, write_atomically

# Above this share of non-zeros CSR rows take more bytes (12 each) than dense ones (8 each).
DENSE_FROM = 0.5
# Large enough for fast columns, small enough to read a part of a data set of images.
ROW_GROUP_BYTES = 16 << 20
ROW_GROUP_ROWS = 1 << 16


def prepare(
    dataset: Dataset, split: str, raw: list[Path], output: Path, *, train: Path | None = None
) -> None:
    """Write one split as Parquet with the columns of `to_table`, whole or not at all.

    raw: the split's files in the order of the catalogue, empty for bundled data.
    train: the prepared split `train`, needed by the other splits of a standardised data set.
    The layout is dense if the format is, or if more than half of the values are not zero;
    otherwise sparse. Schema metadata `fedatlas` is canonical JSON with: dataset, split, task,
    classes, shape, rows, features, non_zeros, layout, labels, raw (name and digest of each file)
    and standardised (None, or mean and scale per column).
    Raises FedatlasError when the raw files cannot be read as the catalogue describes them.
    """
    samples = _laid_out(read_raw(dataset, split, raw))
    non_zeros = _non_zeros(samples)
    scaling = None
    if dataset.standardise:
        scaling = _scaling(dataset, split, samples, train)
        samples = _standardised(samples, scaling)
    rows, features = samples.features.shape
    metadata = {
        "dataset": dataset.name,
        "split": split,
        "task": dataset.task,
        "classes": dataset.classes,
        "shape": dataset.shape,
        "rows": rows,
        "features": features,
        "non_zeros": non_zeros,
        "layout": "sparse" if samples.is_sparse else "dense",
        "labels": dataset.labels,
        "raw": [{"file": path.name, "sha256": file_digest(path)} for path in raw],
        "standardised": scaling,
    }
    table = to_table(samples).replace_schema_metadata({METADATA_KEY: canonical_json(metadata)})
    group = ROW_GROUP_BYTES * rows // max(table.nbytes, 1)
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
        table = file.read()
    if table.num_rows != metadata["rows"]:
        raise FedatlasError(
            f"{path}: holds {table.num_rows} rows, its metadata say {metadata['rows']}; prepare it "
            "again"
        )
    return from_table(table, metadata["features"]), metadata


def _non_zeros(samples: Samples) -> int:
    features = samples.features
    return int(np.count_nonzero(features) if isinstance(features, np.ndarray) else features.nnz)


def _laid_out(samples: Samples) -> Samples:
    """Dense where that is smaller."""
    features = samples.features
    if isinstance(features, np.ndarray) or features.nnz <= DENSE_FROM * math.prod(features.shape):
        return samples
    return Samples(samples.sample_id, samples.label, features.toarray())


def _scaling(
    dataset: Dataset, split: str, samples: Samples, train: Path | None
) -> dict[str, list[float]]:
    """Mean and scale of each column of split train; the scale of a constant column is 0."""
    where = f"data set '{dataset.name}', split '{split}'"
    if samples.is_sparse:
        raise FedatlasError(
            f"{where}: 'standardise' would make sparse rows dense; leave it out of the catalogue"
        )
    if split == "train":
        constant = samples.features.min(axis=0) == samples.features.max(axis=0)
        return {
            "mean": samples.features.mean(axis=0).tolist(),
            # Rounding would leave a constant column a tiny deviation, and blow it up.
            "scale": np.where(constant, 0.0, samples.features.std(axis=0)).tolist(),
        }
    if train is None:
        raise FedatlasError(f"{where}: standardising needs the prepared split 'train'")
    _, metadata = read_prepared(train)
    scaling = metadata.get("standardised")
    if (metadata["dataset"], metadata["split"]) != (dataset.name, "train") or not scaling:
        raise FedatlasError(f"{train}: is not the standardised split 'train' of '{dataset.name}'")
    return scaling


def _standardised(samples: Samples, scaling: dict[str, list[float]]) -> Samples:
    """Zero mean and unit variance per column; columns that are constant in train become 0."""
    mean, scale = np.array(scaling["mean"]), np.array(scaling["scale"])
    centred = samples.features - mean
    scaled = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
    return Samples(samples.sample_id, samples.label, scaled)
