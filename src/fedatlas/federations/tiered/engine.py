"""The arithmetic behind silos with clients: the base class of engines."""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from fedatlas.federations.engine import FederatedEngine
from fedatlas.federations.tiered.points import PerSilo, SharedMinibatch, SiloModels
from fedatlas.federations.tiered.shards import TieredSamples


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


class SiloEngine(FederatedEngine):
    """Embeddings and gradients of all clients of all silos.

    silos: N. clients: K of each silo. samples: M.
    """

    _silos: tuple[Any, ...]  # each with `batch` and `embeddings`

    def __init__(self, data: TieredSamples) -> None:
        """Keep what the rows are shared out to."""
        self.silos, self.clients = len(data.silos), data.silos[0].clients
        self.samples = len(data.place[0])

    @abstractmethod
    def start(self, seed: int) -> SiloModels:
        """The silos' models before round 0."""

    @abstractmethod
    def copies(self, array: Any) -> Any:
        """The array (d,) at each of a silo's clients, (K, d)."""

    def minibatch(self, samples: np.ndarray) -> SharedMinibatch:
        """The minibatch of these samples, (B,), numbered by ascending sample id."""
        return SharedMinibatch(len(samples), tuple(silo.batch(samples) for silo in self._silos))

    def embeddings(self, models: SiloModels, batch: SharedMinibatch) -> PerSilo:
        """(B,) of a linear model, whose margins are numbers."""
        return tuple(
            silo.embeddings(weights, own)
            for silo, weights, own in zip(self._silos, models.weights, batch.silos, strict=True)
        )

    @abstractmethod
    def partial_gradients(
        self, models: SiloModels, others: PerSilo, batch: SharedMinibatch
    ) -> tuple[PerSilo, PerSilo]:
        """Of every client, and its running statistics afterwards; see TieredProblem."""
