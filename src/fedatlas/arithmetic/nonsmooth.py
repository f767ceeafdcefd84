"""Terms ψ without a gradient: their values, proximal maps, and how far a minimiser may lie."""

from collections.abc import Callable
from math import inf, sqrt
from typing import Any

import numpy as np

from fedatlas.arithmetic.client_rows import ChunkedRows
from fedatlas.schema.losses import L1, Box, Nonsmooth


def nonsmooth_value(term: Nonsmooth, x: np.ndarray) -> float:
    """ψ(x) of x (d,)."""
    if isinstance(term, L1):
        return term.weight * float(np.abs(x).sum())
    if isinstance(term, Box):
        return 0.0 if ((x >= term.lower) & (x <= term.upper)).all() else inf
    return term.weight * float(_group_norms(x, term.size).sum())


def prox(term: Nonsmooth, v: Any, step: float) -> Any:
    """argmin_x ψ(x) + ‖x − v‖²/(2 step), of v (d,) or of every row of v (S, d); 0 ≤ step."""
    if isinstance(v, ChunkedRows):
        return v.by_chunks(lambda rows: prox(term, rows, step))
    if isinstance(term, L1):
        return np.sign(v) * np.maximum(np.abs(v) - step * term.weight, 0.0)
    if isinstance(term, Box):
        return np.clip(v, term.lower, term.upper)
    norms = _group_norms(v, term.size)
    kept = 1 - step * term.weight / np.maximum(norms, step * term.weight or 1.0)
    return v * np.repeat(kept, term.size, axis=-1)[..., : v.shape[-1]]


def _group_norms(x: np.ndarray, size: int) -> np.ndarray:
    """(…, groups) norms of consecutive columns; the last group has what is left."""
    starts = np.arange(0, x.shape[-1], size)
    return np.asarray(np.sqrt(np.add.reduceat(x * x, starts, axis=-1)))


def largest_norm(term: Nonsmooth, dimension: int, start: float) -> float:
    """A bound of ‖x‖ where f(x) + ψ(x) ≤ start, the value at 0; f ≥ 0."""
    if isinstance(term, Box):
        return sqrt(dimension) * max(-term.lower, term.upper)
    return start / term.weight  # ‖x‖ is at most ‖x‖₁, and the sum of norms of groups


def minimise(
    value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]],
    term: Nonsmooth,
    x: np.ndarray,
    smoothness: float,
    enough: Callable[[np.ndarray, float], bool],
    most: int = 100_000,
) -> tuple[np.ndarray, float]:
    """Minimise f + ψ from x (d,) by FISTA, restarted where momentum leads uphill.

    f: by its value and gradient. smoothness: an L of ∇f; infinite: steps are halved until they are
    short enough. enough(x, ‖ξ‖): whether to end, ξ ∈ ∂(f + ψ)(x) being the subgradient that a step
    to x leaves. most: how many steps. Returns x and ‖ξ‖.

    Beck and Teboulle 2009; O'Donoghue and Candès 2015 (gradient restart).
    """
    backtracks, steepness = smoothness == inf, 1.0 if smoothness == inf else smoothness
    ahead, momentum, norm = x, 1.0, inf
    for _ in range(most):
        value, gradient = value_and_gradient(ahead)
        while True:
            new = prox(term, ahead - gradient / steepness, 1 / steepness)
            moved = new - ahead
            new_value, new_gradient = value_and_gradient(new)
            allowed = value + gradient @ moved + steepness / 2 * moved @ moved
            if not backtracks or new_value <= allowed + 1e-14 * abs(value):
                break
            steepness *= 2
        norm = float(np.linalg.norm(new_gradient - gradient - steepness * moved))
        if enough(new, norm):
            return new, norm
        if moved @ (new - x) < 0:
            momentum = 1.0
        following = (1 + sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * (new - x)
        x, momentum = new, following
    return x, norm
