"""The reference of the vertical methods, against formulas, schedules worked by hand, and optima.

With one dominator nothing is ever stale, whatever the latency, the sizes of the blocks and the
slowdowns. A block's update by iteration j is due at S + L + τ_ℓ (the dominator's own: at S + τ_a),
and its next answer at S + τ_a + L + r_ℓ, which is later, as r_ℓ = τ_ℓ: the dominator's own update
covers the difference. The single thread is free again too. Hence VFB²-X is X on the pooled data.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from reference_vertical import (
    LOSSES,
    REGULARISERS,
    Result,
    gradient,
    loss_derivative,
    loss_value,
    objective,
    regulariser_gradient,
    regulariser_value,
    saga,
    sgd,
    simulate,
    svrg,
)

METHODS_OF_THE_PAPER = ("sgd", "svrg", "saga")
N, D = 12, 9
WEIGHT = 0.05
UNEVEN = [[3, 0, 7, 8], [5], [1, 6], [2, 4]]


def problem(loss: str = "logistic", n: int = N, d: int = D, seed: int = 0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) / math.sqrt(d)
    scores = X @ random.normal(size=d) + 0.3 * random.normal(size=n)
    return X, np.where(scores > 0, 1.0, -1.0) if loss == "logistic" else scores


def draws(count: int, n: int = N, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(n, size=count)


def pooled(method, X, y, order, step, loss, regulariser, w0, inner):
    """The last iterate of the method that VFB² distributes."""
    rest = (loss, regulariser, WEIGHT)
    if method == "sgd":
        return sgd(X, y, w0, step, order, *rest)[0]
    if method == "saga":
        return saga(X, y, w0, step, order, *rest)[0]
    orders = [order[s : s + inner] for s in range(0, len(order), inner)]
    return svrg(X, y, w0, step, orders, *rest)[0]


def run(
    method, X, y, blocks, order, step=0.1, loss="logistic", regulariser="none", weight=0.0, **rest
):
    """As many updates as samples are given."""
    parts = (X, y, blocks, order, len(order), step, loss, regulariser, weight)
    return simulate(method, *parts, **rest)


def inner_of(method: str, inner: int) -> int | None:
    return inner if method in ("svrg", "afsvrg-vp") else None


# ------------------------------------------------------------------------------------ formulas


@pytest.mark.parametrize("loss", LOSSES)
def test_derivative_of_the_loss_is_that_of_its_value(loss):
    for z, y in itertools.product((-3.0, -0.4, 0.0, 0.7, 5.0), (-1.0, 1.0)):
        h = 1e-6
        slope = (loss_value(loss, z + h, y) - loss_value(loss, z - h, y)) / (2 * h)
        assert loss_derivative(loss, z, y) == pytest.approx(slope, abs=1e-8)


def test_values_known_in_closed_form():
    assert loss_value("logistic", 0.0, 1.0) == pytest.approx(math.log(2))
    assert loss_value("logistic", 1000.0, -1.0) == 1000.0
    assert loss_value("logistic", 1000.0, 1.0) == 0.0
    assert loss_derivative("logistic", 0.0, -1.0) == 0.5
    assert loss_derivative("logistic", 1000.0, -1.0) == 1.0
    assert loss_derivative("logistic", 1000.0, 1.0) == 0.0
    assert loss_value("square", 1.0, 3.0) == 4.0
    assert loss_derivative("square", 1.0, 3.0) == -4.0
    assert loss_value("robust", 1.0, 3.0) == pytest.approx(math.log(3))
    assert loss_derivative("robust", 1.0, 3.0) == pytest.approx(-2 / 3)
    w = np.array([1.0, -2.0])
    assert regulariser_value("l2", 0.5, w) == pytest.approx(1.25)
    assert regulariser_value("nonconvex", 0.5, w) == pytest.approx(0.5 * (1 / 2 + 4 / 5))
    assert regulariser_gradient("l2", 0.5, w) == pytest.approx([0.5, -1.0])
    assert regulariser_gradient("nonconvex", 0.5, w) == pytest.approx([0.25, -0.08])
    assert not regulariser_gradient("none", 0.5, w).any()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_gradient_is_that_of_the_objective(loss, regulariser):
    X, y = problem(loss)
    w = np.random.default_rng(5).normal(size=D)
    h = 1e-6
    slopes = [
        (
            objective(X, y, w + h * e, loss, regulariser, WEIGHT)
            - objective(X, y, w - h * e, loss, regulariser, WEIGHT)
        )
        / (2 * h)
        for e in np.eye(D)
    ]
    assert gradient(X, y, w, loss, regulariser, WEIGHT) == pytest.approx(slopes, abs=1e-8)


# ---------------------------------------------------------------- one dominator: nothing is stale


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", METHODS_OF_THE_PAPER)
@pytest.mark.parametrize(
    ("blocks", "latency", "slowdown"),
    [
        ([[0, 1, 2], [3, 4, 5], [6, 7, 8]], 0.0, [1, 1, 1]),
        ([[0, 1, 2], [3, 4, 5], [6, 7, 8]], 0.5, [1, 1, 1]),
        (UNEVEN, 0.0, [1, 1, 1, 1]),
        (UNEVEN, 100.0, [1, 50, 1, 1.4]),
        (UNEVEN, 0.01, [1, 1, 1.4, 10]),
        (UNEVEN[::-1], 0.3, [1, 1, 1, 40]),
    ],
)
def test_one_dominator_runs_the_method_on_the_pooled_data(method, loss, blocks, latency, slowdown):
    X, y = problem(loss)
    order, w0 = draws(50), np.random.default_rng(3).normal(size=D)
    options = {"latency": latency, "slowdown": slowdown, "w0": w0, "inner": inner_of(method, 20)}
    rest = (0.2, loss, "l2", WEIGHT)
    results = [
        run(method, X, y, blocks, order, *rest, synchronous=mode, **options)
        for mode in (False, True)
    ]
    expected = pooled(method, X, y, order, 0.2, loss, "l2", w0, 20)
    before = pooled(method, X, y, order[:49], 0.2, loss, "l2", w0, 20)
    for result in results:
        np.testing.assert_allclose(result.drained_w, expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(result.w, before, rtol=0, atol=1e-12)
        assert not result.read_delays.any()
        assert result.update_delay_max == 0
        assert result.longest_wait == 0
    # the barrier still costs time: the collaborators' updates end after the dominator's, or with it
    assert results[0].seconds <= results[1].seconds


def test_afsvrg_with_one_dominator_is_svrg_on_its_columns():
    X, y = problem()
    order = draws(50)
    rest = (0.3, "logistic", "l2", WEIGHT)
    result = run("afsvrg-vp", X, y, UNEVEN, order, *rest, inner=20, latency=2.0)
    own = UNEVEN[0]
    orders = [order[:20], order[20:40], order[40:]]
    expected, _ = svrg(X[:, own], y, np.zeros(4), 0.3, orders, "logistic", "l2", WEIGHT)
    np.testing.assert_allclose(result.drained_blocks[0], expected, rtol=0, atol=1e-13)
    for block in result.drained_blocks[1:]:
        assert not block.any()
    assert not result.read_delays.any()


# --------------------------------------------------------------------- schedules worked by hand


def happened(result: Result) -> list[tuple[float, int, int, int]]:
    return [(a.time, a.iteration, a.party, a.delay) for a in result.applications]


def test_schedule_of_two_dominators_and_a_straggler_by_hand():
    # d = (1, 1), slowdown = (1, 3): r = τ = (1, 3); L = 1, D = 1, so S − t = 1 + 3 + 1 = 5.
    X = np.array([[1.0, 2.0], [3.0, -1.0], [-2.0, 0.5]])
    y = np.array([1.0, -2.0, 0.5])
    order, step, weight = [0, 1, 2, 1, 0], 0.1, 0.25
    rest = (step, "square", "l2", weight)
    result = run("sgd", X, y, [[0], [1]], order, *rest, dominators=2, latency=1, slowdown=[1, 3])
    assert [(i.dominator, i.begun, i.summed) for i in result.iterations] == [
        (0, 0, 5),
        (1, 0, 5),
        (0, 6, 11),  # own update at 5 + 1
        (1, 8, 13),  # own update at 5 + 3
        (0, 12, 17),
    ]
    assert happened(result) == [
        (6, 0, 0, 0),
        (7, 1, 0, 1),  # sent at 5, here at 6
        (8, 1, 1, 0),
        (9, 0, 1, 1),
        (12, 2, 0, 0),
        (15, 2, 1, 0),  # sent at 11, here at 12
        (15, 3, 0, 1),  # sent at 13, here at 14
        (16, 3, 1, 1),
        (18, 4, 0, 1),  # answered at 14, before the update of 15
        (21, 4, 1, 0),
    ]
    # Answers of party 0 at t + 2, of party 1 at t + 4: (2, 4), (2, 4), (8, 10), (10, 12), (14, 16);
    # the last one of party 1 sees the update that is due at 16.
    applied_at_read = [[0, 0], [0, 0], [2, 2], [2, 2], [3, 4]]
    assert [
        [i.applied_at_read[0], i.applied_at_read[1]] for i in result.iterations
    ] == applied_at_read
    assert result.read_delays.tolist() == [[0, 0], [1, 1], [0, 0], [1, 1], [1, 0]]
    assert (result.read_delay_max, result.read_delay_mean) == (1, 0.5)
    assert result.applied == 8
    assert (result.update_delay_max, result.update_delay_mean) == (1, 0.5)
    assert (result.seconds, result.drained_seconds) == (17, 21)

    # the same, with the versions of each block written down
    versions = [[0.0], [0.0]]
    thetas = []
    for number, i in enumerate(order):
        z = sum(versions[p][applied_at_read[number][p]] * X[i, p] for p in (0, 1))
        thetas.append(2 * (z - y[i]))
        if number == 1:
            update(versions, thetas, X, order, step, weight, [(0, 0), (1, 0), (1, 1), (0, 1)])
        elif number == 2:
            update(versions, thetas, X, order, step, weight, [(2, 0), (2, 1)])
        elif number == 3:
            update(versions, thetas, X, order, step, weight, [(3, 0), (3, 1)])
    assert [i.theta for i in result.iterations] == pytest.approx(thetas, rel=1e-14)
    assert result.w == pytest.approx([versions[0][4], versions[1][4]], rel=1e-13)
    update(versions, thetas, X, order, step, weight, [(4, 0), (4, 1)])
    assert result.drained_w == pytest.approx([versions[0][5], versions[1][5]], rel=1e-13)


def update(versions, thetas, X, order, step, weight, which) -> None:
    """Append to the versions of a block w − γ (ϑ x + λ w), for each (iteration, block)."""
    for number, p in which:
        w = versions[p][-1]
        versions[p].append(w - step * (thetas[number] * X[order[number], p] + weight * w))


def test_synchronous_schedule_by_hand():
    # As above; after the sums at T + 5 the last update is the straggler's, at T + 5 + 1 + 3.
    X, y = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([1.0, -2.0])
    order, step = [0, 1, 1, 1, 0], 0.1
    options = {"dominators": 2, "synchronous": True, "latency": 1, "slowdown": [1, 3]}
    result = run("sgd", X, y, [[0], [1]], order, step, "square", **options)
    assert [(i.dominator, i.begun, i.summed) for i in result.iterations] == [
        (0, 0, 5),
        (1, 0, 5),
        (0, 9, 14),
        (1, 9, 14),
        (0, 18, 23),
    ]
    assert happened(result) == [
        (6, 0, 0, 0),
        (7, 1, 0, 1),
        (8, 1, 1, 0),
        (9, 0, 1, 1),
        (15, 2, 0, 0),
        (16, 3, 0, 1),
        (17, 3, 1, 0),
        (18, 2, 1, 1),
        (24, 4, 0, 0),
        (27, 4, 1, 0),
    ]
    w = np.zeros(2)
    for pair in (order[0:2], order[2:4]):  # without a regulariser: steps along the sum of two
        w = w - step * sum(2 * (X[i] @ w - y[i]) * X[i] for i in pair)
    assert result.w == pytest.approx(w, rel=1e-13)


def test_snapshots_cut_the_run_by_hand():
    # r = τ = (2, 3), n = 2, L = 1, D = 1: a snapshot, shared by two threads, takes
    # 2·3/2 + 1 + 1 + 1 + 2·3/2 = 9, S − t = 5.
    X, y = np.ones((2, 5)), np.array([1.0, -1.0])
    blocks = [[0, 1], [2, 3, 4]]
    options = {"dominators": 2, "inner": 3, "latency": 1}
    result = run("svrg", X, y, blocks, [0, 1, 0, 1, 0, 1], **options)
    # Sums at 14, 14; dominator 0 begins at 16 and sums at 21, the third of this epoch. Dominator 1
    # had begun at 17 and is dropped. Last update: party 1, at 21 + 1 + 3. Snapshot: 25 to 34.
    assert result.starts == [9, 34]
    assert [(i.dominator, i.begun, i.summed) for i in result.iterations] == [
        (0, 9, 14),
        (1, 9, 14),
        (0, 16, 21),
        (0, 34, 39),
        (1, 34, 39),
        (0, 41, 46),
    ]
    # AFSVRG-VP sends nothing: the third sum at 21, its own update at 23, snapshot until 32.
    alone = run("afsvrg-vp", X, y, blocks, [0, 1, 0, 1], **options)
    assert alone.starts == [9, 32]
    assert happened(alone)[:3] == [(16, 0, 0, 0), (17, 1, 1, 0), (23, 2, 0, 0)]
    # Iteration 2 begins at 16, is answered at 19 and 20, after all earlier updates.
    assert alone.read_delays.tolist() == [[0, 0], [1, 0], [0, 0], [0, 0]]


def test_afsvrg_counts_as_missing_only_what_was_meant_for_the_block():
    X, y = problem()
    options = {"dominators": 2, "inner": 60, "slowdown": [1, 1, 9, 1]}
    result = run("afsvrg-vp", X, y, UNEVEN, draws(60), **options)
    assert not result.read_delays[:, 2:].any()
    assert {a.party for a in result.applications} == {0, 1}
    assert all(result.iterations[a.iteration].dominator == a.party for a in result.applications)
    assert result.update_delay_max == 0  # a dominator's next answer follows its own update


# --------------------------------------------------------------------- properties of the events


CASES = [
    (METHODS_OF_THE_PAPER[k % 3], mode, m, latency, slowdown)
    for k, (mode, m, (latency, slowdown)) in enumerate(
        itertools.product(
            (False, True),
            (1, 2, 3, 4),
            ((0.0, (1, 1, 1, 1)), (0.7, (1, 2.5, 1, 1.4)), (25.0, (1, 1, 3, 1))),
        )
    )
]


def simulated(case, updates: int = 45, **options) -> Result:
    method, mode, m, latency, slowdown = case
    X, y = problem()
    options |= {"dominators": m, "synchronous": mode, "inner": inner_of(method, 20)}
    options |= {"latency": latency, "slowdown": slowdown}
    return run(method, X, y, UNEVEN, draws(updates), 0.2, "logistic", "l2", WEIGHT, **options)


@pytest.mark.parametrize("case", CASES)
def test_every_update_reaches_every_block_once_and_no_message_waits(case):
    result = simulated(case)
    pairs = [(a.iteration, a.party) for a in result.applications]
    assert sorted(pairs) == list(itertools.product(range(45), range(4)))
    times = [a.time for a in result.applications]
    assert times == sorted(times)
    assert all(time <= result.seconds for time in times[: result.applied])
    assert all(time > result.seconds for time in times[result.applied :])
    assert (result.read_delays >= 0).all()
    # A dominator's messages are further apart than max τ, so at most m − 1 others are being
    # applied when one arrives, by k = m threads.
    assert result.longest_wait == 0


@pytest.mark.parametrize("case", CASES)
def test_a_longer_run_begins_like_a_shorter_one(case):
    short, long = simulated(case, updates=25), simulated(case, updates=45)
    assert [i.theta for i in short.iterations] == [i.theta for i in long.iterations[:25]]
    assert short.seconds == long.iterations[24].summed


@pytest.mark.parametrize("case", [case for case in CASES if case[0] == "sgd"])
def test_blocks_and_sums_follow_from_the_order_of_the_applications(case):
    result = simulated(case)
    X, y = problem()
    versions = [[np.zeros(len(columns))] for columns in UNEVEN]
    theta = {i.number: i.theta for i in result.iterations}
    for a in result.applications:
        w, x = versions[a.party][-1], X[result.iterations[a.iteration].sample, UNEVEN[a.party]]
        versions[a.party].append(w - 0.2 * (theta[a.iteration] * x + WEIGHT * w))
    for i in result.iterations:
        z = sum(
            versions[p][i.applied_at_read[p]] @ X[i.sample, UNEVEN[p]] for p in range(len(UNEVEN))
        )
        assert i.theta == pytest.approx(loss_derivative("logistic", z, y[i.sample]), abs=1e-14)
    np.testing.assert_allclose(
        np.concatenate(result.drained_blocks), np.concatenate([v[-1] for v in versions]), atol=1e-14
    )


def test_fewer_threads_than_dominators_serve_in_the_order_of_arrival():
    # r = τ = (1, 1, 1, 4), no latency: three sums at 4, of which party 3 applies one at a time.
    X, y = problem(n=3, d=4)
    options = {"dominators": 3, "slowdown": [1, 1, 1, 4], "threads": 1}
    result = run("sgd", X, y, [[0], [1], [2], [3]], [0, 1, 2], **options)
    assert [(a.time, a.iteration) for a in result.applications if a.party == 3] == [
        (8, 0),
        (12, 1),
        (16, 2),
    ]
    assert result.longest_wait == 8


def test_updates_due_at_the_same_time_are_applied_in_the_order_of_the_sums():
    # Without latency an own update and a collaborative one take the same time.
    X, y = problem(n=4, d=4)
    result = run("sgd", X, y, [[0, 1], [2, 3]], draws(6, 4), dominators=2, latency=0)
    for party in (0, 1):
        mine = [(a.time, a.iteration) for a in result.applications if a.party == party]
        assert mine == [(4, 0), (4, 1), (8, 2), (8, 3), (12, 4), (12, 5)]
    # and an answer includes the updates of its own moment: begun at 4, answered at 6
    assert result.read_delays[:, 0].tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("method", METHODS_OF_THE_PAPER)
def test_fractions_and_dyadic_floats_tell_the_same_times(method):
    X, y = problem()
    runs = [
        run(
            *(method, X, y, UNEVEN, draws(60), 0.2),
            dominators=3,
            inner=inner_of(method, 25),
            seconds_per_feature=number(1) / 8,
            latency=number(3) / 16,
            slowdown=[number(1), number(3) / 2, number(1), number(5) / 4],
        )
        for number in (float, Fraction)
    ]
    assert runs[0].seconds == runs[1].seconds
    np.testing.assert_array_equal(runs[0].drained_w, runs[1].drained_w)
    np.testing.assert_array_equal(runs[0].read_delays, runs[1].read_delays)


# ----------------------------------------------------------------------------------- optima


@pytest.fixture(scope="module")
def optimum():
    X, y = problem(n=40, d=8, seed=7)
    found = optimize.minimize(
        lambda w: objective(X, y, w, "logistic", "l2", 0.1),
        np.zeros(8),
        jac=lambda w: gradient(X, y, w, "logistic", "l2", 0.1),
        tol=1e-14,
    )
    w = found.x
    for _ in range(5):  # Newton's steps end what the line search leaves
        share = 1.0 / (1.0 + np.exp(-(X @ w)))
        hessian = (X.T * (share * (1 - share))) @ X / 40 + 0.1 * np.eye(8)
        w = w - np.linalg.solve(hessian, gradient(X, y, w, "logistic", "l2", 0.1))
    assert np.abs(gradient(X, y, w, "logistic", "l2", 0.1)).max() < 1e-15
    return X, y, w


def test_pooled_saga_and_svrg_reach_the_optimum(optimum):
    X, y, best = optimum
    order = draws(6000, 40)
    rest = ("logistic", "l2", 0.1)
    w, iterates = saga(X, y, np.zeros(8), 0.5, order, *rest)
    assert len(iterates) == 6001
    np.testing.assert_allclose(w, best, atol=1e-12)
    w, iterates = svrg(X, y, np.zeros(8), 0.5, np.split(order, 60), *rest)
    assert len(iterates) == 6001
    np.testing.assert_allclose(w, best, atol=1e-12)
    w, _ = sgd(X, y, np.zeros(8), 0.5, order, *rest)
    assert np.abs(w - best).max() > 1e-3  # a constant step does not get there
