"""What papers' loops share: steps, means, compressors, one vector at a time, in float64."""

from math import floor, frexp
from typing import Any

import numpy as np


def server_step(hyper: Any) -> float:
    """η_g, declared or by η̃ = K η_g η_l, else 1."""
    if hyper.effective_step is not None:
        return hyper.effective_step / (hyper.local_steps * hyper.local_step_size)
    return hyper.global_step_size or 1.0


def local_step(hyper: Any, number: int) -> float:
    """η_l of a round, times the factor of the latest round that declares one."""
    factor = 1.0
    for first in sorted(hyper.step_factors):
        if first <= number:
            factor = hyper.step_factors[first]
    return factor * hyper.local_step_size


def mean(problem: Any, rows: dict[int, np.ndarray]) -> Any:
    """N/S Σ p_i row_i over those who answered; with p_i = 1/N their mean."""
    total = 0.0
    for i, row in rows.items():
        total = total + problem.clients / len(rows) * problem.weights[i] * row
    return total


def whole(problem: Any, rows: Any) -> Any:
    """Σ p_i row_i, where only some have one: what changes of theirs change of the whole mean."""
    total = 0.0
    for i, row in rows.items():
        total = total + problem.weights[i] * row
    return total


def zeros(problem: Any, x0: np.ndarray) -> np.ndarray:
    """A row of zeros for each client."""
    return np.zeros((problem.clients, len(x0)))


# ------------------------------------------------------------------------------- compressors


def uniforms(draws: Any, place: int = -1) -> Any:
    """The numbers (S, d) by which compressors round; nothing where they draw none."""
    drawn = draws.numbers.get("uniform")
    return drawn[place] if drawn else [None] * len(draws.clients)


def variance(declared: dict[str, Any], d: int) -> float | None:
    """ω of an unbiased compressor, None of a biased one."""
    if declared["kind"] == "rand_k":
        return d / entries(declared, d) - 1
    if declared["kind"] == "quantised":
        s = declared["levels"]
        return min(d / s**2, d**0.5 / s)
    return 1 / 8 if declared["kind"] == "natural" else None


def entries(declared: dict[str, Any], d: int) -> int:
    """k, declared or as a share of d."""
    return declared.get("k") or max(1, round(declared["share"] * d))


def compress(declared: dict[str, Any], x: np.ndarray, u: Any) -> np.ndarray:
    """C(x), by the numbers u (d,)."""
    d, kind, found = len(x), declared["kind"], np.zeros_like(x)
    if kind == "top_k":  # the k entries of largest absolute value
        for j in sorted(range(d), key=lambda j: -abs(x[j]))[: entries(declared, d)]:
            found[j] = x[j]
    elif kind == "rand_k":  # the k entries of the largest numbers, times d/k
        k = entries(declared, d)
        found = d / k * x * (u >= np.sort(u)[d - k])
    elif kind == "sign":
        found = np.abs(x).sum() / d * np.sign(x)
    elif kind == "quantised":  # QSGD, section 3.1
        s, norm = declared["levels"], np.sqrt(np.dot(x, x))
        for j in range(d if norm else 0):
            below = floor(abs(x[j]) / norm * s)
            level = below + (u[j] < abs(x[j]) / norm * s - below)
            found[j] = norm * np.sign(x[j]) * level / s
    elif kind == "natural":  # natural compression, Definition 1
        for j in range(d):
            if x[j]:
                lower = 2.0 ** (frexp(abs(x[j]))[1] - 1)
                found[j] = np.sign(x[j]) * lower * (1 + (u[j] < abs(x[j]) / lower - 1))
    else:
        raise ValueError(kind)
    return found


def contract(declared: dict[str, Any], x: np.ndarray, u: Any) -> np.ndarray:
    """C(x), of an unbiased one C(x)/(1 + ω)."""
    omega = variance(declared, len(x))
    return compress(declared, x, u) / (1 + (omega or 0.0))


def soft(v: np.ndarray, by: float) -> np.ndarray:
    """argmin_x by ‖x‖₁ + ‖x − v‖²/2."""
    return np.array([max(abs(one) - by, 0.0) * np.sign(one) for one in v])


# ----------------------------------------------------------------------------------- graphs


def mixing(problem: Any, kappa: float) -> np.ndarray:
    """W = I − κ diag(Σ_j w_ij) + κ (w_ij), (n, n)."""
    w = problem.states
    return np.eye(len(w)) - kappa * np.diag(w.sum(axis=1)) + kappa * w


def mixed(W: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Σ_j W_ij row_j of each agent."""
    return np.array([sum(W[i, j] * rows[j] for j in range(len(rows))) for i in range(len(rows))])


def gradients(problem: Any, x: np.ndarray, batch: Any) -> np.ndarray:
    """∇f_i of each agent's own rows at its own point."""
    return np.array([problem.gradient(i, x[i], rows) for i, (rows,) in batch])


def clipped(problem: Any, hyper: Any, i: int, x: np.ndarray, rows: Any) -> np.ndarray:
    """∇f_i over these rows, every sample's own gradient cut to C/2 in the declared norm first."""
    total, bound = 0 * x, hyper.gradient_bound / 2
    for own in problem.sample_gradients(i, x, rows):
        size = np.abs(own).sum() if hyper.clipping == "l1" else np.sqrt(own @ own)
        cut = hyper.clipping != "none" and size > bound
        total = total + own * (bound / size if cut else 1.0)
    return total / len(rows) + problem.penalty_gradient(x)


def pulled(w: np.ndarray, own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Σ_j w_ij (others_j − own_i) of each agent; diagonals are never read."""
    n, found = len(own), 0 * own
    for i in range(n):
        for j in range(n):
            if j != i:
                found[i] = found[i] + w[i, j] * (others[j] - own[i])
    return found


# -------------------------------------------------------------------------------- quantisers


def ternary(x: np.ndarray, limit: float, u: np.ndarray) -> np.ndarray:
    """r sign(x_l) with probability |x_l|/r, else 0; an entry beyond r is always ±r."""
    return np.array([np.copysign(limit, v) if own < abs(v) / limit else 0.0
                     for v, own in zip(x, u, strict=True)])  # fmt: skip


def lattice_rounded(g: np.ndarray, bound: float, levels: int, u: np.ndarray) -> np.ndarray:
    """Entries clipped to [−C_∞, C_∞] and rounded to −C_∞ + s l, l = 0..L−1, without bias."""
    spacing, found = 2 * bound / (levels - 1), np.zeros_like(g)
    for j in range(len(g)):
        place = (min(max(g[j], -bound), bound) + bound) / spacing
        found[j] = -bound + spacing * (floor(place) + (u[j] < place - floor(place)))
    return found


def step_rounded(x: np.ndarray, step: float, u: np.ndarray) -> np.ndarray:
    """Entries rounded without bias to one of the two multiples of the step beside them."""
    places = x / step
    return step * np.array(
        [floor(p) + (own < p - floor(p)) for p, own in zip(places, u, strict=True)]
    )
