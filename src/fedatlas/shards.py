"""Shards: the samples of each client in one row group of a Parquet file.

A silo is one file and every client is one of its row groups, so a client reads its own samples
and nobody else's. A horizontal partition has one silo with all columns; a partition by features
has one silo per column block, with the same clients in the same order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedatlas.data.parquet import METADATA_KEY, PREPARED_KEYS, open_parquet, read_metadata
from fedatlas.data.samples import Samples, from_table
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, file_digest, write_atomically
from fedatlas.partition import HorizontalPartition, assign

SHARD_KEYS = (*PREPARED_KEYS, "partition", "silo", "client_samples", "prepared_digest")

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


@dataclass(frozen=True)
class ClientSamples:
    """All samples of a silo, ordered by client.

    samples: client i holds rows offsets[i] to offsets[i + 1], in their original order.
    offsets: (clients + 1,) int64, from 0.
    metadata: what the shard says of itself: data set, split, features, partition and digest of
        the prepared file.
    """

    samples: Samples
    offsets: np.ndarray
    metadata: dict[str, Any]

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.offsets) - 1


def write_shards(
    prepared: Path, spec: HorizontalPartition, silos: Sequence[Path], manifest: Path
) -> None:
    """Share out a prepared file: one Parquet file per silo, then the manifest.

    prepared: a Parquet file with the columns of `to_table` and `fedatlas` metadata.
    silos: the `spec.silos` files to write, beside `manifest`.
    manifest: JSON that tells the partition, the digests of all files, and for every client of
        every silo its row group, number of samples and sample ids as [start, stop) ranges.

    Every file is written whole or not at all, and the manifest last: if it is there, so are the
    files that it describes. Raises FedatlasError when the prepared file is missing, damaged or
    lacks its metadata, or when its samples cannot be shared out as asked.
    """
    if len(silos) != spec.silos or any(silo.parent != manifest.parent for silo in silos):
        raise FedatlasError(
            f"{manifest}: a {spec.kind} partition is {spec.silos} silo file(s) in the manifest's "
            f"folder, but these were given: {', '.join(map(str, silos)) or 'none'}"
        )
    table, metadata = read_prepared_table(prepared)
    client = assign(spec, table["label"].to_numpy())
    sizes = np.bincount(client, minlength=spec.clients)
    rows_of_client = np.split(np.argsort(client, kind="stable"), np.cumsum(sizes)[:-1])
    digest = file_digest(prepared)
    shard_metadata = {
        **metadata,
        "rows": len(client),
        "partition": spec.model_dump(mode="json"),
        "client_samples": sizes.tolist(),
        "prepared_digest": digest,
    }

    sample_id = table["sample_id"].to_numpy()
    clients = [
        {"row_group": number, "samples": len(rows), "sample_ids": _ranges(sample_id[rows])}
        for number, rows in enumerate(rows_of_client)
    ]
    with manifest_of(manifest, shard_metadata) as describe:
        for number, silo in enumerate(silos):
            # Taken per client, not reordered as a whole: that would hold the table twice.
            groups = (table.take(rows) for rows in rows_of_client)
            write_row_groups(silo, groups, {**shard_metadata, "silo": number})
            describe(silo, clients=clients)


def read_shard(path: Path) -> ClientSamples:
    """Read the samples of all clients of a silo.

    Raises FedatlasError when the file is missing, truncated or damaged, is no shard, or has other
    row groups than its metadata say.
    """
    with open_parquet(path) as file:
        metadata = _shard_metadata(file, path)
        table = file.read()
    offsets = np.concatenate([[0], np.cumsum(metadata["client_samples"], dtype=np.int64)])
    return ClientSamples(from_table(table, metadata["features"]), offsets, metadata)


def read_client(path: Path, client: int) -> Samples:
    """Read the samples of one client: the file's footer and that client's row group only.

    Raises FedatlasError as `read_shard` does (damage to other row groups goes unnoticed), and
    when there is no such client.
    """
    with open_parquet(path) as file:
        metadata = _shard_metadata(file, path)
        if not 0 <= client < file.num_row_groups:
            raise FedatlasError(
                f"{path}: has no client {client}; its clients are 0 to {file.num_row_groups - 1}"
            )
        table = file.read_row_group(client)
    return from_table(table, metadata["features"])


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
        return file.read().combine_chunks(), metadata


@contextmanager
def manifest_of(manifest: Path, shard_metadata: dict[str, Any]) -> Iterator[Callable[..., None]]:
    """Write a manifest after its silo files: call the yielded function for each that is written.

    The function takes the silo's path and what its entry says besides file name and digest.
    """
    with write_atomically(manifest) as temporary:
        # An older manifest must not vouch for the files that replace its own.
        manifest.unlink(missing_ok=True)
        written: list[dict[str, Any]] = []

        def describe(silo: Path, **entry: Any) -> None:
            written.append({"file": silo.name, "digest": file_digest(silo), **entry})

        yield describe
        keys = ("dataset", "split", "features", "prepared_digest", "partition")
        description = {key: shard_metadata[key] for key in keys}
        description |= {"seed": shard_metadata["partition"]["seed"], "silos": written}
        temporary.write_text(canonical_json(description) + "\n", encoding="utf-8")


def write_row_groups(path: Path, groups: Iterable[pa.Table], metadata: dict[str, Any]) -> None:
    """Write each table as one row group of a Parquet file, whole or not at all."""
    waiting = iter(groups)
    first = next(waiting)
    schema = first.schema.with_metadata({METADATA_KEY: canonical_json(metadata)})
    with (
        write_atomically(path) as temporary,
        pq.ParquetWriter(temporary, schema, **WRITER_OPTIONS) as writer,
    ):
        for group in chain([first], waiting):
            # The explicit size keeps a group of over a million rows in one.
            writer.write_table(
                group.replace_schema_metadata(schema.metadata),
                row_group_size=max(group.num_rows, 1),
            )


def _ranges(ids: np.ndarray) -> list[list[int]]:
    """The runs of consecutive ids, as [start, stop) pairs in order."""
    breaks = np.flatnonzero(np.diff(ids) != 1)
    starts = ids[np.concatenate([[0], breaks + 1])]
    stops = ids[np.concatenate([breaks, [len(ids) - 1]])] + 1
    return np.column_stack([starts, stops]).tolist()


def _shard_metadata(file: pq.ParquetFile, path: Path) -> dict[str, Any]:
    """As `read_metadata`, for a shard: one row group per client with that client's samples."""
    metadata = read_metadata(file, path, SHARD_KEYS)
    footer = file.metadata
    sizes = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    if sizes != metadata["client_samples"]:
        raise FedatlasError(
            f"{path}: its {len(sizes)} row groups with {sum(sizes)} rows are not the "
            f"{len(metadata['client_samples'])} clients with {sum(metadata['client_samples'])} "
            "samples that its metadata name; shard it again"
        )
    return metadata
