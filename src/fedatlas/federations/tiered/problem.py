"""Silos by features, clients by samples: the oracle that tiered methods ask.

L(θ) = 1/M Σ_p ℓ(Σ_j h_j(θ_j; X_j^(p)); y^(p)) (TDCD eq. 2–3). Silo j holds the slices X_j of all
samples, each of its clients those of some samples. Embeddings Φ_j = h_j(θ_j; ·) are summed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.engine import FederatedEngine
from fedatlas.federations.tiered.network import (
    PerSilo,
    SharedMinibatch,
    SiloModels,
    TieredCounters,
)

if TYPE_CHECKING:  # the workflow imports algorithms when it is parsed: keep libraries out of that
    from fedatlas.federations.tiered.shards import TieredSamples


class TieredProblem(FederatedEngine):
    """The counting oracle; a subclass has the silos, which compute.

    silos: N. clients: K_j of each silo. samples: M.
    """

    _silos: tuple[Any, ...]  # each with `batch`, `embeddings` and `gradients`

    def __init__(self, data: TieredSamples) -> None:
        """Keep what the rows are shared out to."""
        self._counters = TieredCounters()
        self.silos = len(data.silos)
        self.clients = tuple(silo.clients for silo in data.silos)
        self.samples = len(data.place[0])

    @abstractmethod
    def start(self, seed: int) -> SiloModels:
        """The silos' models before round 0."""

    def minibatch(self, random: RoundRandom, size: int) -> SharedMinibatch:
        """ζ: `size` samples, uniformly without replacement, the same in all silos."""
        if size > self.samples:
            raise FedatlasError(
                f"a minibatch of {size} samples cannot be drawn from {self.samples}; lower "
                "batch_size"
            )
        return self.minibatch_of(random.sample(self.samples, size))

    def minibatch_of(self, samples: np.ndarray) -> SharedMinibatch:
        """ζ of these samples, (B,), numbered by ascending sample id."""
        return SharedMinibatch(len(samples), tuple(silo.batch(samples) for silo in self._silos))

    def copies(self, models: SiloModels) -> SiloModels:
        """The silos' models, at each of their clients."""
        weights, statistics = (
            tuple(map(self.repeated, of_silos, self.clients)) for of_silos in models
        )
        return SiloModels(weights, statistics)

    def embeddings(self, models: SiloModels, batch: SharedMinibatch) -> PerSilo:
        """Φ_j of the minibatch, (B, E), by silos' models that their clients have copies of.

        (B,) for linear models. BatchNorm normalises each client's samples by their own statistics,
        as in local steps. Running statistics stay as they are: the first step updates them.
        """
        return tuple(
            silo.embeddings(weights, own)
            for silo, weights, own in zip(self._silos, models.weights, batch.silos, strict=True)
        )

    def partial_gradients(
        self, models: SiloModels, others: PerSilo, batch: SharedMinibatch
    ) -> tuple[PerSilo, PerSilo]:
        """g_{k,j} of every client, (K_j, d_j), and its running statistics afterwards, (K_j, s_j).

        models: of every client. others: Φ_{−j}, (B, E), as it was exchanged; a client's own Φ_j is
        computed anew (TDCD eq. 4). A client without samples in the minibatch has gradient 0 and
        keeps its statistics.
        """
        self._counters.gradient_evaluations += batch.size
        self._counters.iteration += 1
        parameters = [part.shape[-1] for part in models.weights]
        largest = [int(sizes.max()) for sizes in batch.sizes]
        slowest = max(d * own for d, own in zip(parameters, largest, strict=True))
        self._counters.sequential_gradients += slowest / sum(parameters)
        found = [
            silo.gradients(*own)
            for silo, *own in zip(self._silos, *models, others, batch.silos, strict=True)
        ]
        gradients, statistics = zip(*found, strict=True)
        return gradients, statistics
