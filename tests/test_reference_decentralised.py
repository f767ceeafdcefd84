"""The reference of the decentralised methods against itself, by independent routes."""

import itertools
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_decentralised import (
    UNBALANCED,
    binomial_gradients,
    dp_gt_compact,
    dp_gt_literal,
    dp_gt_released_trackers,
    gaussian_gradients,
    growing_samples,
    lattice_rounded,
    online_states,
    quantised_states,
    step_rounded,
    ternary,
    ternary_states,
)

ALPHA, BETA, GAMMA = 0.3, 0.2, 0.15
LIMIT, BOUND, LEVELS, TRIALS, QUANTUM = 6.0, 0.8, 6, 9, 0.25

ring = np.roll(np.eye(5), 1, axis=0)
"""Directed: i receives from i − 1 alone, with weight 1."""

undirected_ring = (ring + ring.T) / 2


class Problem:
    """Agents with different, curved data: a gradient at another point or over other rows shows."""

    def __init__(self, seed=0, agents=5, size=3, samples=8, iterations=6):
        random = np.random.default_rng(seed)
        self.agents, self.size, self.iterations = agents, size, iterations
        self.a = random.normal(size=(agents, samples, size))
        self.b = random.normal(size=(agents, samples)) + np.arange(agents)[:, None]
        self.x0 = random.normal(size=(agents, size))
        self.rows = [
            [random.choice(samples, 2 + k % 3, replace=False) for i in range(agents)]
            for k in range(iterations + 1)
        ]
        shape = (iterations, agents, size)
        self.zeta, self.eta = random.laplace(size=shape), random.laplace(size=shape)
        self.uniforms = random.random(shape)
        self.binomials = random.binomial(TRIALS, 0.5, size=shape)
        # Positive diagonals: nothing may read them.
        present = random.random((2, agents, agents)) < 0.6
        self.R, self.C = np.where(present, random.random((2, agents, agents)), 0.0)
        self.R[np.diag_indices(agents)] = self.C[np.diag_indices(agents)] = 0.7
        self.W = (self.R + self.R.T) / 2
        self.kappa = [0.4 / (k + 1) ** 0.3 for k in range(iterations)]
        self.gamma = [0.3 / (k + 1) ** 0.6 for k in range(iterations)]

    def gradient(self, agent, x, rows):
        total = np.zeros_like(x)
        for row in rows:
            a = self.a[agent, row]
            total = total + np.tanh(a @ x - self.b[agent, row]) * a + 0.1 * x
        return total / len(rows)

    def gradients(self, x, rows):
        return np.array([self.gradient(i, x[i], rows[i]) for i in range(self.agents)])

    def tracking(self, method, **other):
        noises = {"zeta": self.zeta, "eta": self.eta}
        if method is dp_gt_released_trackers:
            del noises["zeta"]
        given = {"x0": self.x0, "rows": self.rows, "R": self.R, "C": self.C, **noises}
        given |= {"alpha": ALPHA, "beta": BETA, "gamma": GAMMA, **other}
        return method(self.gradient, **given)

    def compared(self, method, **other):
        """One of the methods without trackers, with all that it is to be given."""
        rows, zeta = {"rows": self.rows[:-1]}, {"zeta": self.zeta}
        uniforms = {"uniforms": self.uniforms}
        varying = {"kappa": self.kappa, "gamma": self.gamma}
        constant = {"kappa": ALPHA, "gamma": GAMMA}
        given = {
            gaussian_gradients: {**rows, "noise": self.zeta, **varying},
            ternary_states: {**rows, **uniforms, "limit": LIMIT, **varying},
            binomial_gradients: {
                **rows,
                **uniforms,
                "binomials": self.binomials,
                "bound": BOUND,
                "levels": LEVELS,
                "trials": TRIALS,
                **constant,
            },
            online_states: {"arrivals": self.rows[:-1], **zeta, **varying},
            growing_samples: {**rows, **zeta, **varying},
            quantised_states: {**rows, **zeta, **uniforms, "quantiser_step": QUANTUM, **constant},
        }[method]
        return method(self.gradient, **{"x0": self.x0, "W": self.W, **given, **other})


COMPARED = (
    gaussian_gradients,
    ternary_states,
    binomial_gradients,
    online_states,
    growing_samples,
    quantised_states,
)
OWN_VALUE_AS_SENT = (gaussian_gradients, ternary_states, binomial_gradients, online_states)
"""Where w_ij and w_ji meet the same difference, so that a symmetric W cannot move the mean."""


def zeros(iterations, agents, size):
    return np.zeros((iterations, agents, size))


def off_diagonal(weights):
    return weights - np.diag(np.diag(weights))


def in_laplacian(weights):
    return np.diag(off_diagonal(weights).sum(axis=1)) - off_diagonal(weights)


def out_laplacian(weights):
    return np.diag(off_diagonal(weights).sum(axis=0)) - off_diagonal(weights)


def null_left(matrix):
    """The v with vᵀ matrix = 0, its sum 1."""
    v = np.linalg.svd(matrix)[0][:, -1]
    return v / v.sum()


def assert_close(one, other):
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)


# --- The loops against the stacked equations ------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_literal_form_is_its_stacked_equations(seed):
    p = Problem(seed)
    R, C = off_diagonal(p.R), off_diagonal(p.C)
    x, y = p.x0, p.gradients(p.x0, p.rows[0])
    points = p.tracking(dp_gt_literal)
    for k in range(p.iterations):
        assert_close(points[k].x, x)
        assert_close(points[k].y, y)
        assert_close(points[k].sent_x, x + p.zeta[k])
        assert_close(points[k].sent_y, y + p.eta[k])
        g = p.gradients(x, p.rows[k])
        # DP-1: noise terms +αRζ and +βCη, both own factors from row sums
        x_new = x - ALPHA * in_laplacian(p.R) @ x + ALPHA * R @ p.zeta[k] - GAMMA * y
        y = y - BETA * in_laplacian(p.C) @ y + BETA * C @ p.eta[k]
        x, y = x_new, y + p.gradients(x_new, p.rows[k + 1]) - g
    assert_close(points[-1].x, x)
    assert_close(points[-1].y, y)
    assert len(points) == p.iterations + 1
    assert points[-1].sent_x is None


@pytest.mark.parametrize("seed", range(3))
def test_compact_form_is_equations_7_and_8(seed):
    p = Problem(seed)
    L1, L2 = in_laplacian(p.R), out_laplacian(p.C)
    # (7) and (8) have L1 and L2 of the matrices with any diagonal: it drops out
    assert_close(L1, np.diag(p.R.sum(axis=1)) - p.R)
    assert_close(L2, np.diag(p.C.sum(axis=0)) - p.C)
    x, y = p.x0, p.gradients(p.x0, p.rows[0])
    points = p.tracking(dp_gt_compact)
    for k in range(p.iterations):
        assert_close(points[k].sent_x, x + p.zeta[k])
        assert_close(points[k].sent_y, y + p.eta[k])
        g = p.gradients(x, p.rows[k])
        x_new = x - ALPHA * L1 @ x - ALPHA * L1 @ p.zeta[k] - GAMMA * y
        y = y - BETA * L2 @ y - BETA * L2 @ p.eta[k] + p.gradients(x_new, p.rows[k + 1]) - g
        x = x_new
        assert_close(points[k + 1].x, x)
        assert_close(points[k + 1].y, y)


@pytest.mark.parametrize("seed", range(3))
def test_variant_descends_along_what_it_released(seed):
    p = Problem(seed)
    x, y = p.x0, p.gradients(p.x0, p.rows[0])
    points = p.tracking(dp_gt_released_trackers)
    for k in range(p.iterations):
        assert_close(points[k].sent_x, x)
        assert_close(points[k].sent_y, y + p.eta[k])
        g = p.gradients(x, p.rows[k])
        x_new = x - ALPHA * in_laplacian(p.R) @ x - GAMMA * (y + p.eta[k])
        y = y - BETA * out_laplacian(p.C) @ (y + p.eta[k])
        x, y = x_new, y + p.gradients(x_new, p.rows[k + 1]) - g
        assert_close(points[k + 1].x, x)
        assert_close(points[k + 1].y, y)


@pytest.mark.parametrize("method", COMPARED)
@pytest.mark.parametrize("seed", range(3))
def test_compared_methods_are_their_stacked_equations(method, seed):
    p = Problem(seed)
    p.W = p.R  # the methods have a symmetric W; this one shows that i reads row i of it
    W, L = off_diagonal(p.W), in_laplacian(p.W)
    degrees = W.sum(axis=1, keepdims=True)
    x = p.x0
    points = p.compared(method)
    assert len(points) == p.iterations + 1
    for k in range(p.iterations):
        kappa, gamma, u = p.kappa[k], p.gamma[k], p.uniforms[k]
        g, sent = p.gradients(x, p.rows[k]), x
        if method is gaussian_gradients:
            g = g + p.zeta[k]
            pull = -L @ x
        elif method is ternary_states:
            sent = np.where(u < np.abs(x) / LIMIT, LIMIT * np.sign(x), 0.0)
            pull = -L @ sent
        elif method is binomial_gradients:
            kappa, gamma, spacing = ALPHA, GAMMA, 2 * BOUND / (LEVELS - 1)
            clipped = np.clip(g, -BOUND, BOUND)
            # ⌈t − u⌉ is the upper neighbour of t exactly where u is below its fraction
            g = -BOUND + spacing * np.ceil((clipped + BOUND) / spacing - u)
            g = g + spacing * p.binomials[k] - spacing * TRIALS / 2
            pull = -L @ x
        elif method is online_states:
            g = p.gradients(
                x, [np.concatenate([p.rows[s][i] for s in range(k + 1)]) for i in range(p.agents)]
            )
            sent = x + p.zeta[k]
            pull = -L @ sent
        elif method is growing_samples:
            sent = x + p.zeta[k]
            pull = W @ sent - degrees * x
        else:
            kappa, gamma = ALPHA, GAMMA
            sent = QUANTUM * np.ceil((x + p.zeta[k]) / QUANTUM - u)
            pull = W @ sent - degrees * x
        assert_close(points[k].x, x)
        assert_close(points[k].gradient, g)
        assert_close(points[k].sent_x, sent)
        assert points[k].y is None
        assert points[k].sent_y is None
        x = x + kappa * pull - gamma * g
    assert_close(points[-1].x, x)
    assert points[-1].gradient is None


# --- Invariants -----------------------------------------------------------------------------------


def test_literal_trackers_do_not_sum_to_the_gradients():
    p = Problem()
    silent = zeros(p.iterations, p.agents, p.size)
    point = p.tracking(dp_gt_literal, zeta=silent, eta=silent)[-1]
    assert np.abs(point.y.sum(axis=0) - point.gradient.sum(axis=0)).max() > 0.01
    # without noise, equal row and column sums are enough
    point = p.tracking(dp_gt_literal, zeta=silent, eta=silent, C=ring)[-1]
    assert_close(point.y.sum(axis=0), point.gradient.sum(axis=0))


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    agents=st.integers(1, 6),
    method=st.sampled_from(COMPARED),
)
def test_mean_state_descends_along_the_mean_gradient(seed, agents, method):
    """For symmetric W; in [43] and [44], κ W times the disturbance of what is sent comes on top."""
    p = Problem(seed, agents=agents, iterations=4)
    points = p.compared(method, kappa=0.4, gamma=0.3)
    for now, later in itertools.pairwise(points):
        moved = later.x.mean(axis=0) - now.x.mean(axis=0) + 0.3 * now.gradient.mean(axis=0)
        if method not in OWN_VALUE_AS_SENT:
            moved = moved - 0.4 * (off_diagonal(p.W) @ (now.sent_x - now.x)).mean(axis=0)
        assert_close(moved, 0.0)


def test_without_noise_the_forms_agree_where_the_graph_is_balanced():
    p = Problem()
    silent = zeros(p.iterations, p.agents, p.size)
    noise = {"zeta": silent, "eta": silent}
    compact = p.tracking(dp_gt_compact, **noise, C=ring)[-1]
    assert_close(p.tracking(dp_gt_literal, **noise, C=ring)[-1].x, compact.x)
    assert_close(p.tracking(dp_gt_released_trackers, eta=silent, C=ring)[-1].x, compact.x)
    compact = p.tracking(dp_gt_compact, **noise)[-1]
    assert np.abs(p.tracking(dp_gt_literal, **noise)[-1].x - compact.x).max() > 1e-3
    assert_close(p.tracking(dp_gt_released_trackers, eta=silent)[-1].x, compact.x)


# --- Quantisers -----------------------------------------------------------------------------------


def averaged(quantiser, x, count=2000):
    """The mean over numbers spread evenly in [0, 1), each coordinate in an order of its own."""
    even = (np.arange(count) + 0.5) / count
    random = np.random.default_rng(0)
    uniforms = np.stack([random.permutation(even) for _ in x], axis=1)
    return np.mean([quantiser(x, u) for u in uniforms], axis=0)


entries = st.lists(st.floats(-4, 4), min_size=1, max_size=4).map(np.array)


@settings(deadline=None, max_examples=15)
@given(x=entries)
def test_quantisers_are_unbiased(x):
    """An even spread of 2000 numbers misses a probability by 1/2000 at most."""
    for quantiser, gap in (
        (lambda x, u: ternary(x, 4.5, u), 4.5),
        (lambda x, u: lattice_rounded(x, 4.0, LEVELS, u), 8 / (LEVELS - 1)),
        (lambda x, u: step_rounded(x, QUANTUM, u), QUANTUM),
    ):
        np.testing.assert_allclose(averaged(quantiser, x), x, rtol=0, atol=gap / 2000 + 1e-12)


@settings(deadline=None, max_examples=50)
@given(x=entries, seed=st.integers(0, 10**6))
def test_quantised_values_are_on_their_lattices_and_near(x, seed):
    u = np.random.default_rng(seed).random(len(x))
    assert set(np.abs(ternary(x, 4.5, u))) <= {0.0, 4.5}
    q = step_rounded(x, QUANTUM, u)
    assert_close(q / QUANTUM, np.round(q / QUANTUM))
    assert np.all(np.abs(q - x) < QUANTUM)
    q, spacing = lattice_rounded(x, BOUND, LEVELS, u), 2 * BOUND / (LEVELS - 1)
    levels = (q + BOUND) / spacing
    assert_close(levels, np.round(levels))
    assert np.all((levels > -0.5) & (levels < LEVELS - 0.5))
    assert np.all(np.abs(q - np.clip(x, -BOUND, BOUND)) < spacing)


def test_quantisers_go_up_or_away_from_zero_below_the_probability():
    x = np.array([-0.3, 0.3, 0.0])
    low, high = np.full(3, 0.1), np.full(3, 0.9)
    assert_close(ternary(x, 1.0, low), [-1.0, 1.0, 0.0])
    assert_close(ternary(x, 1.0, high), [0.0, 0.0, 0.0])
    assert_close(step_rounded(x, 0.2, low), [-0.2, 0.4, 0.0])
    assert_close(step_rounded(x, 0.2, high), [-0.4, 0.2, 0.0])
    # four levels: −0.6, −0.2, 0.2, 0.6
    assert_close(lattice_rounded(x, 0.6, 4, low), [-0.2, 0.6, 0.2])
    assert_close(lattice_rounded(x, 0.6, 4, high), [-0.6, 0.2, -0.2])
    # at the ends, and clipped to them
    ends = np.array([-0.6, 0.6, 7.0])
    for u in (np.zeros(3), high):
        assert_close(lattice_rounded(ends, 0.6, 4, u), [-0.6, 0.6, 0.6])
    assert_close(ternary(np.array([-7.0, 1.0, 2.0]), 1.0, np.full(3, 0.999)), [-1.0, 1.0, 1.0])


# --- DP-1 -----------------------------------------------------------------------------------------


def test_literal_form_misses_the_optimum_of_an_unbalanced_graph():
    """DP-1: (6) weighs the agents by the left null vector of the *row* Laplacian of C."""
    assert_close(UNBALANCED.sum(axis=1), [2, 1, 1, 0.5, 0.5])
    assert_close(UNBALANCED.sum(axis=0), 1.0)
    curvature = np.array([1.0, 2.0, 0.5, 1.5, 1.0])
    centre = np.array([-1.0, 0.0, 0.5, 1.5, 1.5])

    def gradient(agent, x, rows):
        return curvature[agent] * (x - centre[agent])

    iterations = 1500
    silent = zeros(iterations, 5, 1)
    given = {
        "x0": np.zeros((5, 1)),
        "rows": [[()] * 5] * (iterations + 1),
        "R": UNBALANCED.T,  # row sums of 1, so no balance either
        "C": UNBALANCED,
        "alpha": 0.4,
        "beta": 0.4,
        "gamma": 0.05,
    }
    optimum = curvature @ centre / curvature.sum()

    for point in (
        dp_gt_compact(gradient, zeta=silent, eta=silent, **given)[-1],
        dp_gt_released_trackers(gradient, eta=silent, **given)[-1],
    ):
        np.testing.assert_allclose(point.x, optimum, rtol=0, atol=1e-9)
        assert_close(point.y.sum(), point.gradient.sum())

    point = dp_gt_literal(gradient, zeta=silent, eta=silent, **given)[-1]
    weights = null_left(in_laplacian(UNBALANCED))
    assert_close(weights, [0.1, 0.2, 0.2, 0.3, 0.2])
    weighted = (weights * curvature) @ centre / (weights * curvature).sum()
    np.testing.assert_allclose(point.x, weighted, rtol=0, atol=1e-9)
    assert weighted - optimum > 0.2
    # the trackers vanish and the gradients do not
    missed = -(curvature @ (weighted - centre))
    assert (point.y - point.gradient).sum() == pytest.approx(missed, abs=1e-8)
    assert missed < -1


class UnitNoise:
    """Laplace numbers of scale 1 of both kinds; only those of the last iteration are kept."""

    def __init__(self, agents, size):
        self.shape, self.k, self.draws = (2, agents, size), None, None

    def of(self, k):
        if k != self.k:
            self.k, self.draws = k, np.random.default_rng([7, k]).laplace(size=self.shape)
        return self.draws


class Scaled:
    """Noises of one kind for every iteration, at its scale."""

    def __init__(self, unit, kind, sigma):
        self.unit, self.kind, self.sigma = unit, kind, sigma

    def __len__(self):
        return SAMPLED

    def __getitem__(self, k):
        return self.sigma(k) * self.unit.of(k)[self.kind]


ITERATIONS, SAMPLED, REPLICATES = 2000, 300, 2000  # that the table is of; that are drawn
GRAPHS = {"undirected": undirected_ring, "directed": ring}
SETTINGS = {
    "S1": (0.04, 0.005, 0.05, lambda k: (k + 1) ** 0.1),
    "S2": (0.1, 0.01, 0.1, lambda k: 0.9996**2000),
}
# of errata DP-1: the mean state, the distance to it and the sum of trackers
PRINTED = {
    ("undirected", "S1", dp_gt_literal): (14.7, 0.205, 1.38),
    ("undirected", "S1", dp_gt_compact): (0.0, 0.466, 0.0),
    ("directed", "S1", dp_gt_literal): (14.5, 0.407, 1.36),
    ("directed", "S1", dp_gt_compact): (0.0, 0.574, 0.0),
    ("undirected", "S2", dp_gt_literal): (14.6, 0.068, 0.62),
    ("undirected", "S2", dp_gt_compact): (0.0, 0.152, 0.0),
    ("directed", "S2", dp_gt_literal): (14.7, 0.137, 0.63),
    ("directed", "S2", dp_gt_compact): (0.0, 0.195, 0.0),
}


def exact_deviations(weights, setting, literal, iterations):
    """The three standard deviations from the covariance of (x, y), without a draw."""
    alpha, beta, gamma, sigma = SETTINGS[setting]
    L, unit, none = in_laplacian(weights), np.eye(5), np.zeros((5, 5))  # a ring: L1 = L2
    noise = weights if literal else -L
    step = np.block([[unit - alpha * L, -gamma * unit], [none, unit - beta * L]])
    drive = np.block([[alpha * noise, none], [none, beta * noise]])
    covariance = np.zeros((10, 10))
    for k in range(iterations):
        covariance = step @ covariance @ step.T + 2 * sigma(k) ** 2 * drive @ drive.T
    mean = np.full(5, 0.2)
    states, trackers = covariance[:5, :5], covariance[5:, 5:]
    around = unit - np.outer(np.ones(5), mean)
    variances = (
        mean @ states @ mean,
        np.trace(around @ states @ around.T) / 5,
        trackers.sum(),
    )
    return np.sqrt(np.maximum(variances, 0.0))


def test_noise_alone_moves_the_states_as_printed():
    """DP-1's table for the two rings: the covariances give it, and the loops have them."""

    def gradient(agent, x, rows):
        return np.zeros(REPLICATES)

    unit = UnitNoise(5, REPLICATES)
    runs = []
    for graph, setting, method in PRINTED:
        alpha, beta, gamma, sigma = SETTINGS[setting]
        runs.append(
            method.points(
                gradient,
                x0=np.zeros((5, REPLICATES)),
                rows=[[()] * 5] * (SAMPLED + 1),
                zeta=Scaled(unit, 0, sigma),
                eta=Scaled(unit, 1, sigma),
                R=GRAPHS[graph],
                C=GRAPHS[graph],
                alpha=alpha,
                beta=beta,
                gamma=gamma,
            )
        )
    [last] = deque(zip(*runs, strict=True), maxlen=1)
    for ((graph, setting, method), printed), point in zip(PRINTED.items(), last, strict=True):
        mean = point.x.mean(axis=0)
        sampled = (mean.std(), (point.x - mean).std(), point.y.sum(axis=0).std())
        given = (GRAPHS[graph], setting, method is dp_gt_literal)
        # a standard deviation from 2000 replicates has a relative error of 1/√4000 = 1.6 %
        exact = exact_deviations(*given, SAMPLED)
        np.testing.assert_allclose(sampled, exact, rtol=4 * 0.016, atol=1e-6)
        exact = exact_deviations(*given, ITERATIONS)
        np.testing.assert_allclose(exact, printed, rtol=0.03, atol=1e-6)
