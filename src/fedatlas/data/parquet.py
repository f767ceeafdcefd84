"""Reading Parquet files that fedatlas wrote: prepared splits and shards."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedatlas.arithmetic.samples import TENSOR_DTYPES
from fedatlas.errors import FedatlasError

METADATA_KEY = b"fedatlas"
PREPARED_KEYS = ("dataset", "split", "rows", "features", "layout")
DENSE_COLUMNS = {"sample_id", "label", "features"}
SPARSE_COLUMNS = {"sample_id", "label", "indices", "values"}
TENSOR = pa.FixedShapeTensorType
TENSOR_ARROW_TYPES = tuple(map(pa.from_numpy_dtype, TENSOR_DTYPES))
# How many times their bytes files may unpack to; below the second number any ratio is harmless.
MOST_RATIO = 1000
ANY_RATIO_BYTES = 256 << 20
_COLUMN_TYPES = {
    "sample_id": pa.int64(),
    "label": pa.float64(),
    "indices": pa.large_list(pa.int32()),
    "values": pa.large_list(pa.float64()),
}


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


# What metadata must be like where readers rely on it.
_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("rows", "features", "silo", "test_samples"), (_is_whole, "a whole number")),
    "client_samples": (
        lambda value: isinstance(value, list) and all(map(_is_whole, value)),
        "a list of whole numbers",
    ),
    "groups": (
        lambda value: (
            isinstance(value, list)
            and all(
                isinstance(group, list) and len(group) == 2 and _is_whole(group[1])
                for group in value
            )
            and [group[0] for group in value] in (["train"], ["train", "test"])
        ),
        "[['train', rows]] or also ['test', rows]",
    ),
    "labelled": (lambda value: isinstance(value, bool), "true or false"),
    "partition": (lambda value: isinstance(value, dict), "an object"),
}


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; failures to read it, also inside the block, become FedatlasError.

    So does a footer that claims far more values than the file can hold: runs of equal values take
    next to no place, and a small file could fill the memory.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _check_extent(file, path.stat().st_size)
            yield file
    except FedatlasError as error:
        # Of rows, which do not know whose they are.
        if str(path) in str(error):
            raise
        raise FedatlasError(f"{path}: {error}") from error
    except FileNotFoundError as error:
        raise FedatlasError(f"{path}: no such file") from error
    except PermissionError as error:
        raise FedatlasError(f"{path}: cannot be read: permission denied") from error
    # Also names that are no UTF-8, and metadata of a form that nothing here writes.
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise FedatlasError(
            f"{path}: is truncated, damaged or no Parquet file ({reason}); "
            "delete it and make it again"
        ) from error


def _check_extent(file: pq.ParquetFile, size: int) -> None:
    # Not by the footer's columns: pyarrow ends the whole process where these are damaged.
    footer = file.metadata
    groups = sum(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
    values = max(footer.num_rows, groups) * sum(_width(field.type) for field in file.schema_arrow)
    # A value takes at most eight bytes.
    if 8 * values > max(MOST_RATIO * size, ANY_RATIO_BYTES):
        raise pa.ArrowInvalid(f"its footer claims {values} values, but it has {size} bytes")


def _width(kind: pa.DataType) -> int:
    """How many values a row has at least."""
    if isinstance(kind, TENSOR):
        return math.prod(kind.shape)
    return int(kind.list_size) if pa.types.is_fixed_size_list(kind) else 1


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
        wrong = [key for key in keys if key in _FORMS and not _FORMS[key][0](metadata.get(key))]
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        raise FedatlasError(
            f"{path}: lacks the schema metadata 'fedatlas' that fedatlas writes; make it again"
        ) from None
    if missing:
        raise FedatlasError(f"{path}: its 'fedatlas' metadata lack {', '.join(missing)}")
    if wrong:
        raise FedatlasError(
            f"{path}: its 'fedatlas' metadata say {wrong[0]} = {str(metadata[wrong[0]])[:60]}, "
            f"expected {_FORMS[wrong[0]][1]}; make it again"
        )
    # A party's file lacks the labels when the party does.
    if {*schema.names, "label"} not in (DENSE_COLUMNS, SPARSE_COLUMNS) or (
        "label" not in schema.names and metadata.get("labelled") is not False
    ):
        raise FedatlasError(
            f"{path}: has the columns {', '.join(schema.names)}; expected sample_id, label and "
            "either features, or indices and values"
        )
    _check_types(schema, metadata["features"], path)
    return metadata


def _check_types(schema: pa.Schema, features: int, path: Path) -> None:
    """Columns must be of the types that are written, tensors and lists as long as features are."""
    for field in schema:
        if field.type != _COLUMN_TYPES.get(field.name, field.type):
            raise FedatlasError(
                f"{path}: its column '{field.name}' is of type {field.type}; expected "
                f"{_COLUMN_TYPES[field.name]}"
            )
    stored = _features_type(schema)
    if stored is None:
        return
    if isinstance(stored, pa.BaseExtensionType):
        known = isinstance(stored, TENSOR) and stored.value_type in TENSOR_ARROW_TYPES
        if not known or math.prod(stored.shape) != features:
            raise FedatlasError(
                f"{path}: its column 'features' is of type {stored}; expected tensors of "
                f"{features} uint8 or float32 values"
            )
    elif not (
        pa.types.is_fixed_size_list(stored)
        and stored.value_type == pa.float64()
        and stored.list_size == features
    ):
        raise FedatlasError(
            f"{path}: its column 'features' is of type {stored}; expected lists of {features} "
            "float64 values"
        )


def _features_type(schema: pa.Schema) -> pa.DataType | None:
    return schema.field("features").type if "features" in schema.names else None
