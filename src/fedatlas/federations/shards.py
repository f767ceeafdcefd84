"""Reading shards, once their manifest has vouched for them.

A silo's file holds the samples of its clients, and the rows kept for testing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.tables import PREPARED_KEYS, from_table, open_parquet, read_metadata, read_rows
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest
from fedatlas.schema.models import read_json, validated
from fedatlas.schema.objectives import ClientWeights
from fedatlas.schema.partitions import Partition

SHARD_KEYS = (
    *PREPARED_KEYS,
    "partition",
    "silo",
    "client_samples",
    "test_samples",
    "positive_rate",
    "prepared_digest",
)


@dataclass(frozen=True)
class ClientSamples:
    """All samples of a silo, ordered by client.

    samples: client i holds rows offsets[i] to offsets[i + 1], in their original order.
    offsets: (clients + 1,) int64, from 0.
    metadata: what the shard says of itself: data set, split, features, partition and digest of
        the prepared file, and `positive_rate`, the share of clients' rows labelled +1 (None where
        labels are not ±1).
    test: rows that no client holds, None without any.
    validation: rows that nobody trains on, None without any. validation_offsets: client i has the
        rows validation_offsets[i] to validation_offsets[i + 1]; [0, n] of rows that no client has.
    """

    samples: Samples
    offsets: np.ndarray
    metadata: dict[str, Any]
    test: Samples | None = None
    validation: Samples | None = None
    validation_offsets: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.offsets) - 1

    @property
    def row_weights(self) -> np.ndarray:
        """(n,) weights of rows in a mean over clients of means over their samples."""
        return row_weights(np.diff(self.offsets))


def client_shares(sizes: np.ndarray, weights: ClientWeights) -> np.ndarray:
    """p_i of clients with so many samples, (N,), of sum 1."""
    if weights == "equal":
        return np.full(len(sizes), 1 / len(sizes))
    declared = sizes.astype(float) if weights == "size" else np.array(weights)
    return declared / declared.sum()


def row_weights(sizes: np.ndarray, weights: ClientWeights = "equal") -> np.ndarray:
    """(n,) weights of rows, client by client, in Σ_i p_i times the mean over i's samples."""
    if weights == "equal":
        return np.repeat(1.0 / (len(sizes) * np.maximum(sizes, 1)), sizes)
    return np.repeat(client_shares(sizes, weights) / np.maximum(sizes, 1), sizes)


def client_sizes(path: Path) -> np.ndarray:
    """(clients,) how many samples each client of a silo holds, without reading them."""
    with open_parquet(path) as file:
        metadata = read_metadata(file, path, SHARD_KEYS)
    return np.asarray(metadata["client_samples"], dtype=np.int64)


def read_shard(path: Path) -> ClientSamples:
    """Read the samples of all clients of a silo, and the test rows.

    Raises FedatlasError when the file is missing, truncated or damaged, or is no shard.
    """
    with open_parquet(path) as file:
        metadata = read_metadata(file, path, SHARD_KEYS)
        table = read_rows(file)
        offsets = np.concatenate([[0], np.cumsum(metadata["client_samples"], dtype=np.int64)])
        sizes = metadata.get("validation_samples", [])  # by those who have them

        def rows(start: int, count: int) -> Samples | None:
            return from_table(table.slice(start, count), metadata["features"]) if count else None

        held, tested = int(offsets[-1]), metadata["test_samples"]
        return ClientSamples(
            from_table(table.slice(0, held), metadata["features"]),
            offsets,
            metadata,
            rows(held, tested),
            rows(held + tested, sum(sizes)),
            np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        )


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


def read_tiered_shards(paths: Sequence[Path]) -> TieredSamples:
    """Read the files of all silos, in order, for which their manifest has vouched."""
    silos = tuple(read_shard(path) for path in paths)
    places = [np.argsort(silo.samples.sample_id, kind="stable") for silo in silos]
    return TieredSamples(silos, np.stack(places))


class RowsByClient(NamedTuple):
    """The places in a silo of the samples of a minibatch.

    rows: (B,) client by client. place: (B,) of each in ζ. bounds: (K + 1,) where clients' begin.
    sizes: (K,) |ζ_k|.
    """

    rows: np.ndarray
    place: np.ndarray
    bounds: np.ndarray
    sizes: np.ndarray


def rows_by_client(stored: np.ndarray, offsets: np.ndarray, samples: np.ndarray) -> RowsByClient:
    """The rows of these samples, (B,), numbered by ascending sample id.

    stored: (M,) the row of every sample. offsets: (K + 1,) where the rows of clients begin.
    """
    rows = stored[samples]
    place = np.argsort(rows)  # rows are stored client by client
    bounds = np.searchsorted(rows[place], offsets)
    return RowsByClient(rows[place], place, bounds, np.diff(bounds))


def verify_manifest(
    files: Sequence[Path], dataset: str, split: str, partition: Partition
) -> list[str]:
    """The digests of a partition's shard files, which must be those that its manifest names.

    files: all of the partition, in order. FedatlasError names the file that is missing, damaged, or
    belongs to another data set, split or partition. A Parquet file's footer has no
    checksum: only these digests find damage to it.
    """
    folder = files[0].parent
    remedy = f"Move the folder {folder} away and run again."
    manifest = folder / "manifest.json"
    if not manifest.exists():
        raise FedatlasError(
            f"{manifest}: no such file, so that nothing vouches for the shards. {remedy}"
        )
    content = read_json(manifest)
    try:
        described = validated(cast(Any, Partition), content["partition"], "partition")
        found = f"{content['dataset']}/{content['split']}/{described.slug}"
        listed = {entry["file"]: entry["digest"] for entry in content["silos"]}
    except (KeyError, TypeError, FedatlasError):
        raise FedatlasError(f"{manifest}: is damaged or no manifest of shards. {remedy}") from None
    expected = f"{dataset}/{split}/{partition.slug}"
    if found != expected:
        raise FedatlasError(f"{manifest}: describes {found}, but {expected} is needed. {remedy}")
    digests = []
    for file in files:
        if not file.exists():
            raise FedatlasError(f"{file}: no such file. {remedy}")
        digests.append(file_digest(file))
        if listed.get(file.name) != digests[-1]:
            raise FedatlasError(
                f"{file}: is damaged or was replaced: it is not the file that manifest.json "
                f"describes. {remedy}"
            )
    return digests
