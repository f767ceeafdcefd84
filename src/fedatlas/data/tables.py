"""Samples as Arrow tables: the one table format of prepared data and of shards."""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from scipy import sparse

from fedatlas.arithmetic.samples import TENSOR_DTYPES, Samples
from fedatlas.errors import FedatlasError

Features: TypeAlias = np.ndarray | sparse.csr_array


def to_table(samples: Samples, shape: tuple[int, ...] | None = None) -> pa.Table:
    """Columns sample_id, label and those of `feature_columns`."""
    return pa.table(
        {
            "sample_id": pa.array(samples.sample_id, pa.int64()),
            "label": pa.array(samples.label, pa.float64()),
            **feature_columns(samples.features, shape),
        }
    )


def from_table(table: pa.Table, features: int) -> Samples:
    """Inverse of `to_table`; `features` is the number of columns d."""
    return Samples(
        table["sample_id"].to_numpy(),
        table["label"].to_numpy(),
        features_from_table(table, features),
    )


def feature_columns(
    features: Features, shape: tuple[int, ...] | None = None
) -> dict[str, pa.Array]:
    """Columns of features (n, d): `features`, or `indices` and `values` of a CSR matrix.

    `features` is a fixed-size list of float64 or, of uint8 and float32, a tensor of the shape of
    one sample: shape, or (d,) without it.
    """
    n, d = features.shape
    if not isinstance(features, sparse.csr_array):
        dtype = features.dtype if features.dtype in TENSOR_DTYPES else np.float64
        flat = pa.array(np.ascontiguousarray(features, dtype).reshape(n * d))
        rows = pa.FixedSizeListArray.from_arrays(flat, d)
        if dtype is np.float64:
            return {"features": rows}
        if math.prod(shape or (d,)) != d:
            raise FedatlasError(f"samples of shape {shape} do not hold {d} features")
        tensor = pa.fixed_shape_tensor(flat.type, shape or (d,))
        return {"features": pa.ExtensionArray.from_storage(tensor, rows)}
    offsets = pa.array(features.indptr.astype(np.int64), pa.int64())
    return {
        "indices": pa.LargeListArray.from_arrays(
            offsets, pa.array(features.indices.astype(np.int32), pa.int32())
        ),
        "values": pa.LargeListArray.from_arrays(offsets, pa.array(features.data, pa.float64())),
    }


def features_from_table(table: pa.Table, features: int) -> Features:
    """Inverse of `feature_columns`: (n, d) with d = `features`, not copied if it is one chunk."""
    table = table.combine_chunks()
    if "features" in table.column_names:
        column = table["features"].chunk(0)
        rows = column.storage if isinstance(column, pa.ExtensionArray) else column
        return rows.flatten().to_numpy(zero_copy_only=False).reshape(table.num_rows, features)
    indices, values = table["indices"].chunk(0), table["values"].chunk(0)
    indptr = indices.offsets.to_numpy().astype(np.int64)
    return sparse.csr_array(
        (
            values.flatten().to_numpy(zero_copy_only=False),
            indices.flatten().to_numpy(zero_copy_only=False),
            indptr - indptr[0],
        ),
        shape=(table.num_rows, features),
    )


def column_taker(features: Features) -> Callable[[np.ndarray], Features]:
    """A function that takes columns of the features."""
    if isinstance(features, np.ndarray):
        return lambda block: features[:, block]
    by_column = sparse.csc_array(features)  # in which columns are cheap to take

    def take(block: np.ndarray) -> sparse.csr_array:
        rows = sparse.csr_array(by_column[:, block])
        rows.sort_indices()
        return rows

    return take
