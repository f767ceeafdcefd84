"""Tables in Parquet files: columns as the catalogue declares them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Files
from fedatlas.data.formats.columns import (
    Columns,
    Conversion,
    Converter,
    TableDataset,
    lacking,
    unreadable,
)
from fedatlas.data.reading import Raw, reading
from fedatlas.errors import FedatlasError

#: So many bytes of numbers are read from a file, or so many times its own size.
MOST_BYTES, MOST_TIMES = 1 << 30, 1000


class ParquetDataset(TableDataset):
    """parquet: what the columns of the table hold. The files of a split are read in their order."""

    files_of_split: ClassVar[Files] = "files"

    format: Literal["parquet"]
    parquet: Columns

    def read(self, split: str, raw: list[Path]) -> Samples:
        return read_table(raw, self.parquet, self.labels)


def read_table(paths: list[Path], columns: Columns, labels: Mapping[Raw, float] | None) -> Samples:
    """Read the rows of Parquet files whose columns are declared, file after file.

    labels: raw label → value; None takes labels as they are. A value is read as the text that
    prints it: null and NaN are missing, a truth value is 1 or 0. Returns what `Conversion.samples`
    does. Raises FedatlasError, naming file, row (from 1) and column, when a file lacks, repeats or
    adds a column, a column holds lists or other nested values, and a value is missing (unless such
    rows are dropped), not a finite number or not among the listed ones; and when a file is damaged,
    no Parquet, or there are no rows.
    """
    conversion = Conversion(columns, labels)
    found = [_values(path, columns, conversion) for path in paths]
    return conversion.samples(np.concatenate(found), ", ".join(map(str, paths)))


def _values(path: Path, columns: Columns, conversion: Conversion) -> np.ndarray:
    """(rows, columns) numbers of one file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with reading(path), path.open("rb") as stream, pq.ParquetFile(stream) as file:
            header = file.schema_arrow.names
            if problem := columns.problem_of(header):
                raise FedatlasError(
                    f"{path}: {problem}; the columns are: {', '.join(header)}. List columns that "
                    "are not needed as 'ignore' under 'parquet'"
                )
            rows, size = file.metadata.num_rows, path.stat().st_size
            if 8 * rows * len(conversion.names) > max(MOST_BYTES, MOST_TIMES * size):
                raise FedatlasError(
                    f"{path}: claims {rows:,} rows in {size:,} bytes, more than is read; divide it "
                    "into several files, or read it as CSV"
                )
            table = file.read(columns=list(dict.fromkeys(conversion.names)))
    except (pa.ArrowException, ValueError, LookupError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise FedatlasError(f"{path}: is damaged, or no Parquet file: {reason}") from error
    values = np.column_stack(
        [
            _converted(path, name, table.column(name), convert)
            for name, convert in zip(conversion.names, conversion.of_column, strict=True)
        ]
    )
    missing = np.isnan(values)
    if missing.any() and not columns.drop_missing:
        row, place = np.argwhere(missing)[0]
        raise lacking(f"{path}: row {row + 1}", conversion.names[place])
    return values


def _converted(path: Path, name: str, column: Any, convert: Converter) -> np.ndarray:
    """(rows,) numbers of a pyarrow column; each of its distinct values is converted once."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not any(is_one(column.type) for is_one in _types()):
        raise FedatlasError(
            f"{path}: column '{name}' holds {column.type}; it must hold numbers, texts, truth "
            "values or times, or be listed as 'ignore' under 'parquet'"
        )
    encoded = column.combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    texts = [_text(value) for value in encoded.dictionary.to_pylist()]
    known = np.empty(len(texts) + 1)
    known[-1] = convert("")  # null
    for code, text in enumerate(texts):
        try:
            known[code] = convert(text)
        except ValueError as problem:
            row = int(np.argmax(codes == code)) + 1
            raise unreadable(f"{path}: row {row}", name, text, problem, "parquet") from None
    return known[codes]


def _types() -> list[Callable[[Any], bool]]:
    """What tells types of columns that can be read."""
    from pyarrow import types

    numbers = [types.is_integer, types.is_floating, types.is_decimal, types.is_boolean]
    texts = [types.is_string, types.is_large_string, types.is_date, types.is_timestamp]
    return [*numbers, *texts, types.is_null]


def _text(value: Any) -> str:
    """A value as text, which `Conversion` reads; empty for null and NaN."""
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None or value != value else str(value)
