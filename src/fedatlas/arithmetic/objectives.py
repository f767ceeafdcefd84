"""Closed forms of objectives: qualities of predictions, constants, functions with noise.

The functions are those of DP-GT's Remark 4 (Chen, Wang, Zhang), affine in the noise ξ. Their
constants are computed here, since those printed there are not all right (papers.yaml, DP-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.losses import MarginLoss, OwnLinearLoss
from fedatlas.schema.objectives import LinearObjective, PolyakObjective

if TYPE_CHECKING:  # the workflow imports methods when it is parsed: keep libraries out of that
    from scipy import sparse


_LABELS = {"signs": "±1", "counts": "0, 1, 2, …"}


def has_two_classes(
    objective: LinearObjective, metadata: dict[str, Any], train: Any, test: Any | None
) -> bool:
    """Whether all labels are ±1, without which accuracy has no meaning.

    train, test: rows with features and label. FedatlasError if samples are images, or if the loss
    needs labels ±1, or counts, and there are others.
    """
    dataset = metadata.get("dataset")
    if train.features.dtype == np.uint8:
        raise FedatlasError(
            f"objective '{objective.name}': data set '{dataset}' holds images, which linear models "
            "here do not take"
        )
    every = train.label if test is None else np.concatenate([train.label, test.label])
    others = every[~np.isin(every, (-1.0, 1.0))]
    needed, unfit = objective.loss.labels, others[:0]
    if needed == "signs":
        unfit = others
    elif needed == "counts":
        unfit = every[(every < 0) | (every % 1 != 0)]
    if len(unfit):
        raise FedatlasError(
            f"objective '{objective.name}' needs labels {_LABELS[needed]}, but data set "
            f"'{dataset}' has others, such as {unfit[0]:g}"
        )
    return not len(others)


def quality(
    rows: str, margins: np.ndarray, label: np.ndarray, classes: bool, loss: MarginLoss
) -> dict[str, float]:
    """Accuracy where labels are ±1 (`classes`), otherwise the root mean square error.

    rows: "train" or "test", as measurements are named; margins, label: (n,).
    """
    if classes:
        return {f"{rows}_accuracy": float(((margins > 0) == (label > 0)).mean())}
    if isinstance(loss, OwnLinearLoss):
        margins = loss.predictions(margins)
    return {f"{rows}_rmse": sqrt(((margins - label) ** 2).mean())}


# BLAS, which numpy's `@` and norm take, adds in an order that depends on the processor. Traces of
# linear models do not: here, as in compiled loops, the order is the same on all.


def products(features: np.ndarray | sparse.csr_array, x: np.ndarray) -> np.ndarray:
    """a·x of rows a, (n,)."""
    if isinstance(features, np.ndarray):
        found: np.ndarray = np.einsum("ij,j->i", features, x)
        return found
    return features @ x


def norm(x: np.ndarray) -> float:
    """‖x‖ of (d,)."""
    return sqrt((x * x).sum())


def average_smoothness(
    features: np.ndarray | sparse.csr_array, offsets: np.ndarray, objective: LinearObjective
) -> float:
    """An L with 1/N Σ_i ‖∇f_i(x) − ∇f_i(y)‖² ≤ L² ‖x − y‖².

    Between x and y the gradient of client i moves by A_iᵀ D A_i (x − y)/M, where A_i (M, d) are its
    rows and |D_jj| ≤ c bounds the loss's second derivative. So the sum is at most c² vᵀ W v with
    W = 1/N Σ_i ‖A_i‖² A_iᵀ A_i/M²: L is c times the root of W's largest eigenvalue, and what the
    regulariser adds.
    """
    from scipy import sparse

    clients = len(offsets) - 1
    scale = np.empty(features.shape[0])
    for first, end in pairwise(offsets):
        scale[first:end] = _spectral_norm(features[first:end]) / (end - first)
    scaled = sparse.csr_array(features).multiply(scale[:, None] / np.sqrt(clients))
    of_regulariser = objective.regulariser.curvature * objective.regularisation_weight
    return objective.loss.curvature * _spectral_norm(sparse.csr_array(scaled)) + of_regulariser


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
    of_regulariser = objective.regulariser.curvature * objective.regularisation_weight
    curvature = objective.loss.curvature
    of_mean = curvature * _spectral_norm(features) ** 2 / max(features.shape[0], 1)
    return of_mean + of_regulariser, curvature * largest + of_regulariser


def mean_smoothness(
    features: np.ndarray | sparse.csr_array,
    objective: LinearObjective,
    weights: np.ndarray | None = None,
) -> float:
    """An L of ∇f; weights: (n,) of rows in f, of sum 1; 1/n by default."""
    from scipy import sparse

    n = features.shape[0]
    shares = np.full(n, 1 / max(n, 1)) if weights is None else weights
    scaled = sparse.csr_array(sparse.csr_array(features).multiply(np.sqrt(shares)[:, None]))
    of_regulariser = objective.regulariser.curvature * objective.regularisation_weight
    return objective.loss.curvature * _spectral_norm(scaled) ** 2 + of_regulariser


def _spectral_norm(rows: np.ndarray | sparse.csr_array) -> float:
    """The largest singular value, by the smaller of the two Gram matrices."""
    tall = rows.shape[0] > rows.shape[1]
    gram = rows.T @ rows if tall else rows @ rows.T
    if not isinstance(gram, np.ndarray):
        if gram.shape[0] > 3000:  # dense, it would fill the memory
            from scipy import sparse

            return float(
                sparse.linalg.svds(sparse.csr_array(rows), k=1, return_singular_vectors=False)[0]
            )
        gram = gram.toarray()
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))


#: The largest |sin 2x − 2 sin x|, at x = 2π/3.
_STEEPEST_SINE = 1.5 * sqrt(3)
#: Beyond it F′²/(2F) of x² + 3 sin² x is above 1: F ≤ x² + 3 and |F′| ≥ 2|x| − 3.
_FAR = 20.0


def polyak_values(objective: PolyakObjective, points: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """(k,) ℓ at points (k, d) with the noise ξ (k,); with the mean of samples, their mean."""
    if objective.name == "sine_square":
        x = points[:, 0]
        return np.asarray(x**2 + (3 + noise) * np.sin(x) ** 2 + 2 * noise * np.cos(x))
    norms = np.linalg.norm(points, axis=1)
    squares = ((points - 1) ** 2 * np.array(objective.curvatures)).sum(axis=1)
    return np.asarray(squares / 2 + noise * norms / (1 + norms))


def polyak_gradients(
    objective: PolyakObjective, points: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """(k, d) ∇ℓ; of ‖x‖ at 0, where it has none, the subgradient 0."""
    column = noise[:, None]
    if objective.name == "sine_square":
        return 2 * points + (3 + column) * np.sin(2 * points) - 2 * column * np.sin(points)
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    direction = points / np.where(norms == 0, 1.0, norms)
    own = (points - 1) * np.array(objective.curvatures)
    return np.asarray(own + column * direction / (1 + norms) ** 2)


def polyak_smoothness(objective: PolyakObjective, noise: float) -> float:
    """The least L of the gradient where ξ has this mean; infinite for a kink at 0."""
    if objective.name == "noisy_quadratic":
        return max(objective.curvatures) if abs(noise) < 1e-9 else float("inf")
    # ℓ″ = 2 + 2(3 + ξ)(2c² − 1) − 2ξc with c = cos x: extreme at an end or at the vertex.
    c = np.clip([-1.0, 1.0, noise / (4 * (3 + noise)) if noise != -3 else 0.0], -1, 1)
    return float(np.abs(2 + 2 * (3 + noise) * (2 * c**2 - 1) - 2 * noise * c).max())


def polyak_constant(objective: PolyakObjective) -> float:
    """The largest μ with 2μ(F − F*) ≤ ‖∇F‖² where ξ has the mean 0; by dense sampling of a sine."""
    if objective.name == "noisy_quadratic":
        return min(objective.curvatures)
    x = np.linspace(1e-3, _FAR, 1 << 20)[:, None]  # F is even, and the ratio is 8 at 0
    none = np.zeros(len(x))
    ratios = polyak_gradients(objective, x, none)[:, 0] ** 2 / (
        2 * polyak_values(objective, x, none)
    )
    # Between samples the ratio may be lower, by less than this share.
    return float(ratios.min()) * (1 - 1e-6)


def largest_polyak_deviation(objective: PolyakObjective) -> float:
    """The largest ‖∂∇ℓ/∂ξ‖ over all x: σ_g is the deviation of ξ times it."""
    return _STEEPEST_SINE if objective.name == "sine_square" else 1.0
