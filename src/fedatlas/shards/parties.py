"""Party shards: the features of each party in a Parquet file of its own.

A party's file holds its columns of all samples and nobody else's, and the labels only if the party
is active. Its row group 0 are the training rows, row group 1, if there is one, the test rows.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from scipy import sparse

from fedatlas.data.scaling import Scaling, scaled, scaling_of
from fedatlas.data.tables import feature_columns, features_from_table
from fedatlas.errors import FedatlasError
from fedatlas.schema.partitions import VerticalPartition
from fedatlas.shards.assignment import feature_blocks, train_and_test_rows
from fedatlas.shards.files import partition_metadata, read_sources, write_row_groups
from fedatlas.shards.manifests import manifest_of

Features: TypeAlias = np.ndarray | sparse.csr_array


def write_party_shards(
    prepared: Path,
    spec: VerticalPartition,
    silos: Sequence[Path],
    manifest: Path,
    test: Path | None = None,
) -> None:
    """Share out a prepared file by features: one Parquet file per party, then the manifest.

    Arguments and errors are those of `fedatlas.shards.clients.write_shards`. FedatlasError also
    when sparse rows are to be standardised.
    """
    table, test_table, metadata = read_sources(prepared, test, spec, silos, manifest)
    train_rows, test_rows = train_and_test_rows(spec, table.num_rows)
    groups = {"train": table.take(train_rows)}
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
        **partition_metadata(spec, prepared, test),
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
