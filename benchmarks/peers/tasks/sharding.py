"""Sharing out prepared rows of a9a: to clients, a row group each, and to parties, a file each."""

import json
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rows import SAMPLES_EACH
from task import DifferentResult, Peer, Task, write_job

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.tables import METADATA_KEY, to_table
from fedatlas.files import canonical_json
from fedatlas.schema.partitions import HorizontalPartition, Partition, VerticalPartition
from fedatlas.shards.assignment import share_out
from fedatlas.shards.columns import feature_blocks

PARTIES, ACTIVE = 8, 3
SCRIPTS = (
    Peer("fedatlas", "shard_fedatlas.py"),
    Peer("pandas", "shard_pandas.py"),
    Peer("DuckDB", "shard_duckdb.py", "duckdb"),
)
A_FILE_EACH = Peer("DuckDB, a file each", "shard_duckdb.py", "duckdb", {"files_of_clients": True})


@dataclass(frozen=True)
class _Sharding(Task):
    """From one Parquet file of sparse rows to shards; equal are rows, their order and columns."""

    samples: Samples

    unit: ClassVar[str] = "times"
    peers: ClassVar[tuple[Peer, ...]] = SCRIPTS

    @abstractmethod
    def partition(self) -> Partition:
        """Who gets what."""

    @abstractmethod
    def plan(self) -> tuple[list[str], dict[str, np.ndarray]]:
        """Names of the files, and the assignment as arrays, for those who do not draw it."""

    def write(self, folder: Path) -> None:
        files, arrays = self.plan()
        values = {
            "partition": self.partition().model_dump(mode="json"),
            "files": files,
            "samples_each": SAMPLES_EACH,
        }
        write_job(folder, values, **arrays)
        rows, features = self.samples.features.shape
        metadata = {
            "dataset": "a9a",
            "split": "train",
            "rows": rows,
            "features": features,
            "layout": "sparse",
        }
        table = to_table(self.samples).replace_schema_metadata(
            {METADATA_KEY: canonical_json(metadata)}
        )
        pq.write_table(table, folder / "prepared.parquet", compression="zstd")

    def check(self, peer: Peer, output: Path, ours: Path) -> str:
        files = json.loads((output.parent / "parameters.json").read_text())["files"]
        if peer == A_FILE_EACH:
            return _check_files_of_clients(peer, output / "clients", ours / files[0])
        groups = size = 0
        for name in files:
            found, expected = (pq.ParquetFile(folder / name) for folder in (output, ours))
            groups += found.num_row_groups
            size += (output / name).stat().st_size
            _require_same(f"{peer.name}, {name}", found.read(), expected.read())
        return f"{groups:,} row groups, {size / 1e6:.2f} MB"


class ClientShards(_Sharding):
    """One file, ten shuffled rows for each client."""

    name: ClassVar[str] = "sharding-clients"
    peers: ClassVar[tuple[Peer, ...]] = (*SCRIPTS, A_FILE_EACH)

    @property
    def title(self) -> str:
        return f"Sharding: {len(self.samples):,} rows to {self.partition().clients:,} clients"

    def partition(self) -> HorizontalPartition:
        clients = len(self.samples) // SAMPLES_EACH
        return HorizontalPartition(assignment="shuffled", clients=clients, seed=0)

    def plan(self) -> tuple[list[str], dict[str, np.ndarray]]:
        rows_of_client = share_out(self.partition(), self.samples.label).clients
        client = np.repeat(np.arange(len(rows_of_client)), [len(rows) for rows in rows_of_client])
        return ["silo.parquet"], {"order": np.concatenate(rows_of_client), "client": client}


class PartyShards(_Sharding):
    """A file of all rows for each party, with its columns; labels where the party is active."""

    name: ClassVar[str] = "sharding-parties"

    @property
    def title(self) -> str:
        rows, features = self.samples.features.shape
        return f"Sharding: {features} columns of {rows:,} rows to {PARTIES} parties"

    def partition(self) -> VerticalPartition:
        return VerticalPartition(parties=PARTIES, active=ACTIVE, seed=0)

    def plan(self) -> tuple[list[str], dict[str, np.ndarray]]:
        blocks = feature_blocks(self.partition(), self.samples.features.shape[1])
        party_of, column_of = (np.empty(self.samples.features.shape[1], np.int32) for _ in range(2))
        for party, block in enumerate(blocks):
            party_of[block], column_of[block] = party, np.arange(len(block))
        files = [f"party{party}.parquet" for party in range(PARTIES)]
        return files, {"party_of": party_of, "column_of": column_of}


def _check_files_of_clients(peer: Peer, folder: Path, ours: Path) -> str:
    """As `check`, of a folder for each client in place of a row group of one file."""
    expected = pq.ParquetFile(ours)
    size = 0
    for client in range(expected.num_row_groups):
        (file,) = (folder / f"client={client}").iterdir()
        size += file.stat().st_size
        found = pq.ParquetFile(file).read()
        _require_same(f"{peer.name}, {file.parent.name}", found, expected.read_row_group(client))
    return f"{expected.num_row_groups:,} files, {size / 1e6:.2f} MB"


def _require_same(where: str, found: pa.Table, expected: pa.Table) -> None:
    """DifferentResult unless both hold the same rows, in the same order, in the same columns."""
    if found.column_names != expected.column_names:
        raise DifferentResult(f"{where}: columns {found.column_names}, not {expected.column_names}")
    for name in expected.column_names:
        # Lists with offsets of 32 or of 64 bits hold the same.
        same: Any = found[name].cast(expected[name].type)
        if not same.equals(expected[name]):
            raise DifferentResult(f"{where}: the column '{name}' holds something else")
