"""Prepared files of few rows, for tests that share them out."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.tables import to_table
from fedatlas.files import canonical_json


def write_prepared(
    path: Path, samples: Samples, shape: tuple[int, ...] | None = None, **changes: Any
) -> Path:
    """A prepared split train of data set toy; changes to None leave a key of its metadata out."""
    metadata = {
        "dataset": "toy",
        "split": "train",
        "rows": len(samples),
        "features": samples.features.shape[1],
        "layout": samples.layout,
        "shape": shape,
        **changes,
    }
    kept = {key: value for key, value in metadata.items() if value is not None}
    table = to_table(samples, shape).replace_schema_metadata({"fedatlas": canonical_json(kept)})
    pq.write_table(table, path, row_group_size=7)
    return path


def as_dense(samples: Samples) -> np.ndarray:
    """The features (n, d) as an array."""
    return samples.features.toarray() if samples.is_sparse else samples.features
