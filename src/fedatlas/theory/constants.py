"""The constants of a federated problem that theorems are stated in."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.linear import LinearModel
from fedatlas.errors import FedatlasError
from fedatlas.federations.client_shards import ClientSamples
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.objectives import LinearObjective, Regulariser


@dataclass(frozen=True)
class Constants:
    """Of f = 1/N Σ_i f_i over clients that hold equally many samples, and the start x⁰ = 0.

    clients: N. samples: M of each client. smoothness: L of every f_ij (FedPAGE, Assumption 2.1).
    average_smoothness: an L of Assumption 2.2. gap: f(x⁰) − f*, or an upper bound of it: f* is 0 at
    least. distance: ‖x⁰ − x*‖ of a convex objective, None of others. optimum: f* of a convex one.
    """

    clients: int
    samples: int
    smoothness: float
    average_smoothness: float
    gap: float
    distance: float | None
    optimum: float | None

    @property
    def convex(self) -> bool:
        """Whether f is convex."""
        return self.distance is not None


def constants_of(data: ClientSamples, objective: LinearObjective) -> Constants:
    """Computed from the clients' samples; FedatlasError where clients hold unequally many."""
    sizes = np.unique(np.diff(data.offsets))
    if len(sizes) > 1:
        raise FedatlasError(
            f"clients hold {sizes[0]} to {sizes[-1]} samples: FedPAGE's theorems are about clients "
            "that hold equally many"
        )
    features = data.samples.features
    model = LinearModel(features, data.samples.label, objective)
    gap = model.value_and_gradient(np.zeros(model.dimension))[0]
    distance = optimum = None
    if objective.regulariser is Regulariser.L2:
        from fedatlas.training.solver import solve

        rows = PartyRows(features, data.samples.label, np.array([0, model.dimension]))
        best, found = solve(rows, objective)
        distance, optimum = float(np.linalg.norm(best)), found.objective
        gap -= optimum
    return Constants(
        clients=data.clients,
        samples=int(sizes[0]),
        smoothness=model.smoothness,
        average_smoothness=_average_smoothness(features, data.offsets, objective),
        gap=gap,
        distance=distance,
        optimum=optimum,
    )


def _average_smoothness(
    features: np.ndarray | sparse.csr_array, offsets: np.ndarray, objective: LinearObjective
) -> float:
    """An L with 1/N Σ_i ‖∇f_i(x) − ∇f_i(y)‖² ≤ L² ‖x − y‖².

    Between x and y the gradient of client i moves by A_iᵀ D A_i (x − y)/M, where A_i (M, d) are its
    rows and |D_jj| ≤ c bounds the loss's second derivative. So the sum is at most c² vᵀ W v with
    W = 1/N Σ_i ‖A_i‖² A_iᵀ A_i/M²: L is c times the root of W's largest eigenvalue, and what the
    regulariser adds.
    """
    clients = len(offsets) - 1
    scale = np.empty(features.shape[0])
    for first, end in pairwise(offsets):
        scale[first:end] = _spectral_norm(features[first:end]) / (end - first)
    scaled = sparse.csr_array(features).multiply(scale[:, None] / np.sqrt(clients))
    of_regulariser = objective.regulariser.value * objective.regularisation_weight
    return objective.loss.value * _spectral_norm(sparse.csr_array(scaled)) + of_regulariser


def _spectral_norm(rows: np.ndarray | sparse.csr_array) -> float:
    """The largest singular value, by the smaller of the two Gram matrices."""
    tall = rows.shape[0] > rows.shape[1]
    gram = rows.T @ rows if tall else rows @ rows.T
    if not isinstance(gram, np.ndarray):
        if gram.shape[0] > 3000:  # dense, it would fill the memory
            from scipy.sparse.linalg import svds

            return float(svds(sparse.csr_array(rows), k=1, return_singular_vectors=False)[0])
        gram = gram.toarray()
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))
