"""Tiered shards: a slice of every sample in each silo's file, shared out to the silo's clients.

A silo's file is a shard as `fedatlas.shards.clients` describes: a row group for every client, then
the test rows. Its columns are those of the silo's slice, and its metadata speak of these alone.
"""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.scaling import ChannelScaling
from fedatlas.data.tables import from_table, to_table
from fedatlas.errors import FedatlasError
from fedatlas.schema.partitions import AXES, TieredPartition
from fedatlas.shards.assignment import share_out_by_silo, silo_blocks
from fedatlas.shards.clients import client_entries, client_metadata
from fedatlas.shards.files import (
    labelled,
    partition_metadata,
    read_sources,
    write_row_groups,
)
from fedatlas.shards.manifests import manifest_of
from fedatlas.shards.parties import column_taker


def write_tiered_shards(
    prepared: Path,
    spec: TieredPartition,
    silos: Sequence[Path],
    manifest: Path,
    test: Path | None = None,
) -> None:
    """Share out a prepared file over silos and clients: a Parquet file per silo, then the manifest.

    Arguments and errors are those of `fedatlas.shards.clients.write_shards`.

    A silo's metadata hold its own `features` and `shape` (of one sample of its slice, views merged
    into channels), `normalisation` of its own channels, and `columns`, those of the prepared file
    that it has, in the order in which it has them.
    """
    table, test_table, metadata = read_sources(prepared, test, spec, silos, manifest)
    features = metadata["features"]
    shape = tuple(metadata.get("shape") or [features])
    blocks = silo_blocks(spec, shape)
    rows_of_silo, test_rows = share_out_by_silo(spec, table["label"].to_numpy())
    table, test_table = labelled(table, test_table, test_rows, spec.binary)
    parts = [from_table(part, features) for part in (table, test_table) if part]
    takers = [column_taker(part.features) for part in parts]
    # Not what the prepared file says of all columns: a silo knows its own only.
    kept = ("dataset", "split", "task", "classes", "layout", "labels", "raw")
    common = {
        **{key: metadata[key] for key in kept if key in metadata},
        **partition_metadata(spec, prepared, test),
    }
    places = np.arange(features).reshape(shape)
    with manifest_of(manifest, {**common, "features": features}) as describe:
        for number, (silo, block) in enumerate(zip(silos, blocks, strict=True)):
            columns = places[block].ravel()
            own_shape = _as_images(places[block].shape)
            own, *held_out = (
                Samples(part.sample_id, part.label, take(columns))
                for part, take in zip(parts, takers, strict=True)
            )
            clients = rows_of_silo[number]
            groups = chain((_of_rows(own, rows) for rows in clients), held_out)
            description = {
                **common,
                **client_metadata(clients, own.label, sum(map(len, held_out))),
                "silo": number,
                "features": len(columns),
                "shape": own_shape,
                "columns": columns.tolist(),
                "normalisation": _normalisation(
                    metadata.get("normalisation"), shape, block, prepared
                ),
            }
            write_row_groups(silo, (to_table(group, own_shape) for group in groups), description)
            describe(
                silo,
                features=len(columns),
                shape=own_shape,
                clients=client_entries(clients, own.sample_id),
                test_samples=description["test_samples"],
            )


def _of_rows(samples: Samples, rows: np.ndarray) -> Samples:
    return Samples(samples.sample_id[rows], samples.label[rows], samples.features[rows])


def _as_images(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape as networks take it: views merged into channels."""
    return (shape[0] * shape[1], *shape[2:]) if len(shape) == 4 else shape


def _normalisation(
    whole: ChannelScaling | None,
    shape: tuple[int, ...],
    block: tuple[slice, ...],
    prepared: Path,
) -> ChannelScaling | None:
    """Of the channels of a silo's slice, as merged; `whole` is that of all channels."""
    if whole is None:
        return None
    axes = AXES[len(shape)]
    if "channels" not in axes or len(whole["mean"]) != shape[axes.index("channels")]:
        raise FedatlasError(
            f"{prepared}: its normalisation is of {len(whole['mean'])} channels, which samples of "
            f"shape {shape} do not have; prepare it again"
        )
    channels = block[axes.index("channels")]
    views = len(range(shape[0])[block[0]]) if "views" in axes else 1
    return {key: values[channels] * views for key, values in whole.items()}
