"""How fast the gradients of clients can change on average."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import sparse

from fedatlas.schema.objectives import LinearObjective


def average_smoothness(
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


def block_smoothness(
    features: np.ndarray | sparse.csr_array, starts: Sequence[int], objective: LinearObjective
) -> tuple[float, float]:
    """L and L_max of features cut into blocks of columns (TDCD, Assumption 1 and equation 10).

    L is that of the whole gradient: c ‖A‖²/n, where A (n, d) are all rows and c bounds the loss's
    second derivative. L_max is that of the partial gradient of any block and any samples, with
    respect to all coordinates: c times the largest ‖a_ij‖ ‖a_i‖. Both with what the regulariser
    adds. starts: (blocks + 1,) where blocks begin.
    """
    squares = features**2
    whole = np.asarray(squares.sum(axis=1)).ravel()
    largest = max(
        float(np.sqrt(np.asarray(squares[:, first:end].sum(axis=1)).ravel() * whole).max(initial=0))
        for first, end in pairwise(starts)
    )
    of_regulariser = objective.regulariser.value * objective.regularisation_weight
    curvature = objective.loss.value
    of_mean = curvature * _spectral_norm(features) ** 2 / max(features.shape[0], 1)
    return of_mean + of_regulariser, curvature * largest + of_regulariser


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
