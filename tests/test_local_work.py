"""Epochs with reshuffling, unequal numbers of steps, and steps that change by round."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedprox import FedProx
from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.arithmetic.kernels.drawing import COMPILED
from fedatlas.arithmetic.minibatches import Minibatches, draw_epochs
from fedatlas.arithmetic.randomness import IN_PYTHON, RoundRandom
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.schema.objectives import LinearObjective
from reference import Problem, random_problem
from test_client_weights import SIZES, N, engine_of
from test_methods import Run

each_engine = pytest.mark.parametrize("kind", ["compiled", "torch", "network"])


def rows_of(batch: Minibatches, client: int) -> list[list[int]]:
    """Rows of the client's own steps, within its samples; those it does not take are left out."""
    first = int(batch.starts[client])
    found = []
    for step in range(batch.steps):
        now = batch.at(step)
        rows, share = now.padded()
        if now.sizes[client]:
            found.append([int(row) - first for row in rows[client][share[client] > 0]])
    return found


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 11) | st.none(),
    st.integers(1, 3),
    st.integers(0, 99),
)
def test_an_epoch_is_a_shuffled_pass(sizes, size, epochs, seed):
    offsets, clients = np.cumsum([0, *sizes]), np.arange(len(sizes))
    drawn = [
        draw_epochs(drawing, RoundRandom(seed).at(0), offsets, clients, size, epochs)
        for drawing in (IN_PYTHON, COMPILED)
    ]
    np.testing.assert_array_equal(drawn[0].rows, drawn[1].rows)
    batch, total = drawn[0], epochs * sum(sizes)
    assert batch.gradient_evaluations == total
    assert batch.sequential_gradients == epochs * max(sizes)
    for client, held in enumerate(sizes):
        steps = rows_of(batch, client)
        each = 1 if size is None else -(-held // size)
        assert len(steps) == epochs * each == batch.steps_of_clients[client]
        for epoch in range(epochs):
            own = steps[epoch * each : (epoch + 1) * each]
            assert [len(step) for step in own[:-1]] == [size] * (each - 1)
            assert sorted(row for step in own for row in step) == list(range(held))


def test_epochs_shuffle_anew():
    batch = draw_epochs(IN_PYTHON, RoundRandom(0).at(0), np.array([0, 50]), np.array([0]), 10, 2)
    first, second = np.split(batch.rows[0].ravel(), 2)
    assert (first != second).any() and (first != np.sort(first)).any()


def by_hand(kind: str, problem: Problem, engine: HorizontalProblem, batch: Minibatches, x: Any):
    """Final models of plain loops, for each client on its own: y ← y − η (∇f + c + μ (y − x))."""
    found = []
    for client in range(len(batch.starts)):
        y = x.copy()
        for rows in rows_of(batch, client):
            if kind == "network":  # logistic regression with an intercept, by its formula
                a, b = (part[rows] for part in problem.clients[client])
                slopes = -b / (1 + np.exp(b * (a @ y[:-1] + y[-1]))) / len(rows)
                gradient = np.append(slopes @ a, slopes.sum())
            else:
                gradient = problem.client_gradient(client, y, rows)
            y = y - 0.2 * (gradient + 0.1 * (client + 1) + 0.5 * (y - x))
        found.append(y)
    return np.array(found)


@each_engine
@pytest.mark.parametrize("draw", ["epochs", "steps", "whole"])
def test_clients_stop_when_they_have_finished(kind: str, draw: str) -> None:
    problem = random_problem(LinearObjective(name="logistic_l2", weight=0.1), SIZES, 4, seed=1)
    engine, everyone = engine_of(kind, "equal"), np.arange(N)
    counting = engine.counting(engine._counters)
    random, steps = RoundRandom(5).at(0), np.array([2, 0, 5, 1, 3, 5])
    batch = (
        counting.epochs(random, everyone, 2, 3)
        if draw == "epochs"
        else counting.minibatches(random, everyone, None if draw == "whole" else 2, steps)
    )
    if draw != "epochs":
        np.testing.assert_array_equal(batch.steps_of_clients, steps)
    x = np.random.default_rng(0).normal(size=engine.dimension)
    correction = engine.array(np.outer(0.1 * (everyone + 1), np.ones(engine.dimension)))
    y = counting.local_sgd(engine.array(x), batch, 0.2, correction, proximal_weight=0.5)
    expected = by_hand(kind, problem, engine, batch, x)
    np.testing.assert_allclose(engine.numpy(y), expected, rtol=0, atol=1e-13)
    # A loop of a method's own, by `moved`.
    own = engine.array(x)
    for step in range(batch.steps):
        now = batch.at(step)
        direction = counting.gradient(own, now) + correction + 0.5 * (own - engine.array(x))
        own = counting.moved(own, own - 0.2 * direction, now)
    np.testing.assert_allclose(engine.numpy(own), expected, rtol=0, atol=1e-13)
    # The recursive estimator, from its definition.
    g = engine.array(np.ones((N, engine.dimension)))
    start = engine.array(np.tile(x, (N, 1)))
    found = counting.local_recursive_steps(start, engine.array(x), g, batch, 0.1)
    for client in range(N):
        y_own, before, estimate = x, x, np.ones(engine.dimension)
        for step in range(batch.steps):
            now = batch.at(step)
            if now.sizes[client] == 0:
                continue
            one = now.of_clients(slice(client, client + 1))
            new, old = (
                engine.numpy(engine.client_gradients(engine.array(point[None]), one))[0]
                for point in (y_own, before)
            )
            estimate = new - old + estimate
            before, y_own = y_own, y_own - 0.1 * estimate
        np.testing.assert_allclose(engine.numpy(found)[client], y_own, rtol=0, atol=1e-13)


def test_equal_steps_by_client_are_steps() -> None:
    """Bit for bit, and counted alike."""
    engine = engine_of("compiled", "equal")
    x, found = np.ones(engine.dimension), []
    for steps in (3, np.full(N, 3)):
        batch = engine.minibatches(RoundRandom(0).at(0), np.arange(N), 2, steps)
        counted = batch.gradient_evaluations, batch.sequential_gradients, batch.steps
        found.append((engine.local_sgd(x, batch, 0.1), counted))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


WORK = {"clients_per_round": 3, "local_steps": 2, "batch_size": 2, "local_unit": "epochs"}


@pytest.mark.parametrize(
    "method",
    [
        FedAvg(**WORK, local_step_size=0.2),
        FedProx(**WORK, local_step_size=0.2, proximal_weight=0.4),
    ],
    ids=["FedAvg", "FedProx"],
)
@each_engine
def test_methods_work_by_epochs(method: Any, kind: str) -> None:
    """The server's step is the mean of the clients' progress; it goes down."""
    engine = engine_of(kind, "equal")
    run = Run(method, engine, x0=np.zeros(engine.dimension))
    before = engine.measure(engine.array(run.x0))["objective"]
    for _ in range(15):
        run.round()
    assert engine.measure(run.state.x)["objective"] < before - 0.02
    assert run.counters.gradient_evaluations <= 15 * 2 * sum(sorted(SIZES)[-3:])


def test_scaffold_divides_by_each_clients_own_steps() -> None:
    """With whole participation and option II, c_i is the mean of the gradients that i took."""
    engine = engine_of("network", "equal")
    method = Scaffold(**WORK | {"clients_per_round": N}, local_step_size=0.1)
    run = Run(method, engine, x0=np.zeros(engine.dimension))
    draws = run.round()
    del draws
    random = RoundRandom(0).at(0)
    batch = engine.epochs(random, random.sample(N, N), 2, 2)
    own, taken = engine.array(np.zeros(engine.dimension)), []
    for step in range(batch.steps):
        now = batch.at(step)
        taken.append(engine.client_gradients(own, now))
        own = engine.moved(own, own - 0.1 * taken[-1], now)
    mean = torch.stack(taken).sum(0) / torch.as_tensor(batch.steps_of_clients)[:, None]
    np.testing.assert_allclose(run.state.client_c.table, mean, rtol=0, atol=1e-14)


def test_steps_change_by_round() -> None:
    """A run with factors is one whose step is changed by hand."""
    engine = engine_of("compiled", "equal")
    shared = {"clients_per_round": 3, "local_steps": 2, "batch_size": 2}
    method = FedAvg(**shared, local_step_size=0.4, step_factors={3: 0.5, 6: 0.25})
    run, other = Run(method, engine), Run(FedAvg(**shared, local_step_size=0.4), engine)
    for number in range(9):
        factor = 1 if number < 3 else 0.5 if number < 6 else 0.25
        other.algorithm = FedAvg(**shared, local_step_size=0.4 * factor)
        run.round(), other.round()
        np.testing.assert_array_equal(run.x, other.x)
