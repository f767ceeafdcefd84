"""Constants of a federated problem, as theorems need them."""

from dataclasses import dataclass
from functools import singledispatch
from math import inf, isinf, sqrt
from typing import Any

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.kernels.formulas import LinearModel
from fedatlas.arithmetic.objectives import average_smoothness, block_smoothness
from fedatlas.federations.shards import ClientSamples, TieredSamples
from fedatlas.federations.vertical.shards import Features, PartyRows, PartySamples
from fedatlas.schema.losses import Loss, Regulariser
from fedatlas.schema.objectives import LinearObjective
from fedatlas.training.solver import solve


@dataclass(frozen=True)
class Constants:
    """Constants of f = 1/N Σ_i f_i, f_i the mean over client i's samples, and the start x⁰ = 0.

    clients: N. samples: M of each client, None where they hold unequally many. smoothness: L of
    every f_ij (FedPAGE, Assumption 2.1). average_smoothness: an L of Assumption 2.2. gap: f(x⁰) −
    f*, or an upper bound of it: f* is 0 at least. distance: ‖x⁰ − x*‖ of a convex objective, None
    of others. optimum: f* of a convex one. convexity: μ of f, the weight of an l2 regulariser, None
    of others.
    """

    clients: int
    samples: int | None
    smoothness: float
    average_smoothness: float
    gap: float
    distance: float | None
    optimum: float | None
    convexity: float | None = None

    @property
    def convex(self) -> bool:
        """Whether f is convex."""
        return self.distance is not None


@dataclass(frozen=True)
class PartyConstants:
    """Constants of f = 1/n Σ_i f_i over parties with columns, from w⁰ = 0 (VFB², section 5).

    parties, samples: q and n. smoothness: L of every f_i (Assumption 1.1). block_smoothness: L_ℓ of
    each party (1.2). regulariser_smoothness: L_g of g (Assumption 2), without the weight λ that
    (P) puts before it. gradient_bound: G ≥ ‖∇_ℓ f_i(w)‖² (1.3) where f(w) ≤ f(w⁰), and without an
    l2 regulariser at all w. convexity: μ of every f_i (Assumption 4), the weight λ of an l2
    regulariser, as a single loss may be flat; None of others. gap, optimum: as of `Constants`.
    """

    parties: int
    samples: int
    smoothness: float
    block_smoothness: tuple[float, ...]
    regulariser_smoothness: float
    gradient_bound: float
    convexity: float | None
    gap: float
    optimum: float | None

    @property
    def largest_smoothness(self) -> float:
        """L_*, the largest of L, all L_ℓ and L_g."""
        return max(self.smoothness, *self.block_smoothness, self.regulariser_smoothness)


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


@singledispatch
def constants_of(data: Any, objective: LinearObjective) -> Any:
    """Computed from samples of clients, columns of parties, or silos."""
    raise TypeError(type(data))


@constants_of.register
def _of_clients(data: ClientSamples, objective: LinearObjective) -> Constants:
    sizes: np.ndarray = np.diff(data.offsets)
    equal = len(set(sizes.tolist())) == 1
    weights = None if equal else data.row_weights
    features = data.samples.features
    rows = PartyRows(features, data.samples.label, np.array([0, features.shape[1]]))
    start, smoothness = at_start(rows, objective, weights)
    distance, optimum = optimum_of(rows, objective, weights)
    return Constants(
        clients=data.clients,
        samples=int(sizes[0]) if equal else None,
        smoothness=smoothness,
        average_smoothness=average_smoothness(features, data.offsets, objective),
        gap=start - (optimum or 0.0),
        distance=distance,
        optimum=optimum,
        convexity=objective.convexity,
    )


@constants_of.register
def _of_party_samples(data: PartySamples, objective: LinearObjective) -> PartyConstants:
    return _of_parties(data.train, objective)


@constants_of.register
def _of_parties(rows: PartyRows, objective: LinearObjective) -> PartyConstants:
    start, smoothness = at_start(rows, objective)
    _, optimum = optimum_of(rows, objective)
    largest = _largest_norms(rows)
    regulariser = objective.regulariser
    return PartyConstants(
        parties=rows.parties,
        samples=len(rows),
        smoothness=smoothness,
        block_smoothness=tuple(map(objective.smoothness, largest.tolist())),
        # g is ½ ‖w‖², or half of Σ w²/(1 + w²): the paper's λ/2 is our weight of the latter.
        regulariser_smoothness=0.0 if regulariser is Regulariser.NONE else 1.0,
        gradient_bound=_gradient_bound(rows, objective, start),
        convexity=objective.convexity,
        gap=start - (optimum or 0.0),
        optimum=optimum,
    )


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


def at_start(
    rows: PartyRows, objective: LinearObjective, weights: np.ndarray | None = None
) -> tuple[float, float]:
    """f(0), and L of every f_i. weights: (n,) of rows in f, of sum 1; 1/n by default."""
    model = LinearModel(rows.features, rows.label, objective, weights)
    return model.value_and_gradient(np.zeros(model.dimension))[0], model.smoothness


def optimum_of(
    rows: PartyRows, objective: LinearObjective, weights: np.ndarray | None = None
) -> tuple[float | None, float | None]:
    """‖x*‖ and f* of a convex objective. weights: as of `at_start`."""
    if objective.convexity is None:
        return None, None
    best, found = solve(rows, objective, weights)
    return float(np.linalg.norm(best)), found.objective


def _largest_norms(rows: PartyRows) -> np.ndarray:
    """(q,) the largest ‖x_{i,ℓ}‖ of each party."""
    blocks = (rows.features[:, first:end] for first, end in _blocks(rows))
    return np.array([_norms(block).max(initial=0.0) for block in blocks])


def _norms(features: Features) -> np.ndarray:
    """(n,) of the rows."""
    return np.sqrt(np.asarray((features**2).sum(axis=1)).ravel())


def _blocks(rows: PartyRows) -> list[tuple[int, int]]:
    return list(zip(rows.starts[:-1].tolist(), rows.starts[1:].tolist(), strict=True))


def _gradient_bound(rows: PartyRows, objective: LinearObjective, start: float) -> float:
    """G of all w with f(w) ≤ start = f(0): the largest |ϑ| ‖x_{i,ℓ}‖ and ‖∇_ℓ of the regulariser‖.

    There λ/2 ‖w‖² ≤ f(0), and (z_i − y_i)² ≤ n f(0) of the square loss.
    """
    weight, regulariser = objective.regularisation_weight, objective.regulariser
    radius = sqrt(2 * start / weight) if regulariser is Regulariser.L2 else inf
    slopes = np.full(len(rows), objective.loss.steepest)
    if objective.loss is Loss.SQUARE:
        farthest = radius * _norms(rows.features) + np.abs(rows.label)
        slopes = 2 * np.minimum(farthest, sqrt(len(rows) * start))
    largest = 0.0
    for first, end in _blocks(rows):
        if regulariser is Regulariser.L2:
            pull = weight * radius
        else:
            pull = weight * regulariser.steepest * sqrt(end - first)
        of_losses = (slopes * _norms(rows.features[:, first:end])).max(initial=0.0)
        largest = max(largest, float(of_losses) + pull)
    return largest**2
