"""Reading Parquet files that fedatlas wrote: prepared splits and shards."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedatlas.data.samples import TENSOR_TYPES
from fedatlas.errors import FedatlasError

METADATA_KEY = b"fedatlas"
PREPARED_KEYS = ("dataset", "split", "rows", "features", "layout")
DENSE_COLUMNS = {"sample_id", "label", "features"}
SPARSE_COLUMNS = {"sample_id", "label", "indices", "values"}
TENSOR = pa.FixedShapeTensorType


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; failures to read it, also inside the block, become FedatlasError."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError as error:
        raise FedatlasError(f"{path}: no such file") from error
    except PermissionError as error:
        raise FedatlasError(f"{path}: cannot be read: permission denied") from error
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise FedatlasError(
            f"{path}: is truncated, damaged or no Parquet file ({reason}); "
            "delete it and make it again"
        ) from error


def read_rows(file: pq.ParquetFile) -> pa.Table:
    """All rows of a file, in as many chunks as it has row groups where these hold tensors."""
    if not file.num_row_groups or not isinstance(_features_type(file.schema_arrow), TENSOR):
        return file.read()
    # Read at once, a column of lists takes twelve bytes per value before it is made: of bytes,
    # that is twelve times the data. Group by group only the data themselves are held.
    groups = range(file.num_row_groups)
    return pa.concat_tables([file.read_row_group(group) for group in groups])


def read_metadata(file: pq.ParquetFile, path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The file's own `fedatlas` metadata, holding at least `keys`; its columns are checked too."""
    schema = file.schema_arrow
    try:
        metadata = json.loads((schema.metadata or {})[METADATA_KEY])
        missing = [key for key in keys if key not in metadata]
    except (KeyError, ValueError, TypeError):
        raise FedatlasError(
            f"{path}: lacks the schema metadata 'fedatlas' that fedatlas writes; make it again"
        ) from None
    if missing:
        raise FedatlasError(f"{path}: its 'fedatlas' metadata lack {', '.join(missing)}")
    # A party's file lacks the labels when the party does.
    if {*schema.names, "label"} not in (DENSE_COLUMNS, SPARSE_COLUMNS) or (
        "label" not in schema.names and metadata.get("labelled") is not False
    ):
        raise FedatlasError(
            f"{path}: has the columns {', '.join(schema.names)}; expected sample_id, label and "
            "either features, or indices and values"
        )
    _check_tensors(schema, metadata["features"], path)
    return metadata


def _check_tensors(schema: pa.Schema, features: int, path: Path) -> None:
    """Tensors must hold as many bytes or float32 values as there are features."""
    stored = _features_type(schema)
    if isinstance(stored, pa.BaseExtensionType):
        known = isinstance(stored, TENSOR) and stored.value_type in TENSOR_TYPES.values()
        if not known or math.prod(stored.shape) != features:
            raise FedatlasError(
                f"{path}: its column 'features' is of type {stored}; expected tensors of "
                f"{features} uint8 or float32 values"
            )


def _features_type(schema: pa.Schema) -> pa.DataType | None:
    return schema.field("features").type if "features" in schema.names else None
