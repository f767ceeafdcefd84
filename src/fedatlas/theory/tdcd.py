"""Theorem 1 of TDCD (Das, Castiglia, Wang and Patterson 2022), and its constants."""

from dataclasses import dataclass
from math import isinf

import numpy as np
from scipy import sparse

from fedatlas.algorithms.tdcd import Tdcd
from fedatlas.arithmetic.objectives import block_smoothness
from fedatlas.evaluation.bounds import SQUARED_GRADIENT, Bound
from fedatlas.federations.shards import TieredSamples
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.objectives import LinearObjective
from fedatlas.theory.constants import at_start, constants_of, optimum_of
from fedatlas.theory.theorems import AS_PRINTED, Course, Theorem


@dataclass(frozen=True)
class TierConstants:
    """Constants of L(θ), the mean over all samples, over silos with columns, and the start θ⁰ = 0.

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
    steepest = objective.loss.steepest
    return TierConstants(
        clients=tuple(silo.clients for silo in data.silos),
        samples=len(rows),
        loss_smoothness=of_loss,
        partial_smoothness=partial,
        deviations=None
        if isinf(steepest)
        else tuple(steepest**2 * float((block**2).sum()) / len(rows) for block in blocks),
        gap=start - (optimum or 0.0),
        optimum=optimum,
    )


_NOTE = (
    "L(θ⁰) − L(θ^T) is at most L(θ⁰) − L*; σ_j² bounds the variance at all θ. The proof's sum ends "
    "at t_0 + Q − 1, but must reach t_0 + Q"
)


def theorems(method: Tdcd, constants: TierConstants, course: Course) -> list[Theorem]:
    """(15): the mean of ‖∇L‖² at the starts of R rounds, under (14).

    Clients keep their shards, so that a minibatch's samples at one of several are not drawn from
    all: (8) holds with one client in each silo only, however large the minibatch is.
    """
    q, (step,) = method.local_steps, method.step_bounds(constants)
    bound, variance = None, constants.variance(method.batch_size)
    if variance is not None:
        rate = min(step.value, step.bound) * q  # ηQ
        smoothness, partial = constants.loss_smoothness, constants.partial_smoothness
        error = rate * smoothness + 4 * (rate * partial) ** 2
        error += 8 * rate**3 * smoothness * partial**2
        bound = Bound(
            SQUARED_GRADIENT,
            "rounds",
            constant=4 * constants.gap / rate,
            floor=4 * error * variance,
        )
    return [
        Theorem(
            "Theorem 1",
            AS_PRINTED,
            constants.smoothness,
            (step,),
            "" if set(constants.clients) == {1} else "E g_kj = ∇_j L (8)",
            bound,
            course.rounds,
            _NOTE,
        )
    ]
