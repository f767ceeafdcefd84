"""Tiered shards: a slice of every sample in each silo's file, shared out to the silo's clients.

A silo's file is a shard as `fedatlas.shards.horizontal` describes: a row group for every client,
then the test rows. Its columns are those of the silo's slice, and its metadata speak of these
alone: `features` and `shape` (of one sample of its slice, views merged into channels),
`normalisation` of its own channels, and `columns`, those of the prepared file that it has, in the
order in which it has them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.scaling import ChannelScaling
from fedatlas.data.tables import column_taker, from_table, to_array, to_table
from fedatlas.schema.partitions import AXES, TieredPartition
from fedatlas.shards.assignment import share_out_by_silo, silo_blocks
from fedatlas.shards.horizontal import labelled, silo_of
from fedatlas.shards.writing import Silo

# Not what the prepared file says of all columns: a silo knows its own only.
_KEPT = ("dataset", "split", "task", "classes", "layout", "labels", "raw")


def cut(
    spec: TieredPartition, table: pa.Table, test: pa.Table | None, metadata: dict[str, Any]
) -> Iterator[Silo]:
    """The silos of a tiered partition; see `fedatlas.shards.writing`."""
    features = metadata["features"]
    own_features = features - spec.intercept
    shape = tuple(metadata.get("shape") or [own_features])
    blocks = silo_blocks(spec, shape)
    rows_of_silo, test_rows = share_out_by_silo(spec, to_array(table["label"]))
    table, test = labelled(table, test, test_rows, spec.binary)
    parts = [from_table(part, features) for part in (table, test) if part]
    takers = [column_taker(part.features) for part in parts]
    common = {key: metadata[key] for key in _KEPT if key in metadata}
    places = np.arange(own_features).reshape(shape)
    added = [np.arange(own_features, features)]  # to the first silo

    def silo(block: tuple[slice, ...], rows_of_client: list[np.ndarray]) -> Silo:
        columns = np.concatenate([places[block].ravel(), *added])
        own_shape = (len(columns),) if spec.intercept else _as_images(places[block].shape)
        added.clear()
        own, *held_out = (
            to_table(Samples(part.sample_id, part.label, take(columns)), own_shape)
            for part, take in zip(parts, takers, strict=True)
        )
        entry = {"features": len(columns), "shape": own_shape}
        normalisation = _normalisation(metadata.get("normalisation"), shape, block)
        described = {"columns": columns.tolist(), "normalisation": normalisation}
        of_clients = silo_of(
            own, held_out[0] if held_out else None, rows_of_client, common | entry | described
        )
        return of_clients._replace(entry=of_clients.entry | entry)

    return (silo(*pair) for pair in zip(blocks, rows_of_silo, strict=True))


def _as_images(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape as networks take it: views merged into channels."""
    return (shape[0] * shape[1], *shape[2:]) if len(shape) == 4 else shape


def _normalisation(
    whole: ChannelScaling | None, shape: tuple[int, ...], block: tuple[slice, ...]
) -> ChannelScaling | None:
    """Of the channels of a silo's slice, as merged; `whole` is that of all channels."""
    if whole is None:
        return None
    axes = AXES[len(shape)]
    channels = block[axes.index("channels")]
    views = len(range(shape[0])[block[0]]) if "views" in axes else 1
    return {key: values[channels] * views for key, values in whole.items()}
