"""Samples as Arrow tables, the one table format of prepared data and of shards, in Parquet files.

pyarrow loads pandas where it meets numpy, which takes a short job a third of its time, unless
arrays are handed over as memory; scipy is loaded for sparse features.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedatlas.arithmetic.samples import TENSOR_DTYPES, Samples
from fedatlas.errors import FedatlasError, NotReadNowError, is_shortage

if TYPE_CHECKING:
    from scipy import sparse

    Features: TypeAlias = np.ndarray | sparse.csr_array


METADATA_KEY = b"fedatlas"
#: Begins the names of columns that are no features, such as who wrote a row.
KEPT = "kept:"
PREPARED_KEYS = ("dataset", "split", "rows", "features", "layout")


def to_array(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The numbers of a column, (n,); read-only, and not copied if it is one chunk."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind, memory = whole.type, whole.buffers()[-1]
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not plain or memory is None or whole.null_count:
        return whole.to_numpy(zero_copy_only=False)
    dtype = np.dtype(kind.to_pandas_dtype())
    numbers = np.frombuffer(memory, dtype, len(whole), whole.offset * dtype.itemsize)
    numbers.flags.writeable = False
    return numbers


def to_column(numbers: np.ndarray) -> pa.Array:
    """Numbers (n,) as a column, or as places of rows to take."""
    memory = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, memory])


def to_table(samples: Samples, shape: tuple[int, ...] | None = None) -> pa.Table:
    """Columns sample_id, label, those of `feature_columns`, and what else is kept of rows."""
    return pa.table(
        {
            "sample_id": to_column(samples.sample_id.astype(np.int64, copy=False)),
            "label": to_column(samples.label.astype(np.float64, copy=False)),
            **feature_columns(samples.features, shape),
            **{KEPT + name: pa.array(list(values)) for name, values in samples.kept.items()},
        }
    )


def without_kept(table: pa.Table) -> pa.Table:
    """The table without the columns that are kept beside features and label."""
    return table.drop_columns([name for name in table.column_names if name.startswith(KEPT)])


def from_table(table: pa.Table, features: int) -> Samples:
    """Inverse of `to_table`, without what is kept; `features` is the number of columns d."""
    return Samples(
        to_array(table["sample_id"]),
        to_array(table["label"]),
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
    if isinstance(features, np.ndarray):
        dtype = features.dtype if features.dtype in TENSOR_DTYPES else np.float64
        flat = to_column(np.ascontiguousarray(features, dtype).reshape(n * d))
        rows = pa.FixedSizeListArray.from_arrays(flat, d)
        if dtype is np.float64:
            return {"features": rows}
        if math.prod(shape or (d,)) != d:
            raise FedatlasError(f"samples of shape {shape} do not hold {d} features")
        tensor = pa.fixed_shape_tensor(flat.type, shape or (d,))
        return {"features": pa.ExtensionArray.from_storage(tensor, rows)}
    offsets = to_column(features.indptr.astype(np.int64))
    indices = to_column(features.indices.astype(np.int32))
    values = to_column(features.data.astype(np.float64, copy=False))
    return {
        "indices": pa.LargeListArray.from_arrays(offsets, indices),
        "values": pa.LargeListArray.from_arrays(offsets, values),
    }


def features_from_table(table: pa.Table, features: int) -> Features:
    """Inverse of `feature_columns`: (n, d) with d = `features`, not copied if it is one chunk."""
    table = table.combine_chunks()
    if "features" in table.column_names:
        column = table["features"].chunk(0)
        rows = column.storage if isinstance(column, pa.ExtensionArray) else column
        return to_array(rows.flatten()).reshape(table.num_rows, features)
    from scipy import sparse

    indices, values = table["indices"].chunk(0), table["values"].chunk(0)
    indptr = to_array(indices.offsets).astype(np.int64)
    return sparse.csr_array(
        (
            to_array(values.flatten()),
            to_array(indices.flatten()),
            indptr - indptr[0],
        ),
        shape=(table.num_rows, features),
    )


def with_ones(table: pa.Table, features: int) -> pa.Table:
    """The table, sparse or dense, with one column of features more, which is 1 in every row."""
    samples = from_table(table, features)
    ones = np.ones((table.num_rows, 1))
    if samples.is_sparse:
        from scipy import sparse

        wider = sparse.hstack([samples.features, sparse.csr_array(ones)], format="csr")
    else:
        wider = np.hstack([samples.features, ones])
    made = to_table(replace(samples, features=wider))
    for name in set(table.column_names) - set(made.column_names):
        made = made.append_column(name, table[name])
    return made


def column_taker(features: Features) -> Callable[[np.ndarray], Features]:
    """A function that takes columns of the features."""
    if isinstance(features, np.ndarray):
        return lambda block: features[:, block]
    from scipy import sparse

    by_column = sparse.csc_array(features)  # in which columns are cheap to take

    def take(block: np.ndarray) -> sparse.csr_array:
        rows = sparse.csr_array(by_column[:, block])
        rows.sort_indices()
        return rows

    return take


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file that fedatlas wrote.

    Failures to read it, also inside the block, become FedatlasError: it is missing, cut, damaged or
    of another kind. What it holds is vouched for by digests.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError as error:
        raise FedatlasError(f"{path}: no such file") from error
    except PermissionError as error:
        raise FedatlasError(f"{path}: cannot be read: permission denied") from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError) as error:
        if is_shortage(error):
            raise NotReadNowError(path, error) from error
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise FedatlasError(
            f"{path}: is truncated, damaged or no Parquet file ({reason}); "
            "move it away and run again"
        ) from error


def read_rows(file: pq.ParquetFile) -> pa.Table:
    """All rows of a file; of tensors, in as many chunks as the file has row groups."""
    schema = file.schema_arrow
    tensors = "features" in schema.names and isinstance(
        schema.field("features").type, pa.FixedShapeTensorType
    )
    if not file.num_row_groups or not tensors:
        return file.read()
    # Read at once, a column of lists takes twelve bytes per value before it is made: of bytes,
    # that is twelve times the data. Group by group only the data themselves are held.
    groups = range(file.num_row_groups)
    return pa.concat_tables([file.read_row_group(group) for group in groups])


def read_metadata(file: pq.ParquetFile, path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The file's own `fedatlas` metadata, holding at least `keys`."""
    try:
        metadata: dict[str, Any] = json.loads((file.schema_arrow.metadata or {})[METADATA_KEY])
        missing = [key for key in keys if key not in metadata]
    except (KeyError, ValueError, TypeError):
        raise FedatlasError(
            f"{path}: lacks the schema metadata 'fedatlas' that fedatlas writes; make it again"
        ) from None
    if missing:
        raise FedatlasError(f"{path}: its 'fedatlas' metadata lack {', '.join(missing)}")
    return metadata
