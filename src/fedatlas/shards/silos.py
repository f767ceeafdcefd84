"""Tiered shards: a slice of every sample in each silo's file, shared out to the silo's clients.

A silo's file is a shard as `fedatlas.shards.clients` describes: a row group for every client, then
the test rows. Its columns are those of the silo's slice, and its metadata speak of these alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.data.samples import Samples, from_table, to_table
from fedatlas.data.scaling import ChannelScaling
from fedatlas.errors import FedatlasError
from fedatlas.schema.partitions import AXES, TieredPartition, share_out_by_silo, silo_blocks
from fedatlas.shards.clients import (
    ClientSamples,
    client_entries,
    client_metadata,
    manifest_of,
    partition_metadata,
    read_prepared_table,
    read_shard,
    read_test_table,
    relabelled,
    require_silo_files,
    write_row_groups,
)
from fedatlas.shards.parties import column_taker

# The same in the files of all silos.
_COMMON_KEYS = ("dataset", "split", "partition", "prepared_digest", "test_digest")


@dataclass(frozen=True)
class TieredSamples:
    """The samples of all silos.

    silos: N of them, each with its slice of all samples, ordered by its own clients, and of the
        test rows, which have the same order in all silos.
    place: (N, M) int64: the row at which a silo stores a training sample; the M training samples
        are in ascending order of their ids, the same for all silos.
    """

    silos: tuple[ClientSamples, ...]
    place: np.ndarray

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the first silo."""
        return self.silos[0].metadata


def write_tiered_shards(
    prepared: Path,
    spec: TieredPartition,
    silos: Sequence[Path],
    manifest: Path,
    test: Path | None = None,
) -> None:
    """Share out a prepared file over silos and clients: a Parquet file per silo, then the manifest.

    prepared, test: files of `fedatlas.data.prepare`; `test` where the partition names a test split.
    silos: the `spec.silos` files to write, beside `manifest`.

    A silo's metadata hold its own `features` and `shape` (of one sample of its slice, views merged
    into channels), `normalisation` of its own channels, and `columns`, those of the prepared file
    that it has, in the order in which it has them.

    Every file is written whole or not at all, and the manifest last. Raises FedatlasError when an
    input is missing or damaged, or when its samples cannot be cut or shared out as asked.
    """
    require_silo_files(spec, silos, manifest)
    table, metadata = read_prepared_table(prepared)
    features = metadata["features"]
    shape = tuple(metadata.get("shape") or [features])
    blocks = silo_blocks(spec, shape)
    rows_of_silo, test_rows = share_out_by_silo(spec, table["label"].to_numpy())
    test_table = read_test_table(test, spec, manifest, prepared, metadata)
    if len(test_rows):
        test_table = table.take(test_rows)
    if spec.binary is not None:
        table = relabelled(table, spec.binary)
        test_table = test_table and relabelled(test_table, spec.binary)
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


def read_tiered_shards(paths: Sequence[Path]) -> TieredSamples:
    """Read the files of all silos, in order.

    Raises FedatlasError when a file is missing, damaged or no shard, when the files are not all
    silos of one tiered partition in order, or when they do not hold the same samples.
    """
    silos: list[ClientSamples] = []
    places = []
    for number, path in enumerate(paths):
        silo = read_shard(path)
        silos.append(silo)
        first = silos[0]
        same = all(silo.metadata.get(key) == first.metadata.get(key) for key in _COMMON_KEYS)
        tiered = silo.metadata["partition"].get("kind") == "tiered"
        if not (same and tiered) or silo.metadata["silo"] != number:
            raise FedatlasError(
                f"{path}: is not silo {number} of the tiered partition of {paths[0]}; shard again"
            )
        places.append(np.argsort(silo.samples.sample_id, kind="stable"))
        for what, agree in (
            ("training", _same_rows(silo.samples, first.samples, places[-1], places[0])),
            ("test", _same_rows(silo.test, first.test)),
        ):
            if not agree:
                raise FedatlasError(
                    f"{path}: holds other {what} samples or labels than {paths[0]}; shard again"
                )
    expected = math.prod(silos[0].metadata["partition"]["cut"].values()) if silos else "at least 1"
    if len(paths) != expected:
        raise FedatlasError(
            f"{paths[0] if paths else 'shards'}: {len(paths)} silo files were given, but the "
            f"partition has {expected}"
        )
    return TieredSamples(tuple(silos), np.stack(places))


def _of_rows(samples: Samples, rows: np.ndarray) -> Samples:
    return Samples(samples.sample_id[rows], samples.label[rows], samples.features[rows])


def _same_rows(
    one: Samples | None,
    other: Samples | None,
    order: np.ndarray | slice = slice(None),
    other_order: np.ndarray | slice = slice(None),
) -> bool:
    """Whether sample ids and labels are equal, in the given orders."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one.sample_id[order], other.sample_id[other_order]) and np.array_equal(
        one.label[order], other.label[other_order]
    )


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
