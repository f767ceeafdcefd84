"""Constants of AUC maximisation with a linear scorer, as theorems need them."""

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import AucObjective


@dataclass(frozen=True)
class MinMaxConstants:
    """Constants of F = 1/N Σ_i F_i over workers with equally many samples; the start is θ = w = 0.

    workers: N. smoothness: L_f, at least 1 as in the paper's appendix; expectations in Assumption 2
    are read as root mean squares, which the proof takes. concavity: μ = 2p(1−p). deviation and
    heterogeneity: σ and ζ of Assumption 1, at the start: for a linear scorer both have no bound.
    gap: Φ(θ_0) − Φ*. distance: |w_0 − w*(θ_0)|.
    """

    workers: int
    smoothness: float
    concavity: float
    deviation: float
    heterogeneity: float
    gap: float
    distance: float

    @property
    def condition(self) -> float:
        """κ."""
        return self.smoothness / self.concavity

    @property
    def outer_smoothness(self) -> float:
        """L, of ∇Φ."""
        return self.smoothness * (1 + self.condition)


def min_max_constants(data: ClientSamples, objective: AucObjective) -> MinMaxConstants:
    """Computed from the samples; FedatlasError unless scores are linear in the model, from 0."""
    if (objective.model, objective.scores) != ("linear", "linear"):
        raise FedatlasError(
            f"theorems on AUC maximisation need the model 'linear' with 'scores: linear', whose "
            f"constants are known; here it is '{objective.model}' with '{objective.scores}'"
        )
    sizes = np.diff(data.offsets)
    if sizes.min() < sizes.max():
        raise FedatlasError(
            f"workers hold {sizes.min()} to {sizes.max()} samples: the constants of AUC "
            "maximisation are known of workers that hold equally many: state 'samples' in the "
            "partition, or leave out 'theory'"
        )
    found = data.samples.features
    dense = np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), np.float64)
    rows = np.hstack([dense, np.ones((len(dense), 1))])  # the intercept's
    positive = data.samples.label > 0
    p = float(positive.mean())
    weight = 2 * np.where(positive, 1 - p, p)  # ∂²f/∂h²
    # At 0 the slope in h is −2(1−p) or 2p; those in a, b and w are 0.
    gradients = np.where(positive, -weight, weight)[:, None] * rows
    parts = [slice(first, end) for first, end in pairwise(data.offsets.tolist())]
    of_workers = np.stack([gradients[part].mean(0) for part in parts])
    centred = [
        ((gradients[part] - mean) ** 2).sum(1).mean()
        for part, mean in zip(parts, of_workers, strict=True)
    ]
    apart = of_workers[:, None] - of_workers[None]
    return MinMaxConstants(
        workers=data.clients,
        smoothness=_smoothness(rows, weight, parts, p),
        concavity=2 * p * (1 - p),
        deviation=sqrt(max(centred)),
        heterogeneity=float(np.sqrt((apart**2).sum(-1)).max()),
        gap=_gap(rows, positive),
        distance=0.0,
    )


def _smoothness(rows: np.ndarray, weight: np.ndarray, parts: list[slice], p: float) -> float:
    """L_f: f is quadratic in θ and linear in w times θ, so its second derivatives are constant.

    In (m, a) or (m, b) they are weight · zzᵀ with z = (x, −1), mixed ones weight · x, in w 2p(1−p).
    """
    squares = (rows**2).sum(1)
    in_theta, mixed = weight * (squares + 1), weight * np.sqrt(squares)
    largest = max(
        float(np.sqrt((each[part] ** 2).mean())) for each in (in_theta, mixed) for part in parts
    )
    return max(largest, 2 * p * (1 - p), 1.0)


def _gap(rows: np.ndarray, positive: np.ndarray) -> float:
    """Φ(0) − Φ*: Φ = p(1−p)(P − 1) at the best a and b, where P is quadratic in m and 1 at 0.

    P = (1 − dᵀm)² + mᵀCm with the difference d of class means and the sum C of class covariances.
    """
    p = float(positive.mean())
    above, below = rows[positive], rows[~positive]
    d = above.mean(0) - below.mean(0)
    c = np.cov(above.T, bias=True) + np.cov(below.T, bias=True)
    best = np.linalg.lstsq(c + np.outer(d, d), d, rcond=None)[0]
    return p * (1 - p) * float(d @ best)
