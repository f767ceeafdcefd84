"""Rows as comma-separated text."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from fedatlas.errors import FedatlasError

R = TypeVar("R")
_REMEDY = "Name another file; if it is a result, move it away and run again."


def to_csv(rows: Sequence[Mapping[str, object]], columns: Sequence[str] | None = None) -> str:
    """Rows as CSV text with a header; `columns` gives the header where there may be no row."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def read_rows(path: Path, columns: Sequence[str] | None = None) -> list[dict[str, str]]:
    """Read rows back; FedatlasError names a file without these columns or with broken rows."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            if columns and tuple(reader.fieldnames or ()) != tuple(columns):
                raise FedatlasError(f"{path}: expected the columns {', '.join(columns)}. {_REMEDY}")
            rows = []
            for row in reader:
                # A row of another length has None for a key or for a value.
                if None in row or None in row.values():
                    raise FedatlasError(
                        f"{path}: the row that ends in line {reader.line_num} is not whole. "
                        f"{_REMEDY}"
                    )
                rows.append(row)
            return rows
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FedatlasError(f"{path}: cannot be read: {error}") from None


def parse_rows(
    path: Path, columns: Sequence[str], parse: Callable[[Mapping[str, str]], R]
) -> list[R]:
    """What `parse` makes of each row; FedatlasError names a file of which it raises ValueError."""
    try:
        return [parse(row) for row in read_rows(path, columns)]
    except ValueError as error:
        raise FedatlasError(f"{path}: {error}. {_REMEDY}") from None
