"""Functions of DP-GT's Remark 4: values, gradients and constants; all are affine in the noise ξ.

Sources: Chen, Wang, Zhang, Remark 4, for the functions. Constants are computed here, since those
printed there are not all right (papers.yaml, DP-11).
"""

from math import sqrt

import numpy as np

from fedatlas.schema.objectives import PolyakObjective

#: The largest |sin 2x − 2 sin x|, at x = 2π/3.
_STEEPEST_SINE = 1.5 * sqrt(3)
#: Beyond it F′²/(2F) of x² + 3 sin² x is above 1: F ≤ x² + 3 and |F′| ≥ 2|x| − 3.
_FAR = 20.0


def values(objective: PolyakObjective, points: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """(k,) ℓ at points (k, d) with the noise ξ (k,); with the mean of samples, their mean."""
    if objective.name == "sine_square":
        x = points[:, 0]
        return np.asarray(x**2 + (3 + noise) * np.sin(x) ** 2 + 2 * noise * np.cos(x))
    norms = np.linalg.norm(points, axis=1)
    squares = ((points - 1) ** 2) @ np.array(objective.curvatures)
    return np.asarray(squares / 2 + noise * norms / (1 + norms))


def gradients(objective: PolyakObjective, points: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """(k, d) ∇ℓ; of ‖x‖ at 0, where it has none, the subgradient 0."""
    column = noise[:, None]
    if objective.name == "sine_square":
        return 2 * points + (3 + column) * np.sin(2 * points) - 2 * column * np.sin(points)
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    direction = points / np.where(norms == 0, 1.0, norms)
    own = (points - 1) * np.array(objective.curvatures)
    return np.asarray(own + column * direction / (1 + norms) ** 2)


def smoothness(objective: PolyakObjective, noise: float) -> float:
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
    ratios = gradients(objective, x, none)[:, 0] ** 2 / (2 * values(objective, x, none))
    # Between samples the ratio may be lower, by less than this share.
    return float(ratios.min()) * (1 - 1e-6)


def largest_deviation(objective: PolyakObjective) -> float:
    """The largest ‖∂∇ℓ/∂ξ‖ over all x: σ_g is the deviation of ξ times it."""
    return _STEEPEST_SINE if objective.name == "sine_square" else 1.0
