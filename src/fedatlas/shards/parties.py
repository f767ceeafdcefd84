"""Party shards: the features of each party in a Parquet file of its own.

A party's file holds its columns of all samples and nobody else's, and the labels only if the party
is active. Its row group 0 are the training rows, row group 1, if there is one, the test rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from scipy import sparse

from fedatlas.data.parquet import PREPARED_KEYS, open_parquet, read_metadata
from fedatlas.data.samples import feature_columns, features_from_table
from fedatlas.data.scaling import Scaling, scaled, scaling_of
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest
from fedatlas.schema.partitions import VerticalPartition, feature_blocks, train_and_test_rows
from fedatlas.shards.clients import (
    manifest_of,
    read_prepared_table,
    read_test_table,
    write_row_groups,
)

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
        """Number of rows."""
        return len(self.label)


@dataclass(frozen=True)
class PartySamples:
    """What all parties hold together: training rows, test rows (None without any), metadata."""

    train: PartyRows
    test: PartyRows | None
    metadata: dict[str, Any]


def write_party_shards(
    prepared: Path,
    spec: VerticalPartition,
    silos: Sequence[Path],
    manifest: Path,
    test: Path | None = None,
) -> None:
    """Share out a prepared file by features: one Parquet file per party, then the manifest.

    prepared, test: files of `fedatlas.data.prepare`; `test` where the partition names a test split.
    silos: the q party files to write, beside `manifest`.

    Every file is written whole or not at all, and the manifest last. Raises FedatlasError when an
    input is missing or damaged, when its samples cannot be shared out as asked, or when sparse rows
    are to be standardised.
    """
    if len(silos) != spec.parties or any(silo.parent != manifest.parent for silo in silos):
        raise FedatlasError(
            f"{manifest}: {spec.parties} parties are as many files in the manifest's folder, but "
            f"these were given: {', '.join(map(str, silos)) or 'none'}"
        )
    table, metadata = read_prepared_table(prepared)
    train_rows, test_rows = train_and_test_rows(spec, table.num_rows)
    groups = {"train": table.take(train_rows)}
    test_table = read_test_table(test, spec, manifest, prepared, metadata)
    if test_table is not None:
        groups["test"] = test_table
    elif len(test_rows):
        groups["test"] = table.take(test_rows)
    columns = {
        name: column_taker(features_from_table(part, metadata["features"]))
        for name, part in groups.items()
    }
    numeric = metadata.get("numeric_columns")
    # Not what the prepared file says of all columns and of labels: every party knows its own only.
    kept = ("dataset", "split", "task", "layout", "features")
    shard_metadata = {
        **{key: metadata[key] for key in kept if key in metadata},
        "rows": sum(part.num_rows for part in groups.values()),
        "partition": spec.model_dump(mode="json"),
        "prepared_digest": file_digest(prepared),
        "test_digest": file_digest(test) if test else None,
        "groups": [[name, part.num_rows] for name, part in groups.items()],
    }
    with manifest_of(manifest, shard_metadata) as describe:
        for number, block in enumerate(feature_blocks(spec, metadata["features"])):
            parts = {name: take(block) for name, take in columns.items()}
            scaling = None
            if spec.standardise:
                scales = np.ones(len(block), bool) if numeric is None else np.isin(block, numeric)
                scaling = _scaling(parts["train"], scales, prepared)
                parts = {name: scaled(part, scaling) for name, part in parts.items()}
            labelled = number < spec.active
            names = metadata.get("feature_names")
            description = {
                "silo": number,
                "columns": block.tolist(),
                "features": len(block),
                "feature_names": names and [names[column] for column in block],
                "labelled": labelled,
                "scaling": scaling,
            }
            write_row_groups(
                silos[number],
                (_table(groups[name], part, labelled) for name, part in parts.items()),
                {**shard_metadata, **description},
            )
            describe(silos[number], labelled=labelled, features=len(block))


def read_party_shards(paths: Sequence[Path]) -> PartySamples:
    """Read the files of all parties, in order, and set their blocks side by side.

    Raises FedatlasError when a file is missing, damaged or no party's, when the files are not all
    parties of one partition in order, or when they do not hold the same samples.
    """
    blocks: dict[str, list[Features]] = {"train": [], "test": []}
    labels: dict[str, np.ndarray] = {}
    ids: dict[str, np.ndarray] = {}
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
            if ("label" in file.schema_arrow.names) != metadata["labelled"]:
                raise FedatlasError(
                    f"{path}: must{'' if metadata['labelled'] else ' not'} hold labels; shard again"
                )
            if file.num_row_groups != len(metadata["groups"]):
                raise FedatlasError(
                    f"{path}: holds {file.num_row_groups} row groups, its metadata name "
                    f"{len(metadata['groups'])}; shard it again"
                )
            for group, (name, rows) in enumerate(metadata["groups"]):
                table = file.read_row_group(group)
                if table.num_rows != rows:
                    raise FedatlasError(
                        f"{path}: row group {group} holds {table.num_rows} {name} rows, its "
                        f"metadata say {rows}; shard it again"
                    )
                sample_id = table["sample_id"].to_numpy()
                if not np.array_equal(ids.setdefault(name, sample_id), sample_id):
                    raise FedatlasError(
                        f"{path}: holds other {name} samples than {paths[0]}; shard again"
                    )
                blocks[name].append(features_from_table(table, metadata["features"]))
                if metadata["labelled"]:
                    labels.setdefault(name, table["label"].to_numpy())
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


def column_taker(features: Features) -> Callable[[np.ndarray], Features]:
    """A function that takes columns of the features."""
    if isinstance(features, np.ndarray):
        return lambda block: features[:, block]
    by_column = sparse.csc_array(features)  # in which columns are cheap to take

    def take(block: np.ndarray) -> sparse.csr_array:
        rows = sparse.csr_array(by_column[:, block])
        rows.sort_indices()
        return rows

    return take


def _scaling(features: Features, numeric: np.ndarray, prepared: Path) -> Scaling:
    """Mean and scale per column; indicators keep 0 and 1."""
    if not isinstance(features, np.ndarray):
        raise FedatlasError(
            f"{prepared}: the partition's 'standardise' would make sparse rows dense; remove it"
        )
    columns = scaling_of(features)
    return {
        "mean": np.where(numeric, columns["mean"], 0.0).tolist(),
        "scale": np.where(numeric, columns["scale"], 1.0).tolist(),
    }


def _table(group: pa.Table, features: Features, labelled: bool) -> pa.Table:
    kept = ["sample_id", "label"] if labelled else ["sample_id"]
    columns = {name: group[name] for name in kept}
    return pa.table({**columns, **feature_columns(features)})


def _side_by_side(blocks: list[Features]) -> Features:
    if isinstance(blocks[0], np.ndarray):
        return np.concatenate(blocks, axis=1)
    return sparse.csr_array(sparse.hstack(blocks, format="csr"))
