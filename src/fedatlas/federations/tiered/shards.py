"""Reading the shards of a tiered partition's silos."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedatlas.federations.client_shards import ClientSamples, read_shard


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
    """Where a silo stores the samples of a minibatch.

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
