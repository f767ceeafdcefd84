"""Shards: the samples of each client in one row group of a Parquet file.

A silo is one file and every client is one of its row groups, so a client reads its own samples
and nobody else's. Rows kept for testing, which are the server's, are one more row group at the end.
A horizontal partition has one silo with all columns; a tiered partition has one silo per block of
columns, whose clients hold other samples than those of other silos.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.parquet import (
    METADATA_KEY,
    PREPARED_KEYS,
    open_parquet,
    read_metadata,
    read_rows,
)
from fedatlas.data.tables import from_table, to_table
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, file_digest, write_atomically
from fedatlas.schema.partitions import BinaryClasses, HorizontalPartition, Partition
from fedatlas.shards.assignment import share_out
from fedatlas.shards.manifests import manifest_of

# Measured on a9a with 3250 clients: statistics and dictionaries cost 20-40 % of the writing and
# reading time and more bytes than they save in groups of ten rows; zstd sets up a context per
# page and reads five times slower; lz4 costs nothing and leaves a third of the bytes. A checksum
# per page is free and turns a flipped bit into an error instead of a wrong gradient.
WRITER_OPTIONS: dict[str, Any] = {
    "compression": "lz4",
    "use_dictionary": False,
    "write_statistics": False,
    "write_page_checksum": True,
}

# Rows of clients of ten, taken at once: in a fifth of the time of one by one.
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
    require_silo_files(spec, silos, manifest)
    table, metadata = read_prepared_table(prepared)
    rows_of_client, test_rows = share_out(spec, table["label"].to_numpy())
    test_table = read_test_table(test, spec, manifest, prepared, metadata)
    if len(test_rows):
        test_table = table.take(test_rows)
    sample_id = table["sample_id"].to_numpy()
    if spec.binary is not None:
        table = relabelled(table, spec.binary)
        test_table = test_table and relabelled(test_table, spec.binary)
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
            _write_runs(silo, chain(runs, kept), {**shard_metadata, "silo": number})
            clients = client_entries(rows_of_client, sample_id)
            describe(silo, clients=clients, test_samples=shard_metadata["test_samples"])


def require_silo_files(spec: Partition, silos: Sequence[Path], manifest: Path) -> None:
    """FedatlasError unless there are as many files as silos, beside the manifest."""
    if len(silos) != spec.silos or any(silo.parent != manifest.parent for silo in silos):
        raise FedatlasError(
            f"{manifest}: a {spec.kind} partition is {spec.silos} silo file(s) in the manifest's "
            f"folder, but these were given: {', '.join(map(str, silos)) or 'none'}"
        )


def partition_metadata(spec: Partition, prepared: Path, test: Path | None) -> dict[str, Any]:
    """What a shard says of how it came to be."""
    return {
        "partition": spec.model_dump(mode="json"),
        "prepared_digest": file_digest(prepared),
        "test_digest": file_digest(test) if test else None,
    }


def client_metadata(
    rows_of_client: Sequence[np.ndarray], label: np.ndarray, test_samples: int
) -> dict[str, Any]:
    """What a shard says of its rows.

    label: (n,) those of the rows that clients take theirs from.
    """
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

    sample_id: (n,) those of the rows that clients take theirs from.
    """
    sizes = [len(rows) for rows in rows_of_client]
    ranges = _ranges(sample_id[np.concatenate(rows_of_client)], np.cumsum(sizes))
    return [
        {"row_group": number, "samples": size, "sample_ids": own}
        for number, (size, own) in enumerate(zip(sizes, ranges, strict=True))
    ]


def read_test_table(
    test: Path | None, spec: Partition, manifest: Path, prepared: Path, metadata: dict[str, Any]
) -> pa.Table | None:
    """The rows of the split that a partition keeps for testing; None if it names none.

    metadata: of `prepared`, with which the test rows must agree.
    """
    if (test is None) != (spec.test_split is None):
        raise FedatlasError(
            f"{manifest}: the partition's test is {spec.test!r}, but the test file given is {test}"
        )
    if test is None:
        return None
    table, test_metadata = read_prepared_table(test)
    if test_metadata["features"] != metadata["features"]:
        raise FedatlasError(
            f"{test}: has {test_metadata['features']} features, but {prepared} has "
            f"{metadata['features']}"
        )
    if test_metadata["layout"] == metadata["layout"]:
        return table
    # Either split is stored as is smaller for it, but row groups of one file are alike.
    samples = from_table(table, metadata["features"])
    rows = sparse.csr_array(samples.features)
    features = rows.toarray() if samples.is_sparse else rows
    return to_table(Samples(samples.sample_id, samples.label, features))


def read_prepared_table(prepared: Path) -> tuple[pa.Table, dict[str, Any]]:
    """The rows and the metadata of a prepared file; FedatlasError when they do not agree."""
    with open_parquet(prepared) as file:
        metadata = read_metadata(file, prepared, PREPARED_KEYS)
        if metadata["rows"] != file.metadata.num_rows:
            raise FedatlasError(
                f"{prepared}: holds {file.metadata.num_rows} rows, but its metadata say "
                f"{metadata['rows']}; prepare it again"
            )
        # One chunk per column: taking rows from a chunked list column joins the chunks each time.
        return read_rows(file).combine_chunks(), metadata


def write_row_groups(path: Path, groups: Iterable[pa.Table], metadata: dict[str, Any]) -> None:
    """Write each table as one row group of a Parquet file, whole or not at all."""
    _write_runs(path, ((group, group.num_rows) for group in groups), metadata)


def _write_runs(path: Path, runs: Iterable[tuple[pa.Table, int]], metadata: dict[str, Any]) -> None:
    """As `write_row_groups`, of tables that are cut into row groups of so many rows each."""
    waiting = iter(runs)
    first = next(waiting)
    schema = first[0].schema.with_metadata({METADATA_KEY: canonical_json(metadata)})
    with (
        write_atomically(path) as temporary,
        pq.ParquetWriter(temporary, schema, **WRITER_OPTIONS) as writer,
    ):
        for table, size in chain([first], waiting):
            # Without a size Arrow cuts after a million rows; a size of 0, of no rows, it refuses.
            writer.write_table(
                table.replace_schema_metadata(schema.metadata), row_group_size=max(size, 1)
            )


def relabelled(table: pa.Table, binary: BinaryClasses) -> pa.Table:
    """The same rows with labels ±1."""
    place = table.column_names.index("label")
    return table.set_column(place, "label", pa.array(binary.labels(table["label"].to_numpy())))


def _taken(table: pa.Table, rows_of_client: Sequence[np.ndarray]) -> Iterator[tuple[pa.Table, int]]:
    """The rows of all clients in their order: those of neighbours with equally many, and how many.

    Taken for many small clients at once, which is faster than one by one, but not for all: that
    would hold the table twice.
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
    """The runs of consecutive ids, as [start, stop) pairs in order, of every client.

    ids: (n,) client after client; ends: (clients,) where each one's end, the last n.
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
