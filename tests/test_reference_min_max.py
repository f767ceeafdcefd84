"""The reference of the min–max methods against itself, by independent routes."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from reference_min_max import (
    TwoLayerNet,
    auc_gradients,
    auc_value,
    auc_value_of_scores,
    best_a,
    best_b,
    best_value,
    best_w,
    best_w_at_rate,
    coda,
    codasca,
    fmgda,
    local_sgda,
    momentum_local_sgda,
    pairwise_squared_loss,
)

STEPS = {"primal_step": 0.3, "dual_step": 0.2}


class Problem:
    """Clients with different data and a small net; minibatches are a function of (i, k) alone."""

    def __init__(self, clients=3, batch=4):
        rng = np.random.default_rng(7)
        self.net = TwoLayerNet(inputs=3, hidden=2)
        self.x = [rng.normal(size=(9, 3)) + 0.7 * i for i in range(clients)]
        self.y = [np.array([1] * (3 + i) + [-1] * (6 - i)) for i in range(clients)]
        # The rate of no client, nor of a batch: a local rate taken for p would show.
        self.p = 0.47
        self.theta0 = np.concatenate([0.8 * rng.normal(size=self.net.size), [0.1, -0.2]])
        self.w0 = 0.3
        self.batch = batch
        self.calls = []

    def gradient(self, i, theta, w, k):
        self.calls.append((i, theta, w, k))
        rows = np.arange(9)
        if self.batch < 9:
            rows = np.random.default_rng([i, k + 1]).choice(9, self.batch, replace=False)
        x, y = self.x[i][rows], self.y[i][rows]
        return auc_gradients(theta[:-2], theta[-2], theta[-1], w, x, y, self.p, self.net)

    def earlier(self, i, theta, w, k):
        """The gradient with all draws one index earlier, as of a method with an initial draw."""
        return self.gradient(i, theta, w, k - 1)

    def start(self, clients, rounds):
        return self.theta0, self.w0, clients, rounds

    def restart(self, i, theta):
        scores = self.net.scores(theta[:-2], self.x[i])
        return best_b(scores, self.y[i]), best_a(scores, self.y[i])


def distance(one, other):
    assert len(one) == len(other)
    return max(
        max(np.max(np.abs(theta - theta2)), abs(w - w2))
        for (theta, w), (theta2, w2) in zip(one, other, strict=True)
    )


def assert_same(one, other):
    assert distance(one, other) < 1e-12


def assert_different(one, other):
    assert distance(one, other) > 1e-5


def central_difference(function, point, step=1e-6):
    slope = np.zeros_like(point)
    for j in range(len(point)):
        e = np.zeros_like(point)
        e[j] = step
        slope[j] = (function(point + e) - function(point - e)) / (2 * step)
    return slope


# --- The net and the objective --------------------------------------------------------------------


def test_the_flat_vector_is_w_by_rows_then_c_v_e():
    net = TwoLayerNet(inputs=2, hidden=2, bounded=False)
    m = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]) / 10
    first = np.tanh(0.1 * 0.4 + 0.2 * -0.3 + 0.5)
    second = np.tanh(0.3 * 0.4 + 0.4 * -0.3 + 0.6)
    z = 0.7 * first + 0.8 * second + 0.9
    x = np.array([0.4, -0.3])
    assert net.size == 9
    assert net.score(m, x) == pytest.approx(z, abs=1e-15)
    assert TwoLayerNet(2, 2).score(m, x) == pytest.approx(1 / (1 + np.exp(-z)), abs=1e-15)


@pytest.mark.parametrize("bounded", [True, False])
def test_gradients_of_the_objective(bounded):
    rng = np.random.default_rng(1)
    net = TwoLayerNet(inputs=3, hidden=4, bounded=bounded)
    x, y, p = rng.normal(size=(6, 3)), np.array([1, -1, 1, 1, -1, 1]), 0.3
    theta, w = rng.normal(size=net.size + 2), 0.4

    def value(point):
        return auc_value(point[:-3], point[-3], point[-2], point[-1], x, y, p, net)

    g_theta, g_w = auc_gradients(theta[:-2], theta[-2], theta[-1], w, x, y, p, net)
    numeric = central_difference(value, np.append(theta, w))
    np.testing.assert_allclose(np.append(g_theta, g_w), numeric, atol=1e-8)


# --- Facts of section C ---------------------------------------------------------------------------


def saddle(scores, y, p):
    """(a, b, w, value) of max over w of min over (a, b), by nested numeric optimisation."""

    def inner(w):
        return minimize(
            lambda ab: auc_value_of_scores(scores, ab[0], ab[1], w, y, p), [0.0, 0.0], tol=1e-12
        )

    outer = minimize_scalar(lambda w: -inner(w).fun, bracket=(-1.0, 1.0), tol=1e-10)
    a, b = inner(outer.x).x
    return a, b, outer.x, -outer.fun


def test_closed_forms_against_an_optimiser_and_the_double_loop():
    rng = np.random.default_rng(2)
    scores, y = rng.uniform(size=12), np.array([1] * 9 + [-1] * 3)
    p = 0.75
    a, b, w, value = saddle(scores, y, p)
    assert best_a(scores, y) == pytest.approx(a, abs=1e-6)
    assert best_b(scores, y) == pytest.approx(b, abs=1e-6)
    assert best_w(scores, y) == pytest.approx(w, abs=1e-6)
    assert best_w_at_rate(scores, y, p) == pytest.approx(best_w(scores, y), abs=1e-15)
    assert best_value(scores, y) == pytest.approx(value, abs=1e-10)
    P = pairwise_squared_loss(scores, y)
    assert best_value(scores, y) == pytest.approx(p * (1 - p) * (P - 1), abs=1e-14)


def test_at_another_rate_than_its_own_a_client_has_another_best_w():
    rng = np.random.default_rng(3)
    scores, y, p = rng.uniform(size=12), np.array([1] * 4 + [-1] * 8), 0.75
    a, b, w, _ = saddle(scores, y, p)
    assert best_a(scores, y) == pytest.approx(a, abs=1e-6)
    assert best_b(scores, y) == pytest.approx(b, abs=1e-6)
    assert best_w_at_rate(scores, y, p) == pytest.approx(w, abs=1e-6)
    assert abs(best_w(scores, y) - w) > 0.1


def test_pairs_of_a_hand_computed_sample():
    # (1 - 0.8 + 0.1)² = 0.09, (1 - 0.8 + 0.5)² = 0.49, the positive first in each pair.
    loss = pairwise_squared_loss(np.array([0.1, 0.8, 0.5]), np.array([-1, 1, -1]))
    assert loss == pytest.approx(0.29, abs=1e-15)


# --- Methods that fall together -------------------------------------------------------------------


def descent_ascent(problem, clients, steps):
    """Full-batch gradient descent–ascent on the mean of the clients."""
    theta, w = problem.theta0, problem.w0
    trace = [(theta, w)]
    for _ in range(steps):
        both = [problem.gradient(i, theta, w, 0) for i in range(clients)]
        theta = theta - STEPS["primal_step"] * sum(g for g, _ in both) / clients
        w = w + STEPS["dual_step"] * sum(g for _, g in both) / clients
        trace.append((theta, w))
    return trace


@pytest.mark.parametrize("clients", [1, 3])
def test_full_batches_and_q_1_are_gradient_descent_ascent(clients):
    problem = Problem(batch=9)
    start = problem.start(clients, 6)
    plain = descent_ascent(problem, clients, 6)
    assert_same(plain, local_sgda(problem.gradient, *start, **STEPS, q=1))
    # Without noise the correction cancels in the mean over clients, for any alpha and beta.
    for alpha, beta in [(0.1, 0.9), (0.0, 0.4), (1.0, 1.0)]:
        run = fmgda(problem.gradient, *start, **STEPS, alpha=alpha, beta=beta, q=1)
        assert_same(plain, run)
    assert_same(plain, coda(problem.gradient, *start, **STEPS, q=1))
    momentum = momentum_local_sgda(problem.gradient, *start, **STEPS, rho=1.0, q=1)
    if clients == 1:
        assert_same(plain, momentum)
        assert_same(plain, codasca(problem.gradient, *start, **STEPS, q=1))
    else:
        # d is computed before the average, already after the first, un-averaged, d: round 1 only.
        assert_same(plain[:2], momentum[:2])
        assert_different(plain, momentum)


@pytest.mark.parametrize("q", [1, 3])
def test_codasca_with_one_client_or_frozen_variates_is_local_sgda(q):
    problem = Problem()
    one, three = problem.start(1, 4), problem.start(3, 4)
    local = local_sgda(problem.gradient, *one, **STEPS, q=q)
    assert_same(codasca(problem.gradient, *one, **STEPS, q=q), local)
    local = local_sgda(problem.gradient, *three, **STEPS, q=q)
    frozen = codasca(problem.gradient, *three, **STEPS, q=q, freeze_variates=True)
    assert_same(frozen, local)
    run = codasca(problem.gradient, *three, **STEPS, q=q)
    if q == 1:
        assert_same(run, local)  # c_i and c change the clients' steps, not the mean of them
    else:
        assert_same(run[:2], local[:2])  # the first round has all variates at zero
        assert_different(run, local)


# --- FMGDA ----------------------------------------------------------------------------------------


def fmgda_in_rows(problem, clients, rounds, alpha, beta, q, overwrite):
    """FMGDA with (theta, w) of a client as one row, ascent as descent on -w's gradient.

    overwrite: the average replaces the clients' previous points too, which FM-4 warns of.
    """
    step = np.append(np.full(len(problem.theta0), STEPS["primal_step"]), -STEPS["dual_step"])
    keep = np.append(np.full(len(problem.theta0), 1 - alpha), 1 - beta)

    def gradients(points, k):
        return np.array([np.append(*problem.gradient(i, p[:-1], p[-1], k))
                         for i, p in enumerate(points)])  # fmt: skip

    now = np.tile(np.append(problem.theta0, problem.w0), (clients, 1))
    estimate = gradients(now, -1)
    trace = [(now[0, :-1], now[0, -1])]
    for t in range(1, rounds * q + 1):
        before = now.copy()
        now = now - step * estimate
        if t % q == 0:
            estimate = np.tile(estimate.mean(axis=0), (clients, 1))
            now = np.tile(now.mean(axis=0), (clients, 1))
            trace.append((now[0, :-1], now[0, -1]))
            if overwrite:
                before = np.tile(before.mean(axis=0), (clients, 1))
        estimate = gradients(now, t - 1) + keep * (estimate - gradients(before, t - 1))
    return trace


@pytest.mark.parametrize("q", [1, 2, 3])
def test_fmgda_against_rows_and_with_the_previous_point_overwritten(q):
    problem = Problem()
    clients, rounds, alpha, beta = 2, 4, 0.1, 0.4
    run = fmgda(
        problem.gradient, *problem.start(clients, rounds), **STEPS, alpha=alpha, beta=beta, q=q
    )
    assert_same(run, fmgda_in_rows(problem, clients, rounds, alpha, beta, q, overwrite=False))
    wrong = fmgda_in_rows(problem, clients, rounds, alpha, beta, q, overwrite=True)
    if q == 1:
        assert_same(run, wrong)  # the previous points are averages anyway
    else:
        assert_same(run[:2], wrong[:2])  # the correction of a sync acts from the next step on
        assert_different(run, wrong)


def test_draws_of_each_method():
    """Which step index each method draws, in order, for one client, two rounds of two steps."""
    problem = Problem()

    def draws(method, **options):
        problem.calls.clear()
        method(problem.gradient, *problem.start(1, 2), **STEPS, q=2, **options)
        return [k for _, _, _, k in problem.calls]

    assert draws(fmgda, alpha=0.1, beta=0.1) == [-1, 0, 0, 1, 1, 2, 2, 3, 3]
    assert draws(momentum_local_sgda, rho=0.1) == [-1, 0, 1, 2, 3]
    for method in (local_sgda, coda, codasca):
        assert draws(method) == [0, 1, 2, 3]
    for method in (coda, codasca):  # the count goes on through stages
        assert draws(method, stages=[(1, 1.0), (1, 0.5)]) == [0, 1, 2, 3]


def test_momentum_by_hand_on_one_number():
    """f = theta²/2 + theta w - w²/2 for one client, q = 1, rho = 1/4, steps 1/2: three steps."""

    def gradient(i, theta, w, k):
        return theta + w, float(theta[0]) - w

    run = momentum_local_sgda(
        gradient, np.array([2.0]), 0.0, 1, 3, primal_step=0.5, dual_step=0.5, rho=0.25, q=1
    )
    # d = (2, 2); to (1, 1); gradients (2, 0); d = 3/4 (2, 2) + 1/4 (2, 0) = (2, 1.5).
    # To (0, 1.75); gradients (1.75, -1.75); d = 3/4 (2, 1.5) + 1/4 (1.75, -1.75).
    expected = [(2.0, 0.0), (1.0, 1.0), (0.0, 1.75), (-0.96875, 2.09375)]
    assert [(theta[0], w) for theta, w in run] == expected


# --- CODA -----------------------------------------------------------------------------------------


def shifted(problem, by, prox=0.0, theta_ref=0.0):
    """The gradient from step index ``by`` on, of the objective with its quadratic term."""

    def gradient(i, theta, w, k):
        g_theta, g_w = problem.gradient(i, theta, w, k + by)
        return g_theta + prox * (theta - theta_ref), g_w

    return gradient


@pytest.mark.parametrize("dual_restart", [True, False])
def test_coda_is_local_sgda_on_one_regularised_objective_per_stage(dual_restart):
    problem = Problem()
    clients, q, prox = 3, 2, 0.4
    run = coda(
        problem.gradient, *problem.start(clients, 5), **STEPS, q=q, prox=prox,
        stages=[(2, 1.0), (3, 0.5)], dual_restart=dual_restart, restart=problem.restart,
    )  # fmt: skip

    first = shifted(problem, 0, prox, problem.theta0)
    expected = local_sgda(first, *problem.start(clients, 2), **STEPS, q=q)
    # The stage's average by another route: local points are evaluated at the next step, except the
    # last ones, whose mean is the last entry of the trace.
    problem.calls.clear()
    local_sgda(first, *problem.start(clients, 2), **STEPS, q=q)
    points = [(theta, w) for _, theta, w, k in problem.calls if k > 0]
    points += [expected[-1]] * clients
    theta_bar = np.mean([theta for theta, _ in points], axis=0)
    w_bar = np.mean([w for _, w in points])
    if dual_restart:
        w_bar = 0.0
        for i in range(clients):
            negative, positive = problem.restart(i, theta_bar)
            w_bar += (negative - positive) / clients
    second = shifted(problem, 2 * q, prox, theta_bar)
    halved = {name: step / 2 for name, step in STEPS.items()}
    expected += local_sgda(second, theta_bar, w_bar, clients, 3, **halved, q=q)[1:]
    assert_same(run, expected)


def test_stage_output_of_coda_with_q_1_is_the_mean_of_its_rounds():
    problem = Problem()
    options = {**STEPS, "q": 1, "prox": 0.1}
    rounds = coda(problem.gradient, *problem.start(3, 4), **options)
    output = coda(problem.gradient, *problem.start(3, 4), **options, stage_output_in_trace=True)
    assert_same(rounds[:-1], output[:-1])
    theta = np.mean([theta for theta, _ in rounds[1:]], axis=0)
    assert_same([output[-1]], [(theta, np.mean([w for _, w in rounds[1:]]))])


def test_dual_restart_is_the_best_w_where_clients_have_equal_counts():
    rng = np.random.default_rng(4)
    scores = [rng.uniform(size=8) for _ in range(3)]
    y = np.array([1] * 6 + [-1] * 2)
    plug_in = np.mean([best_w(s, y) for s in scores])
    pooled = best_w(np.concatenate(scores), np.concatenate([y] * 3))
    assert plug_in == pytest.approx(pooled, abs=1e-15)


# --- CODASCA --------------------------------------------------------------------------------------


def codasca_by_mean_directions(problem, clients, rounds, q, prox, global_step):
    """One stage, with c_i as the plain mean of the local directions G of the last round.

    The identity of option II: the terms of c and c_i telescope out of (start - end) / (I η).
    """
    d = len(problem.theta0)
    step = np.append(np.full(d, STEPS["primal_step"]), -STEPS["dual_step"])
    centre = np.append(problem.theta0, problem.w0)
    reference = centre.copy()
    pull = np.append(np.full(d, prox), 0.0)
    own = np.zeros((clients, d + 1))
    trace = [(centre[:-1], centre[-1])]
    for r in range(rounds):
        common = own.mean(axis=0)
        ends, means = [], []
        for i in range(clients):
            point, directions = centre, []
            for k in range(q):
                G = np.append(*problem.gradient(i, point[:-1], point[-1], r * q + k))
                directions.append(G + pull * (point - reference))
                point = point - step * (directions[-1] - own[i] + common)
            ends.append(point)
            means.append(np.mean(directions, axis=0))
        own = np.array(means)
        centre = (1 - global_step) * centre + global_step * np.mean(ends, axis=0)
        trace.append((centre[:-1], centre[-1]))
    return trace


@pytest.mark.parametrize(("prox", "global_step"), [(0.0, 1.0), (0.3, 1.0), (0.3, 0.6)])
def test_codasca_against_mean_directions(prox, global_step):
    problem = Problem()
    run = codasca(
        problem.gradient, *problem.start(3, 4), **STEPS, q=3, prox=prox, global_step=global_step
    )
    assert_same(run, codasca_by_mean_directions(problem, 3, 4, 3, prox, global_step))


def test_a_stage_of_codasca_is_a_fresh_run_from_the_last_model():
    problem = Problem()
    q, options = 2, {"prox": 0.3, "global_step": 0.8}
    stages = [(2, 1.0), (3, 0.5)]
    run = codasca(problem.gradient, *problem.start(3, 5), **STEPS, q=q, stages=stages, **options)
    first = codasca(problem.gradient, *problem.start(3, 2), **STEPS, q=q, **options)
    halved = {name: step / 2 for name, step in STEPS.items()}
    second = codasca(shifted(problem, 2 * q), *first[-1], 3, 3, **halved, q=q, **options)
    assert_same(run, first + second[1:])


def test_control_variates_remove_the_drift_of_different_clients():
    """Full gradients of quadratics with different curvature: only CODASCA reaches the saddle."""
    curvature, shift = [1.0, 4.0], [np.array([1.0]), np.array([-2.0])]

    def gradient(i, theta, w, k):
        return curvature[i] * (theta - shift[i]) + w, float(theta[0]) - w

    # Mean: 2.5 theta + 3.5 + w = 0 and theta - w = 0.
    exact = -1.0
    steps = {"primal_step": 0.05, "dual_step": 0.05, "q": 8}
    theta, w = codasca(gradient, np.zeros(1), 0.0, 2, 400, **steps)[-1]
    assert theta[0] == pytest.approx(exact, abs=1e-9)
    assert w == pytest.approx(exact, abs=1e-9)
    theta, w = local_sgda(gradient, np.zeros(1), 0.0, 2, 400, **steps)[-1]
    assert abs(theta[0] - exact) > 0.05
