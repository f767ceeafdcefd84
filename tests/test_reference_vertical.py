"""The reference of the vertical methods, against schedules worked by hand."""

import numpy as np
import pytest

from reference_vertical import Result, simulate

UNEVEN = [[3, 0, 7, 8], [5], [1, 6], [2, 4]]


def problem(n: int, d: int):
    random = np.random.default_rng(0)
    return random.normal(size=(n, d)), random.choice([-1.0, 1.0], n)


def draws(count: int, n: int) -> np.ndarray:
    return np.random.default_rng(1).integers(n, size=count)


def run(
    method, X, y, blocks, order, step=0.1, loss="logistic", regulariser="none", weight=0.0, **rest
):
    """As many updates as samples are given."""
    parts = (X, y, blocks, order, len(order), step, loss, regulariser, weight)
    return simulate(method, *parts, **rest)


def happened(result: Result) -> list[tuple[float, int, int, int]]:
    return [(a.time, a.iteration, a.party, a.delay) for a in result.applications]


def test_schedule_of_two_dominators_and_a_straggler_by_hand():
    # d = (1, 1), slowdown = (1, 3): r = τ = (1, 3); L = 1, D = 1, so S − t = 1 + 3 + 1 = 5.
    X = np.array([[1.0, 2.0], [3.0, -1.0], [-2.0, 0.5]])
    y = np.array([1.0, -2.0, 0.5])
    options = {"dominators": 2, "latency": 1, "slowdown": [1, 3]}
    result = run("sgd", X, y, [[0], [1]], [0, 1, 2, 1, 0], 0.1, "square", "l2", 0.25, **options)
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
    X, y = problem(12, 9)
    options = {"dominators": 2, "inner": 60, "slowdown": [1, 1, 9, 1]}
    result = run("afsvrg-vp", X, y, UNEVEN, draws(60, 12), **options)
    assert not result.read_delays[:, 2:].any()
    assert {a.party for a in result.applications} == {0, 1}
    assert all(result.iterations[a.iteration].dominator == a.party for a in result.applications)
    assert result.update_delay_max == 0  # a dominator's next answer follows its own update


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
