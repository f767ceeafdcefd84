"""Silos by features, clients by samples: the oracle that tiered methods ask.

L(θ) = 1/M Σ_p ℓ(Σ_j h_j(θ_j; X_j^(p)); y^(p)) (TDCD eq. 2–3). Silo j holds the slices X_j of all
samples; each of its clients holds those of some. Embeddings Φ_j = h_j(θ_j; ·) are summed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.tiered.network import TieredCounters
from fedatlas.federations.tiered.points import PerSilo, SharedMinibatch, SiloModels

if TYPE_CHECKING:  # the workflow imports algorithms when it is parsed: keep torch out of that
    from fedatlas.federations.tiered.engine import SiloEngine


class TieredProblem:
    """The counting oracle.

    silos: N. clients: K of each silo. samples: M.
    """

    def __init__(self, engine: SiloEngine, counters: TieredCounters) -> None:
        self._engine = engine
        self._counters = counters
        self.silos = engine.silos
        self.clients = engine.clients
        self.samples = engine.samples

    def minibatch(self, random: RoundRandom, size: int) -> SharedMinibatch:
        """ζ: `size` samples, uniformly without replacement, the same in all silos."""
        if size > self.samples:
            raise FedatlasError(
                f"a minibatch of {size} samples cannot be drawn from {self.samples}; lower "
                "batch_size"
            )
        return self._engine.minibatch(random.sample(self.samples, size))

    def copies(self, models: SiloModels) -> SiloModels:
        """The silos' models, at each of their clients."""
        return SiloModels(
            *(
                tuple(self._engine.copies(part) for part in of_silos)
                for of_silos in (models.weights, models.statistics)
            )
        )

    def embeddings(self, models: SiloModels, batch: SharedMinibatch) -> PerSilo:
        """Φ_j of the minibatch, (B, E), by silos' models that their clients have copies of.

        BatchNorm normalises each client's samples by their own statistics, as in its local steps;
        the running ones are left alone, as the first step does the same once more.
        """
        return self._engine.embeddings(models, batch)

    def partial_gradients(
        self, models: SiloModels, others: PerSilo, batch: SharedMinibatch
    ) -> tuple[PerSilo, PerSilo]:
        """g_{k,j} of every client, (K, d_j), and its running statistics afterwards, (K, s_j).

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
        return self._engine.partial_gradients(models, others, batch)

    def measure(self, models: SiloModels) -> dict[str, float]:
        """Every measurement, over all training and test samples; never counted."""
        return self._engine.measure(models)
