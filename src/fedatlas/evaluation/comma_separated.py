"""Rows as comma-separated text."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedatlas.errors import FedatlasError


def to_csv(rows: Sequence[Mapping[str, object]], columns: Sequence[str] | None = None) -> str:
    """Rows as CSV text with a header; `columns` gives the header where there may be no row."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


@contextmanager
def opened_csv(path: Path) -> Iterator["csv.DictReader[str]"]:
    """Open CSV text with a header; failures to read it, also inside the block, name the file."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            yield csv.DictReader(stream)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FedatlasError(f"{path}: cannot be read: {error}. Delete it and run again.") from None
