"""Party shards: the features of each party in a Parquet file of its own.

A party's file holds its columns of all samples and nobody else's, and the labels only if the party
is active. Its row group 0 are the training rows, row group 1, if there is one, the test rows.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fedatlas.data.scaling import (
    check_range,
    constant_columns,
    scaled,
    scaling_of,
    warn_of_constant,
)
from fedatlas.data.tables import column_taker, feature_columns, features_from_table, to_column
from fedatlas.errors import FedatlasError
from fedatlas.schema.partitions import VerticalPartition
from fedatlas.shards.assignment import feature_blocks, train_and_test_rows
from fedatlas.shards.writing import Silo

# Not what the prepared file says of all columns and of labels: every party knows its own only.
_KEPT = ("dataset", "split", "task", "layout")


def cut(
    spec: VerticalPartition, table: pa.Table, test: pa.Table | None, metadata: dict[str, Any]
) -> Iterator[Silo]:
    """The parties of a vertical partition; see `fedatlas.shards.writing`."""
    if spec.standardise and metadata["layout"] == "sparse":
        raise FedatlasError("the partition's 'standardise' would make sparse rows dense; remove it")
    train_rows, test_rows = train_and_test_rows(spec, table.num_rows)
    if len(test_rows):
        test = table.take(to_column(test_rows))
    groups = [table.take(to_column(train_rows)), *([test] if test else [])]
    features = metadata["features"]
    takers = [column_taker(features_from_table(group, features)) for group in groups]
    sizes = [[name, group.num_rows] for name, group in zip(("train", "test"), groups, strict=False)]
    common = {key: metadata[key] for key in _KEPT if key in metadata}
    common |= {"rows": sum(size for _, size in sizes), "groups": sizes}
    names, numeric = metadata.get("feature_names"), metadata.get("numeric_columns")
    blocks = feature_blocks(spec, features)

    def party(number: int, block: np.ndarray) -> Silo:
        columns = block.tolist()
        own_names = names and [names[column] for column in columns]
        parts = [take(block) for take in takers]
        scaling = None
        if spec.standardise:
            for part in parts:
                check_range(part, own_names or columns, common["dataset"])
            scaling = scaling_of(parts[0])
            if numeric is not None:  # indicators stay as they are
                scales = np.isin(block, numeric)
                scaling["mean"] = np.where(scales, scaling["mean"], 0.0).tolist()
                scaling["scale"] = np.where(scales, scaling["scale"], 1.0).tolist()
            parts = [scaled(part, scaling) for part in parts]
        constant = constant_columns(scaling, own_names or columns)
        warn_of_constant(constant, f"party {number}")
        entry = {"features": len(block), "labelled": number < spec.active}
        described = {"columns": columns, "feature_names": own_names, "scaling": scaling}
        kept = ["sample_id", "label"] if entry["labelled"] else ["sample_id"]
        tables = (
            pa.table({**{name: group[name] for name in kept}, **feature_columns(part)})
            for group, part in zip(groups, parts, strict=True)
        )
        groups_of_rows = ((own, own.num_rows) for own in tables)
        told = entry | ({"constant_columns": constant} if spec.standardise else {})
        return Silo(groups_of_rows, common | entry | described, told)

    return (party(number, block) for number, block in enumerate(blocks))
