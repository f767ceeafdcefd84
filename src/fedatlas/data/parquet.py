"""Reading Parquet files that fedatlas wrote: prepared splits and shards.

Digests vouch for what they hold. What is found here are missing, cut and damaged files, and files
of another kind.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedatlas.errors import FedatlasError, NotReadNowError, is_shortage

METADATA_KEY = b"fedatlas"
PREPARED_KEYS = ("dataset", "split", "rows", "features", "layout")


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
