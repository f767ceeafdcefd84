"""Rows as comma-separated text."""

import csv
import io
from collections.abc import Mapping, Sequence


def to_csv(rows: Sequence[Mapping[str, object]], columns: Sequence[str] | None = None) -> str:
    """Rows as CSV text with a header; `columns` gives the header where there may be no row."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
