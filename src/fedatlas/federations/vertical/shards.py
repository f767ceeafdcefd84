"""Reading the shards of parties: all side by side, or the one file that a party has."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from fedatlas.data.tables import (
    PREPARED_KEYS,
    features_from_table,
    open_parquet,
    read_metadata,
    to_array,
)
from fedatlas.errors import FedatlasError

# The same in the files of all parties, and what each party has of its own.
_COMMON_KEYS = ("dataset", "split", "partition", "prepared_digest", "test_digest", "groups")
PARTY_KEYS = (*PREPARED_KEYS, *_COMMON_KEYS, "silo", "columns", "labelled", "scaling")

Features: TypeAlias = np.ndarray | sparse.csr_array


@dataclass(frozen=True)
class PartyRows:
    """Aligned rows of all parties, whose blocks stand side by side in the order of the parties.

    features: (n, d) dense or CSR; label: (n,); starts: (q + 1,) first column of each block, and d.
    """

    features: Features
    label: np.ndarray
    starts: np.ndarray

    @property
    def parties(self) -> int:
        """Number of parties q."""
        return len(self.starts) - 1

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True)
class PartySamples:
    """All that parties hold: training rows, test rows (None without any), metadata."""

    train: PartyRows
    test: PartyRows | None
    metadata: dict[str, Any]


def read_party_shards(paths: Sequence[Path]) -> PartySamples:
    """Read the files of all parties, in order, and set their blocks side by side.

    Raises FedatlasError when a file is missing, damaged or no party's, or when the files are not
    all parties of one partition of the same data, in order.
    """
    blocks: dict[str, list[Features]] = {"train": [], "test": []}
    labels: dict[str, np.ndarray] = {}
    first: dict[str, Any] = {}
    widths = []
    for number, path in enumerate(paths):
        with open_parquet(path) as file:
            metadata = read_metadata(file, path, PARTY_KEYS)
            first = first or metadata
            same = all(metadata[key] == first[key] for key in _COMMON_KEYS)
            if not same or metadata["silo"] != number:
                raise FedatlasError(
                    f"{path}: is not party {number} of the partition of {paths[0]}; shard again"
                )
            for group, (name, _) in enumerate(metadata["groups"]):
                features, label = _group(file, group, metadata)
                blocks[name].append(features)
                labels.setdefault(name, label)  # the first party has labels
        widths.append(metadata["features"])
    if not paths or len(paths) != first["partition"]["parties"]:
        raise FedatlasError(
            f"{paths[0] if paths else 'shards'}: {len(paths)} party files were given, but the "
            f"partition has {first['partition']['parties'] if first else 'at least 1'}"
        )
    starts = np.concatenate([[0], np.cumsum(widths)])
    rows = {
        name: PartyRows(_side_by_side(blocks[name]), labels[name], starts)
        for name, _ in first["groups"]
    }
    return PartySamples(rows["train"], rows.get("test"), first)


def _group(file: Any, group: int, metadata: dict[str, Any]) -> tuple[Features, np.ndarray]:
    """The features of a group of rows, and their labels, NaN where the party has none."""
    table = file.read_row_group(group)
    features = features_from_table(table, metadata["features"])
    labelled = metadata["labelled"]
    return features, to_array(table["label"]) if labelled else np.full(table.num_rows, np.nan)


def _side_by_side(blocks: list[Features]) -> Features:
    if isinstance(blocks[0], np.ndarray):
        return np.concatenate(blocks, axis=1)
    return sparse.csr_array(sparse.hstack(blocks, format="csr"))


@dataclass(frozen=True)
class OwnRows:
    """All that a party knows: its training rows, who it is, and how many take part.

    rows: one block; its labels are NaN where the party has none.
    """

    rows: PartyRows
    party: int
    parties: int
    active: int


def read_own_rows(path: Path) -> OwnRows:
    """The training rows of a party's file; FedatlasError if it is missing, damaged or no party's.

    Test rows stay in the file: nothing in the protocol needs them.
    """
    with open_parquet(path) as file:
        metadata = read_metadata(file, path, PARTY_KEYS)
        partition, names = metadata["partition"], [name for name, _ in metadata["groups"]]
        if "parties" not in partition or "train" not in names:
            raise FedatlasError(f"{path}: is no file of a party; shard again")
        features, label = _group(file, names.index("train"), metadata)
    rows = PartyRows(features, label, np.array([0, metadata["features"]]))
    return OwnRows(rows, metadata["silo"], partition["parties"], partition["active"])
