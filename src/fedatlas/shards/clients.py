"""Shards: the samples of each client in one row group of a Parquet file.

A silo is one file, and each client is one of its row groups. The server's test rows are one more
row group at the end. A horizontal partition has one silo with all columns. A tiered partition has
one silo per block of columns, and each silo shares out the samples to its clients anew.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.shards.assignment import share_out
from fedatlas.shards.files import labelled, partition_metadata, read_sources, write_runs
from fedatlas.shards.manifests import manifest_of

# Taking so many rows at once is five times faster than client by client, at ten rows a client.
_ROWS_AT_ONCE = 1024


def write_shards(
    prepared: Path,
    spec: HorizontalPartition,
    silos: Sequence[Path],
    manifest: Path,
    test: Path | None = None,
) -> None:
    """Share out a prepared file: one Parquet file per silo, then the manifest.

    prepared, test: files of `fedatlas.data.prepare`; `test` where the partition names a test split.
    silos: the `spec.silos` files to write, beside `manifest`.
    manifest: JSON that tells the partition, the digests of all files, and for every client of
        every silo its row group, number of samples and sample ids as [start, stop) ranges.

    Every file is written whole or not at all, and the manifest last: if it is there, so are the
    files that it describes. Raises FedatlasError when an input is missing, damaged or lacks its
    metadata, or when its samples cannot be shared out as asked.
    """
    table, test_table, metadata = read_sources(prepared, test, spec, silos, manifest)
    rows_of_client, test_rows = share_out(spec, table["label"].to_numpy())
    table, test_table = labelled(table, test_table, test_rows, spec.binary)
    shard_metadata = {
        **metadata,
        **partition_metadata(spec, prepared, test),
        **client_metadata(
            rows_of_client, table["label"].to_numpy(), test_table.num_rows if test_table else 0
        ),
    }
    with manifest_of(manifest, shard_metadata) as describe:
        for number, silo in enumerate(silos):
            runs = _taken(table, rows_of_client)
            kept = [(test_table, test_table.num_rows)] if test_table else []
            write_runs(silo, chain(runs, kept), {**shard_metadata, "silo": number})
            clients = client_entries(rows_of_client, table["sample_id"].to_numpy())
            describe(silo, clients=clients, test_samples=shard_metadata["test_samples"])


def client_metadata(
    rows_of_client: Sequence[np.ndarray], label: np.ndarray, test_samples: int
) -> dict[str, Any]:
    """What a shard's metadata say of its rows; label: (n,) of the rows before they are dealt."""
    sizes = [len(rows) for rows in rows_of_client]
    return {
        "rows": sum(sizes) + test_samples,
        "client_samples": sizes,
        "test_samples": test_samples,
        "positive_rate": _positive_rate(label[np.concatenate(rows_of_client)]),
    }


def client_entries(
    rows_of_client: Sequence[np.ndarray], sample_id: np.ndarray
) -> list[dict[str, Any]]:
    """What a manifest says of each client: row group, samples, their ids as ranges.

    sample_id: (n,) of the rows before they are dealt.
    """
    sizes = [len(rows) for rows in rows_of_client]
    ranges = _ranges(sample_id[np.concatenate(rows_of_client)], np.cumsum(sizes))
    return [
        {"row_group": number, "samples": size, "sample_ids": own}
        for number, (size, own) in enumerate(zip(sizes, ranges, strict=True))
    ]


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
        taken = table.take(np.concatenate(rows_of_client[start:stop]))
        begin = 0
        for size, equal in groupby(sizes[start:stop]):
            clients = len(list(equal))
            # A client without rows has a row group, too, which no row would begin.
            for rows in [size * clients] if size else [0] * clients:
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


def _positive_rate(labels: np.ndarray) -> float | None:
    return float((labels > 0).mean()) if np.isin(labels, (-1.0, 1.0)).all() else None
