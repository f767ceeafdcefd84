"""Horizontal shards: the samples of each client in one row group of the one silo's file.

The server's test rows are one more row group at the end.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa

from fedatlas.data.tables import to_array, to_column
from fedatlas.schema.partitions import BinaryClasses, HorizontalPartition
from fedatlas.shards.assignment import share_out
from fedatlas.shards.writing import Silo

log = logging.getLogger(__name__)

# Taking so many rows at once is five times faster than client by client, at ten rows a client.
_ROWS_AT_ONCE = 1024


def cut(
    spec: HorizontalPartition, table: pa.Table, test: pa.Table | None, metadata: dict[str, Any]
) -> list[Silo]:
    """The silo of a horizontal partition; see `fedatlas.shards.writing`."""
    shares = share_out(spec, to_array(table["label"]))
    if shares.filled:
        log.warning(
            "%d of %d clients were empty by the draw and were given one row each of the largest; "
            "'minimum' of the partition draws until every client has so many rows",
            *(shares.filled, spec.clients),
        )
    table, test = labelled(table, test, shares.test, spec.binary)
    silo = silo_of(table, test, shares.clients, metadata)
    drawn = {} if spec.concentration is None else {"filled_clients": shares.filled}
    return [silo._replace(entry=silo.entry | drawn)]


def labelled(
    table: pa.Table,
    test: pa.Table | None,
    test_rows: np.ndarray,
    binary: BinaryClasses | None,
) -> tuple[pa.Table, pa.Table | None]:
    """The rows and those for testing, with labels ±1 if `binary` says so.

    test_rows: (n,) of the table; without any, the test rows are those of `test`.
    """
    if len(test_rows):
        test = table.take(to_column(test_rows))
    if binary is None:
        return table, test
    return _relabelled(table, binary), test and _relabelled(test, binary)


def _relabelled(table: pa.Table, binary: BinaryClasses) -> pa.Table:
    place = table.column_names.index("label")
    return table.set_column(place, "label", to_column(binary.labels(to_array(table["label"]))))


def silo_of(
    table: pa.Table,
    test: pa.Table | None,
    rows_of_client: Sequence[np.ndarray],
    metadata: dict[str, Any],
) -> Silo:
    """A silo with a row group for every client, then the test rows; `metadata` are its own."""
    sizes = [len(rows) for rows in rows_of_client]
    held = np.concatenate(rows_of_client)
    label = to_array(table["label"])[held]
    signs = np.isin(label, (-1.0, 1.0)).all()
    test_samples = test.num_rows if test else 0
    described = {
        "rows": len(held) + test_samples,
        "client_samples": sizes,
        "test_samples": test_samples,
        "positive_rate": float((label > 0).mean()) if signs else None,
    }
    ranges = _ranges(to_array(table["sample_id"])[held], np.cumsum(sizes))
    clients = [
        {"row_group": number, "samples": size, "sample_ids": own}
        for number, (size, own) in enumerate(zip(sizes, ranges, strict=True))
    ]
    groups = chain(_taken(table, rows_of_client), [(test, test_samples)] if test else [])
    entry = {"clients": clients, "test_samples": test_samples}
    return Silo(groups, metadata | described, entry)


def _taken(table: pa.Table, rows_of_client: Sequence[np.ndarray]) -> Iterator[tuple[pa.Table, int]]:
    """All clients' rows in order: tables of equally large neighbours, and the rows of one client.

    Rows are taken for many small clients at once, which is faster; taking all at once would hold
    the table twice.
    """
    sizes = [len(rows) for rows in rows_of_client]
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _ROWS_AT_ONCE, side="right")))
        taken = table.take(to_column(np.concatenate(rows_of_client[start:stop])))
        begin = 0
        for size, equal in groupby(sizes[start:stop]):
            rows = size * len(list(equal))
            yield taken.slice(begin, rows), size
            begin += rows
        start = stop


def _ranges(ids: np.ndarray, ends: np.ndarray) -> list[list[list[int]]]:
    """Runs of consecutive ids per client, as [start, stop) pairs in order.

    ids: (n,) client after client. ends: (clients,) where each client's ids end.
    """
    first = np.ones(len(ids), dtype=bool)
    first[1:] = np.diff(ids) != 1
    first[ends[:-1]] = True
    starts = np.flatnonzero(first)
    stops = np.append(starts[1:], len(ids)) - 1
    pairs = np.column_stack([ids[starts], ids[stops] + 1]).tolist()
    last = np.searchsorted(starts, ends).tolist()
    return [pairs[start:stop] for start, stop in zip([0, *last], last, strict=False)]
