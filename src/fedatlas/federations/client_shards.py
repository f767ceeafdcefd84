"""Reading the shards of a silo: the samples of its clients, and the rows kept for testing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.tables import PREPARED_KEYS, from_table, open_parquet, read_metadata, read_rows

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
    """

    samples: Samples
    offsets: np.ndarray
    metadata: dict[str, Any]
    test: Samples | None = None

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.offsets) - 1

    @property
    def row_weights(self) -> np.ndarray:
        """(n,) weights of rows in a mean over clients of means over their samples."""
        sizes = np.diff(self.offsets)
        return np.repeat(1.0 / (self.clients * np.maximum(sizes, 1)), sizes)


def client_sizes(path: Path) -> np.ndarray:
    """(clients,) how many samples each client of a silo holds, without reading them."""
    with open_parquet(path) as file:
        metadata = read_metadata(file, path, SHARD_KEYS)
    return np.asarray(metadata["client_samples"], dtype=np.int64)


def fewest_samples(files: Iterable[Sequence[Path]]) -> int:
    """How many samples the client holds that has fewest, in any trial's only file."""
    return min(int(client_sizes(file).min()) for file in {one for (one,) in files})


def read_shard(path: Path) -> ClientSamples:
    """Read the samples of all clients of a silo, and the test rows.

    Raises FedatlasError when the file is missing, truncated or damaged, or is no shard.
    """
    with open_parquet(path) as file:
        metadata = read_metadata(file, path, SHARD_KEYS)
        table = read_rows(file)
        offsets = np.concatenate([[0], np.cumsum(metadata["client_samples"], dtype=np.int64)])
        held, kept = table.slice(0, offsets[-1]), table.slice(offsets[-1])
        return ClientSamples(
            from_table(held, metadata["features"]),
            offsets,
            metadata,
            from_table(kept, metadata["features"]) if kept.num_rows else None,
        )
