"""The constants of a tiered problem that TDCD's Theorem 1 is declared in."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.smoothness import block_smoothness
from fedatlas.federations.tiered.shards import TieredSamples
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.objectives import LinearObjective, Loss
from fedatlas.theory.constants import at_start, constants_of, optimum_of

#: The steepest slope of a loss over its margin; the square loss has none.
_STEEPEST = {Loss.LOGISTIC: 1.0, Loss.ROBUST: sqrt(0.5)}


@dataclass(frozen=True)
class TierConstants:
    """Of L(θ), the mean over all samples, over silos with columns, and the start θ⁰ = 0.

    clients: K_j of each silo. samples: M. loss_smoothness, partial_smoothness: L and L_max of
    Assumption 1. deviations: of each silo a bound, for all θ, of the mean over samples of
    ‖∇_j ℓ_i − ∇_j L‖², so that σ_j² of minibatches follows; None of a loss whose slope has no
    bound. gap, optimum: as of `Constants`.
    """

    clients: tuple[int, ...]
    samples: int
    loss_smoothness: float
    partial_smoothness: float
    deviations: tuple[float, ...] | None
    gap: float
    optimum: float | None

    @property
    def smoothness(self) -> float:
        """max(L, L_max)."""
        return max(self.loss_smoothness, self.partial_smoothness)

    def variance(self, batch_size: int) -> float | None:
        """Σ_j σ_j² of minibatches (9), of each client its even share of |ζ| = batch_size samples.

        As if every client drew from all samples, without replacement, which (8) assumes.
        """
        if self.deviations is None:
            return None
        left = (self.samples - batch_size) / max(self.samples - 1, 1)
        pairs = zip(self.clients, self.deviations, strict=True)
        return sum(clients * left / batch_size * deviation for clients, deviation in pairs)


@constants_of.register
def _of_silos(data: TieredSamples, objective: LinearObjective) -> TierConstants:
    """Rows by ascending sample id, columns silo by silo."""
    blocks = [
        sparse.csr_array(silo.samples.features)[place]
        for silo, place in zip(data.silos, data.place, strict=True)
    ]
    starts = np.cumsum([0, *(block.shape[1] for block in blocks)])
    features = sparse.csr_array(sparse.hstack(blocks, format="csr"))
    rows = PartyRows(features, data.silos[0].samples.label[data.place[0]], starts)
    start, optimum = at_start(rows, objective)[0], optimum_of(rows, objective)[1]
    of_loss, partial = block_smoothness(features, starts.tolist(), objective)
    steepest = _STEEPEST.get(objective.loss)
    return TierConstants(
        clients=tuple(silo.clients for silo in data.silos),
        samples=len(rows),
        loss_smoothness=of_loss,
        partial_smoothness=partial,
        deviations=None
        if steepest is None
        else tuple(steepest**2 * float((block**2).sum()) / len(rows) for block in blocks),
        gap=start - (optimum or 0.0),
        optimum=optimum,
    )
