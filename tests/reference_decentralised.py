"""Float64 reference of the decentralised private methods, written from the texts alone.

Sources: Algorithm 1 and (3)–(8) of "Differentially Private Gradient-Tracking-Based Distributed
Stochastic Optimization over Directed Graphs" (DP-GT) with erratum DP-1, and sections D and E.2 of
the baseline specifications. Loops run over agents and their neighbours as they are printed;
nothing is shared with the package, so that an agreement of the two is evidence.

Nothing here is random: every draw is an argument.

- ``gradient(agent, x, rows)`` is the mean gradient (d,) of the agent over these sample rows.
- ``rows[k][i]`` are the rows that agent i draws for its gradient at x_{i,k}.
- ``zeta[k][i]``, ``eta[k][i]`` are the noises (d,) of states and trackers, ``uniforms[k][i]`` the
  numbers (d,) in [0, 1) that decide a random rounding: it goes up, or away from zero, where the
  number is *below* the probability of that.
- ``R``, ``C`` and ``W`` are weights (n, n): entry [i][j] > 0 says that i receives the value of j.
  No agent is a neighbour of its own: diagonals are never read. Where the own value enters a sum
  exactly as the others do, a diagonal would drop out anyway; where it does not ([43], [44] and the
  literal form of DP-GT), it would make the agent perturb its own value.
- A step is a number, or, where the text gives it an index k, a number or a sequence over k.

All agents move at once: iteration k reads only values of index k. Every method returns the list
of its `Point`s 0, ..., T for T iterations. DP-GT counts k = 0, ..., K, so there T = K + 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Vector = np.ndarray
"""A float64 vector of d entries."""

Matrix = np.ndarray
"""One row per agent."""

Gradient = Callable[[int, Vector, Sequence[int]], Vector]
Step = float | Sequence[float]


@dataclass(frozen=True)
class Point:
    """Everything of index k: x_k and y_k (n, d), and what iteration k made of them.

    gradient: g_k (n, d) as the update uses it: with its noise in [36], clipped, rounded and noised
    in [40], over all samples seen so far in [42], otherwise the plain mean over the rows.
    sent_x, sent_y: what each agent sends to its neighbours in iteration k.
    None: there is no y, nothing is sent any more, or, of the last point of a method without y, no
    gradient is taken any more.
    """

    x: Matrix
    y: Matrix | None = None
    gradient: Matrix | None = None
    sent_x: Matrix | None = None
    sent_y: Matrix | None = None


def listed(method: Callable[..., Iterator[Point]]) -> Callable[..., list[Point]]:
    """The method with its points in a list."""

    @functools.wraps(method)
    def whole(*arguments, **named):
        return list(method(*arguments, **named))

    return whole


def neighbours(weights: Matrix, i: int) -> list[int]:
    """The agents whose values i receives."""
    return [j for j in range(len(weights)) if j != i and weights[i][j] > 0]


def at(step: Step, k: int) -> float:
    """The step of iteration k."""
    return step if isinstance(step, (int, float)) else step[k]


def same_length(first: Sequence, *others: Sequence) -> int:
    """The number of iterations that all draws are given for."""
    for other in others:
        if len(other) != len(first):
            raise ValueError(f"draws for {len(first)} iterations and for {len(other)}")
    return len(first)


def start(x0: Matrix) -> list[Vector]:
    """Every agent's first state."""
    return [np.array(x, dtype=np.float64) for x in x0]


UNBALANCED = np.array(
    [
        [0.0, 0.0, 0.5, 0.5, 1.0],
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.5, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.5, 0.0],
    ]
)
"""A directed ring with two shortcuts to agent 0; DP-1's row sums, and column sums of 1."""


# --- DP-GT ----------------------------------------------------------------------------------------


@listed
def dp_gt_literal(gradient, x0, rows, zeta, eta, R, C, alpha, beta, gamma):
    """Algorithm 1 with (4) and (6) as printed: own values exact, own factors from row sums.

    rows has one entry more than the noises: rows[0] is of g_0 = y_0, rows[k + 1] of the gradient
    taken in iteration k, at the new state. The listing takes one in its last iteration too.
    Gradients are taken at x, never at what was sent, and (4) descends along the exact y_{i,k}.
    """
    n = len(x0)
    iterations = same_length(zeta, eta, rows[1:])
    x = start(x0)
    g = [gradient(i, x[i], rows[0][i]) for i in range(n)]
    y = list(g)
    for k in range(iterations):
        sent_x = [x[i] + zeta[k][i] for i in range(n)]
        sent_y = [y[i] + eta[k][i] for i in range(n)]
        yield Point(np.array(x), np.array(y), np.array(g), np.array(sent_x), np.array(sent_y))
        x_new = []
        for i in range(n):
            weight, received = 0.0, np.zeros_like(x[i])
            for j in neighbours(R, i):
                weight += R[i][j]
                received = received + R[i][j] * sent_x[j]
            x_new.append((1 - alpha * weight) * x[i] + alpha * received - gamma * y[i])
        g_new = [gradient(i, x_new[i], rows[k + 1][i]) for i in range(n)]
        y_new = []
        for i in range(n):
            weight, received = 0.0, np.zeros_like(y[i])
            for j in neighbours(C, i):
                weight += C[i][j]
                received = received + C[i][j] * sent_y[j]
            mixed = (1 - beta * weight) * y[i] + beta * received
            y_new.append(mixed + g_new[i] - g[i])
        x, y, g = x_new, y_new, g_new
    yield Point(np.array(x), np.array(y), np.array(g))


def out_weight_step(C: Matrix, y: list[Vector], sent_y: list[Vector], beta: float) -> list[Vector]:
    """y_i + β Σ_j (C_ij y̆_j − C_ji y̆_i): (8) without its gradients, as E.2 writes it.

    The two terms of the sum are edges in opposite directions, so the first runs over those that i
    receives from and the second over those that i sends to.
    """
    n = len(y)
    result = []
    for i in range(n):
        mixed = y[i]
        for j in neighbours(C, i):
            mixed = mixed + beta * C[i][j] * sent_y[j]
        for j in range(n):
            if i in neighbours(C, j):
                mixed = mixed - beta * C[j][i] * sent_y[i]
        result.append(mixed)
    return result


@listed
def dp_gt_compact(gradient, x0, rows, zeta, eta, R, C, alpha, beta, gamma):
    """(7) and (8) in the form of E.2: own values as they were sent, own factors of y from columns.

    Draws as in dp_gt_literal. The descent of the state is along the exact y_{i,k}, as in (7).
    """
    n = len(x0)
    iterations = same_length(zeta, eta, rows[1:])
    x = start(x0)
    g = [gradient(i, x[i], rows[0][i]) for i in range(n)]
    y = list(g)
    for k in range(iterations):
        sent_x = [x[i] + zeta[k][i] for i in range(n)]
        sent_y = [y[i] + eta[k][i] for i in range(n)]
        yield Point(np.array(x), np.array(y), np.array(g), np.array(sent_x), np.array(sent_y))
        x_new = []
        for i in range(n):
            moved = x[i] - gamma * y[i]
            for j in neighbours(R, i):
                moved = moved + alpha * R[i][j] * (sent_x[j] - sent_x[i])
            x_new.append(moved)
        g_new = [gradient(i, x_new[i], rows[k + 1][i]) for i in range(n)]
        mixed = out_weight_step(C, y, sent_y, beta)
        y = [mixed[i] + g_new[i] - g[i] for i in range(n)]
        x, g = x_new, g_new
    yield Point(np.array(x), np.array(y), np.array(g))


@listed
def dp_gt_released_trackers(gradient, x0, rows, eta, R, C, alpha, beta, gamma):
    """Our variant, whose states are a function of the released trackers alone.

    Trackers by (8) with noise; states are sent exactly and descend along the own y̆_{i,k} as it was
    sent, x_i + α Σ_j R_ij (x_j − x_i) − γ y̆_i; gradients at x. Draws as in dp_gt_literal.
    """
    n = len(x0)
    iterations = same_length(eta, rows[1:])
    x = start(x0)
    g = [gradient(i, x[i], rows[0][i]) for i in range(n)]
    y = list(g)
    for k in range(iterations):
        sent_y = [y[i] + eta[k][i] for i in range(n)]
        yield Point(np.array(x), np.array(y), np.array(g), np.array(x), np.array(sent_y))
        x_new = []
        for i in range(n):
            moved = x[i] - gamma * sent_y[i]
            for j in neighbours(R, i):
                moved = moved + alpha * R[i][j] * (x[j] - x[i])
            x_new.append(moved)
        g_new = [gradient(i, x_new[i], rows[k + 1][i]) for i in range(n)]
        mixed = out_weight_step(C, y, sent_y, beta)
        y = [mixed[i] + g_new[i] - g[i] for i in range(n)]
        x, g = x_new, g_new
    yield Point(np.array(x), np.array(y), np.array(g))


# --- The methods that DP-GT is compared with, section D -------------------------------------------


def coupled(W: Matrix, i: int, others: list[Vector], own: Vector) -> Vector:
    """Σ_j w_ij (others_j − own): what the graph adds to agent i, before the coupling κ."""
    total = np.zeros_like(own)
    for j in neighbours(W, i):
        total = total + W[i][j] * (others[j] - own)
    return total


@listed
def gaussian_gradients(gradient, x0, rows, noise, W, kappa, gamma):
    """D.36 on a graph: x_i + κ Σ_j w_ij (x_j − x_i) − γ (g_i + b_i), noise[k][i] = b_i.

    The graph version has no p_i: with equal p_i, every agent takes the whole step γ along its own
    gradient, not γ/n. States are sent exactly. rows[k] is of the gradient at x_k.
    """
    n = len(x0)
    x = start(x0)
    for k in range(same_length(noise, rows)):
        g = [gradient(i, x[i], rows[k][i]) + noise[k][i] for i in range(n)]
        yield Point(np.array(x), gradient=np.array(g), sent_x=np.array(x))
        x = [x[i] + at(kappa, k) * coupled(W, i, x, x[i]) - at(gamma, k) * g[i] for i in range(n)]
    yield Point(np.array(x))


def ternary(x: Vector, limit: float, uniforms: Vector) -> Vector:
    """Q(x)_l = r sign(x_l) with probability |x_l|/r, else 0; unbiased where |x_l| ≤ r = limit.

    The text asks for r ≥ ‖x‖_∞ and says nothing about the rest; an entry beyond r has a
    "probability" above one here, hence is always ±r.
    """
    q = np.zeros_like(x)
    for coordinate in range(len(x)):
        value = x[coordinate]
        if uniforms[coordinate] < abs(value) / limit:
            q[coordinate] = math.copysign(limit, value)
    return q


@listed
def ternary_states(gradient, x0, rows, uniforms, limit, W, kappa, gamma):
    """D.39, shared setting: x_i + κ Σ_j w_ij (Q(x_j) − Q(x_i)) − γ g_i; κ = ε_k and γ = ε_k λ_k.

    Q(x_i) is drawn once in an iteration: the neighbours and i itself use the same outcome. The
    gradient is at the exact x_i. limit is the range r, the same for all agents and iterations.
    """
    n = len(x0)
    x = start(x0)
    for k in range(same_length(uniforms, rows)):
        g = [gradient(i, x[i], rows[k][i]) for i in range(n)]
        q = [ternary(x[i], limit, uniforms[k][i]) for i in range(n)]
        yield Point(np.array(x), gradient=np.array(g), sent_x=np.array(q))
        x = [x[i] + at(kappa, k) * coupled(W, i, q, q[i]) - at(gamma, k) * g[i] for i in range(n)]
    yield Point(np.array(x))


def lattice_rounded(g: Vector, bound: float, levels: int, uniforms: Vector) -> Vector:
    """Entries clipped to [−C_∞, C_∞] and rounded to −C_∞ + s·l, l = 0..L−1, without bias.

    The lattice has both ends, so zero is on it only where L is odd.
    """
    spacing = 2 * bound / (levels - 1)
    rounded = np.zeros_like(g)
    for coordinate in range(len(g)):
        clipped = min(max(g[coordinate], -bound), bound)
        position = (clipped + bound) / spacing
        level = math.floor(position)
        if uniforms[coordinate] < position - level:
            level += 1
        rounded[coordinate] = -bound + spacing * level
    return rounded


@listed
def binomial_gradients(
    gradient, x0, rows, uniforms, binomials, bound, levels, trials, W, kappa, gamma
):
    """D.40 on a graph: x_i + κ Σ_j w_ij (x_j − x_i) − γ g̃_i, states sent exactly.

    g̃_i = round(clip(g_i)) + s (Bin(n_b, ½) − n_b/2), s = 2C_∞/(L − 1): bound is C_∞, levels L,
    trials n_b, binomials[k][i] the counts (d,) in 0..n_b. What is clipped is g_i, the mean over
    the rows, not the gradient of each sample; the noise can leave the lattice's range.
    """
    n = len(x0)
    spacing = 2 * bound / (levels - 1)
    x = start(x0)
    for k in range(same_length(uniforms, binomials, rows)):
        g = []
        for i in range(n):
            mean = gradient(i, x[i], rows[k][i])
            rounded = lattice_rounded(mean, bound, levels, uniforms[k][i])
            g.append(rounded + spacing * (np.asarray(binomials[k][i]) - trials / 2))
        yield Point(np.array(x), gradient=np.array(g), sent_x=np.array(x))
        x = [x[i] + kappa * coupled(W, i, x, x[i]) - gamma * g[i] for i in range(n)]
    yield Point(np.array(x))


@listed
def online_states(gradient, x0, arrivals, zeta, W, kappa, gamma):
    """D.42 without Π: x_i + κ_t Σ_j w_ij (x_j + ζ_j − x_i − ζ_i) − γ_t d_{i,t}.

    arrivals[t][i] are the rows that reach agent i at time t; they are part of d_{i,t} already.
    d_{i,t} is the mean over all rows that arrived so far, each as often as it arrived, all at the
    present x_i; so with unequal numbers of arrivals it is not the mean of the batches' means.
    ζ_i is one draw: the own sum has the noise that the neighbours see.
    """
    n = len(x0)
    x = start(x0)
    seen = [[] for i in range(n)]
    for t in range(same_length(zeta, arrivals)):
        for i in range(n):
            seen[i] = seen[i] + list(arrivals[t][i])
        d = [gradient(i, x[i], seen[i]) for i in range(n)]
        sent = [x[i] + zeta[t][i] for i in range(n)]
        yield Point(np.array(x), gradient=np.array(d), sent_x=np.array(sent))
        x = [
            x[i] + at(kappa, t) * coupled(W, i, sent, sent[i]) - at(gamma, t) * d[i]
            for i in range(n)
        ]
    yield Point(np.array(x))


@listed
def growing_samples(gradient, x0, rows, zeta, W, kappa, gamma):
    """D.43, output perturbation: x_i + β_k Σ_j w_ij (x̆_j − x_i) − α_k g_i; κ = β, γ = α there.

    Own value exact, so the noise moves the mean of the states. m_k is the length of rows[k][i].
    """
    n = len(x0)
    x = start(x0)
    for k in range(same_length(zeta, rows)):
        g = [gradient(i, x[i], rows[k][i]) for i in range(n)]
        sent = [x[i] + zeta[k][i] for i in range(n)]
        yield Point(np.array(x), gradient=np.array(g), sent_x=np.array(sent))
        x = [
            x[i] + at(kappa, k) * coupled(W, i, sent, x[i]) - at(gamma, k) * g[i] for i in range(n)
        ]
    yield Point(np.array(x))


def step_rounded(x: Vector, step: float, uniforms: Vector) -> Vector:
    """Entries rounded without bias to one of the two multiples of the step beside them."""
    q = np.zeros_like(x)
    for coordinate in range(len(x)):
        position = x[coordinate] / step
        multiple = math.floor(position)
        if uniforms[coordinate] < position - multiple:
            multiple += 1
        q[coordinate] = step * multiple
    return q


@listed
def quantised_states(gradient, x0, rows, zeta, uniforms, quantiser_step, W, kappa, gamma):
    """D.44: x_i + β Σ_j w_ij (z_j − x_i) − α g_i, z_j = Q(x_j + ζ_j); κ = β, γ = α there.

    Own value exact: neither noise nor rounding. Q has no limit on its range. The steps depend on
    the horizon, not on k.
    """
    n = len(x0)
    x = start(x0)
    for k in range(same_length(zeta, uniforms, rows)):
        g = [gradient(i, x[i], rows[k][i]) for i in range(n)]
        sent = [step_rounded(x[i] + zeta[k][i], quantiser_step, uniforms[k][i]) for i in range(n)]
        yield Point(np.array(x), gradient=np.array(g), sent_x=np.array(sent))
        x = [x[i] + kappa * coupled(W, i, sent, x[i]) - gamma * g[i] for i in range(n)]
    yield Point(np.array(x))
