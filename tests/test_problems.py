"""The oracle: gradients, losses, local steps, minibatches and what they are counted as.

Every engine is held against tests/reference.py, against torch's automatic differentiation of
formulas written here, against finite differences of its own objective, and against the other one.
"""

import json
import operator
import os
import subprocess
import sys
from collections import Counter
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.arithmetic.client_rows import ChunkedRows
from fedatlas.arithmetic.kernels.drawing import COMPILED, CompiledRandom
from fedatlas.arithmetic.minibatches import Minibatches, draw
from fedatlas.arithmetic.randomness import IN_PYTHON, RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.horizontal.torch_engine import TorchEngine
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import LinearObjective
from reference import (
    OBJECTIVES,
    Problem,
    by_autograd,
    objective_of,
    random_problem,
    shard_of,
)

ENGINES = ("compiled", "torch")
RAGGED = (4, 1, 7, 3, 5)

every_engine = pytest.mark.parametrize("kind", ENGINES)
every_objective = pytest.mark.parametrize("name", OBJECTIVES)
few_examples = settings(max_examples=25, deadline=None, derandomize=True)


def engine_of(kind: str, problem: Problem, name: str, layout: str = "sparse") -> HorizontalProblem:
    objective = objective_of(name, problem.constant or 0.1)
    data = shard_of(problem, layout)
    if kind == "torch":
        return TorchEngine(data, objective, "cpu")
    return CompiledEngine(data, objective)


def numpy_of(engine: HorizontalProblem, array: Any) -> np.ndarray:
    return engine.numpy(array).copy()


def local_rows(batch: Minibatches, client: int, step: int) -> np.ndarray:
    """Which of its own samples the client-th client of the batch uses at a step."""
    size = batch.sizes[client]
    if batch.rows.size == 0:
        return np.arange(size)
    return batch.rows[client, step, :size] - batch.starts[client]


def toy(name: str, seed: int = 0, sizes: tuple[int, ...] = RAGGED, dimension: int = 6) -> Problem:
    return random_problem(objective_of(name), sizes, dimension, seed)


# ------------------------------------------------------------------- gradients and objectives


@every_engine
@every_objective
def test_gradients_and_objective_match_automatic_differentiation(kind: str, name: str) -> None:
    problem = toy(name)
    engine = engine_of(kind, problem, name)
    x = np.random.default_rng(1).normal(size=6)
    clients = np.arange(len(RAGGED))
    batch = engine.minibatches(RoundRandom(0), clients, None, 1)
    gradients = numpy_of(engine, engine.client_gradients(engine.array(x), batch))
    values = []
    for client in clients:
        point = torch.tensor(x, requires_grad=True)
        value = by_autograd(name, problem.constant, *problem.clients[client], point)
        value.backward()
        values.append(float(value.detach()))
        np.testing.assert_allclose(gradients[client], point.grad.numpy(), rtol=0, atol=1e-12)
    measured = engine.measure(engine.array(x))
    assert measured["objective"] == pytest.approx(np.mean(values), abs=1e-12)


@every_engine
@every_objective
@pytest.mark.parametrize("layout", ["sparse", "dense"])
def test_measurements_match_the_reference(kind: str, name: str, layout: str) -> None:
    problem = toy(name)
    engine = engine_of(kind, problem, name, layout)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=6)
        measured = engine.measure(engine.array(x))
        assert measured["objective"] == pytest.approx(problem.value(x), abs=1e-12)
        norm = float(np.linalg.norm(problem.gradient(x)))
        assert measured["gradient_norm"] == pytest.approx(norm, abs=1e-12)
        agreeing = [(a @ x > 0) == (b > 0) for rows, labels in problem.clients
                    for a, b in zip(rows, labels, strict=True)]  # fmt: skip
        assert measured["train_accuracy"] == pytest.approx(np.mean(agreeing), abs=1e-15)


@every_engine
@every_objective
@pytest.mark.parametrize("size", [None, 1, 3])
def test_minibatch_gradients_match_the_reference(kind: str, name: str, size: int | None) -> None:
    problem = toy(name)
    engine = engine_of(kind, problem, name)
    random = np.random.default_rng(3)
    clients = np.array([0, 2, 3])
    batch = engine.minibatches(RoundRandom(5).at(2), clients, size, 1)
    for points in (random.normal(size=6), random.normal(size=(3, 6))):
        gradients = numpy_of(engine, engine.client_gradients(engine.array(points), batch))
        for s, i in enumerate(clients):
            point = points if points.ndim == 1 else points[s]
            expected = problem.client_gradient(i, point, local_rows(batch, s, 0))
            np.testing.assert_allclose(gradients[s], expected, rtol=0, atol=1e-12)


@every_engine
@every_objective
@pytest.mark.parametrize("size", [None, 2])
@pytest.mark.parametrize("corrected", [False, True])
def test_local_sgd_is_the_loop_it_claims_to_be(
    kind: str, name: str, size: int | None, corrected: bool
) -> None:
    problem = toy(name)
    engine = engine_of(kind, problem, name)
    random = np.random.default_rng(4)
    clients, steps, step_size = np.array([0, 2, 4]), 5, 0.2
    batch = engine.minibatches(RoundRandom(6).at(3), clients, size, steps)
    x, shift = random.normal(size=6), random.normal(size=(3, 6)) * corrected
    correction = engine.array(shift) if corrected else None
    found = numpy_of(engine, engine.local_sgd(engine.array(x), batch, step_size, correction))
    for s, i in enumerate(clients):
        y = x.copy()
        for k in range(steps):
            g = problem.client_gradient(i, y, local_rows(batch, s, k))
            y = y - step_size * (g + shift[s])
        np.testing.assert_allclose(found[s], y, rtol=0, atol=1e-12)


@every_engine
@every_objective
@pytest.mark.parametrize("size", [None, 1])
@pytest.mark.parametrize("common_previous", [False, True])
def test_recursive_steps_are_the_loop_they_claim_to_be(
    kind: str, name: str, size: int | None, common_previous: bool
) -> None:
    problem = toy(name)
    engine = engine_of(kind, problem, name)
    random = np.random.default_rng(5)
    clients, steps, step_size = np.array([0, 2, 4]), 5, 0.2
    batch = engine.minibatches(RoundRandom(7).at(1), clients, size, steps)
    start, estimate = random.normal(size=(3, 6)), random.normal(size=(3, 6))
    previous = random.normal(size=6) if common_previous else random.normal(size=(3, 6))
    arguments = (engine.array(part) for part in (start, previous, estimate))
    found = numpy_of(engine, engine.local_recursive_steps(*arguments, batch, step_size))
    for s, i in enumerate(clients):
        y, g = start[s], estimate[s]
        before = previous if common_previous else previous[s]
        for k in range(steps):
            rows = local_rows(batch, s, k)
            new, old = (problem.client_gradient(i, point, rows) for point in (y, before))
            g = new - old + g
            before, y = y, y - step_size * g
        np.testing.assert_allclose(found[s], y, rtol=0, atol=1e-12)


# ------------------------------------------------------------------------ one engine, the other


@few_examples
@given(
    name=st.sampled_from(OBJECTIVES),
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any),
    dimension=st.integers(1, 5),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    layout=st.sampled_from(["sparse", "dense"]),
    size=st.none() | st.integers(1, 7),
    steps=st.integers(1, 4),
    seed=st.integers(0, 10_000),
)
def test_both_engines_agree(
    name: str,
    sizes: list[int],
    dimension: int,
    density: float,
    layout: str,
    size: int | None,
    steps: int,
    seed: int,
) -> None:
    problem = random_problem(objective_of(name), sizes, dimension, seed, density)
    engines = [engine_of(kind, problem, name, layout) for kind in ENGINES]
    random = np.random.default_rng(seed)
    clients = np.flatnonzero(random.random(len(sizes)) < 0.7)
    if sum(sizes[client] for client in clients) == 0:
        clients = np.arange(len(sizes))
    x = random.normal(size=dimension)
    start, previous, shift = random.normal(size=(3, len(clients), dimension))
    results = []
    for engine in engines:
        batch = engine.minibatches(RoundRandom(seed).at(3), clients, size, steps)
        one = engine.array
        results.append(
            [
                engine.client_gradients(one(x), batch.at(0)),
                engine.client_gradients(one(start), batch.at(steps - 1)),
                engine.local_sgd(one(x), batch, 0.1, None),
                engine.local_sgd(one(x), batch, 0.1, one(shift)),
                engine.local_recursive_steps(one(start), one(x), one(shift), batch, 0.1),
                engine.local_recursive_steps(one(start), one(previous), one(shift), batch, 0.1),
                one(np.array(list(engine.measure(one(x)).values()))),
            ]
        )
    assert engines[0].smoothness == engines[1].smoothness
    for first, second in zip(*results, strict=True):
        np.testing.assert_allclose(
            numpy_of(engines[0], first), numpy_of(engines[1], second), rtol=1e-12, atol=1e-12
        )


@every_engine
@every_objective
def test_a_client_without_samples_has_only_its_regulariser(kind: str, name: str) -> None:
    problem = toy(name, sizes=(3, 0, 2))
    engine = engine_of(kind, problem, name)
    x = np.linspace(-1.0, 2.0, 6)
    batch = engine.minibatches(RoundRandom(0), np.arange(3), 2, 1)
    gradients = numpy_of(engine, engine.client_gradients(engine.array(x), batch))
    penalty = {
        "robust_regression": 0 * x,
        "logistic_nonconvex": 0.1 * 2 * x / (1 + x**2) ** 2,
        "logistic_l2": 0.1 * x,
        "ridge_regression": 0.1 * x,
    }[name]
    np.testing.assert_allclose(gradients[1], penalty, rtol=0, atol=1e-15)


# ------------------------------------------------------------------------------------ extremes


@every_engine
@every_objective
@pytest.mark.parametrize("margin", [-1e4, 1e4, -1e8, 1e8])
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_extreme_margins_stay_finite_and_right(
    kind: str, name: str, margin: float, label: float
) -> None:
    rows = np.array([[margin, 0.0]])  # at x = e_1 its margin is `margin`; ∂f/∂x_1 = margin · ℓ'
    loss = {"robust_regression": "robust", "ridge_regression": "square"}.get(name, "logistic")
    engine = engine_of(kind, Problem([(rows, np.array([label]))], loss), name)
    x = np.array([1.0, 0.0])
    batch = engine.minibatches(RoundRandom(0), np.array([0]), None, 1)
    gradient = numpy_of(engine, engine.client_gradients(engine.array(x), batch))[0]
    value = engine.measure(engine.array(x))["objective"]
    penalty, slope = {
        "robust_regression": (0.0, 0.0),
        "logistic_nonconvex": (0.1 / 2, 0.1 * 2 / 4),
        "logistic_l2": (0.1 / 2, 0.1),
        "ridge_regression": (0.1 / 2, 0.1),
    }[name]
    if loss == "robust":
        residual = margin - label
        expected = np.log1p(residual**2 / 2)
        derivative = residual / (1 + residual**2 / 2)
    elif loss == "square":
        residual = margin - label
        expected, derivative = residual**2, 2 * residual
    else:
        wrong = label * margin < 0
        expected, derivative = (abs(margin), -label) if wrong else (0.0, 0.0)
    assert value == pytest.approx(expected + penalty, rel=1e-12)
    assert gradient[0] == pytest.approx(margin * derivative + slope, rel=1e-12, abs=1e-200)
    assert gradient[1] == 0.0
    moved = engine.local_sgd(engine.array(x), batch, 1e-3, None)
    assert np.isfinite(numpy_of(engine, moved)).all()


# ---------------------------------------------------------------------------------- smoothness


@few_examples
@given(
    name=st.sampled_from(OBJECTIVES),
    scale=st.sampled_from([0.1, 1.0, 5.0]),
    distance=st.sampled_from([1e-3, 0.1, 1.0, 10.0]),
    weight=st.sampled_from([1e-4, 0.1, 2.0]),
    seed=st.integers(0, 10_000),
)
def test_smoothness_bounds_every_sample(
    name: str, scale: float, distance: float, weight: float, seed: int
) -> None:
    """FedPAGE Assumption 2.1: ‖∇f_ij(x) − ∇f_ij(y)‖ ≤ L ‖x − y‖; here every client is a sample."""
    problem = random_problem(objective_of(name, weight), [1] * 8, 4, seed, scale=scale)
    oracle = engine_of("compiled", problem, name).counting(Counters())
    random = np.random.default_rng(seed)
    batch = oracle.minibatches(RoundRandom(0), np.arange(8), None)
    x = random.normal(size=4) * random.choice([0.0, 0.3, 3.0])
    y = x + distance * random.normal(size=4)
    apart = np.linalg.norm(oracle.gradient_difference(x, y, batch), axis=1)
    assert (apart <= oracle.smoothness * np.linalg.norm(x - y) * (1 + 1e-9) + 1e-13).all()


@every_objective
def test_smoothness_is_the_least_such_constant(name: str) -> None:
    """Where the curvature is largest, along the longest row, the bound is attained."""
    problem = toy(name)
    engine = engine_of("compiled", problem, name)
    rows = np.concatenate([rows for rows, _ in problem.clients])
    label = np.concatenate([label for _, label in problem.clients])
    j = int(np.linalg.norm(rows, axis=1).argmax())
    a, length = rows[j], np.linalg.norm(rows[j])
    x = a * label[j] / length**2 if name == "robust_regression" else np.zeros(6)
    h = 1e-4 * a / length
    one = Problem([(rows[j : j + 1], label[j : j + 1])], problem.loss, problem.regulariser, 0.1)
    curvature = np.linalg.norm(one.gradient(x + h) - one.gradient(x)) / np.linalg.norm(h)
    assert curvature == pytest.approx(engine.smoothness, rel=1e-3)
    assert curvature <= engine.smoothness


# ---------------------------------------------------------------------------------- minibatches


@few_examples
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    size=st.none() | st.integers(1, 10),
    steps=st.integers(1, 4),
    seed=st.integers(0, 10_000),
)
def test_minibatches_hold_distinct_rows_of_their_client(
    sizes: list[int], size: int | None, steps: int, seed: int
) -> None:
    name = "robust_regression"
    problem = random_problem(objective_of(name), sizes, 2, 0)
    engine = engine_of("compiled", problem, name)
    counters = Counters()
    oracle = engine.counting(counters)
    clients = np.flatnonzero(np.random.default_rng(seed).random(len(sizes)) < 0.7)
    clients = clients if len(clients) else np.array([len(sizes) - 1])
    batch = oracle.minibatches(RoundRandom(seed).at(1), clients, size, steps)
    expected = [sizes[i] if size is None else min(size, sizes[i]) for i in clients]
    np.testing.assert_array_equal(batch.sizes, expected)
    assert batch.steps == steps
    for s, i in enumerate(clients):
        for k in range(steps):
            rows = local_rows(batch, s, k)
            assert len(set(rows.tolist())) == expected[s]
            assert rows.min() >= 0
            assert rows.max() < sizes[i]
            np.testing.assert_array_equal(rows, local_rows(batch.at(k), s, 0))
    # Drawing is free; using a batch costs its rows at every step, twice for two points.
    assert counters == Counters()
    assert batch.gradient_evaluations == steps * sum(expected)
    x = np.zeros(2)
    y = np.zeros((len(clients), 2))
    oracle.gradient(x, batch.at(0))
    assert counters == Counters(
        gradient_evaluations=sum(expected), iteration=1, sequential_gradients=max(expected)
    )
    oracle.gradient_difference(x, x, batch.at(0))
    assert counters == Counters(
        gradient_evaluations=3 * sum(expected), iteration=2, sequential_gradients=3 * max(expected)
    )
    oracle.local_sgd(x, batch, 0.1)
    assert counters.gradient_evaluations == (3 + steps) * sum(expected)
    oracle.local_recursive_steps(y, x, y, batch, 0.1)
    assert counters.gradient_evaluations == (3 + 3 * steps) * sum(expected)
    assert counters.iteration == 2 + 2 * steps
    oracle.measure(x)
    assert counters.gradient_evaluations == (3 + 3 * steps) * sum(expected)
    assert counters.bytes_down == counters.bytes_up == counters.messages == 0


def test_logistic_losses_refuse_other_labels() -> None:
    problem = toy("logistic_l2")
    rows, labels = problem.clients[0]
    problem.clients[0] = (rows, labels + 2.0)
    with pytest.raises(FedatlasError, match="needs labels ±1"):
        engine_of("compiled", problem, "logistic_l2", "dense")


def test_minibatches_are_uniform_and_independent() -> None:
    """All 20 subsets of 3 of 6 rows, every place in them, and pairs of consecutive steps."""
    name = "robust_regression"
    engine = engine_of("compiled", toy(name, sizes=(9, 6, 4), dimension=2), name)
    draws = 20_000
    batch = engine.minibatches(RoundRandom(11).at(4), np.array([1, 2]), 3, draws)
    rows = batch.rows - batch.starts[:, None, None]
    subsets = Counter(tuple(row) for row in np.sort(rows[0], axis=1).tolist())
    assert set(subsets) == set(combinations(range(6), 3))
    assert stats.chisquare(list(subsets.values())).pvalue > 1e-3
    for client, population in enumerate((6, 4)):
        for place in range(3):
            count = np.bincount(rows[client, :, place], minlength=population)
            assert stats.chisquare(count).pvalue > 1e-3
    for first, second in ((rows[0, :-1, 0], rows[0, 1:, 0]), (rows[0, :, 0], rows[1, :, 0])):
        table = np.zeros((6, int(second.max()) + 1))
        np.add.at(table, (first, second), 1)
        assert stats.chi2_contingency(table).pvalue > 1e-3


@few_examples
@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    size=st.none() | st.integers(1, 13),
    steps=st.integers(1, 3),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_compiled_loops_draw_what_those_in_python_draw(
    sizes: list[int], size: int | None, steps: int, seed: int, data: Any
) -> None:
    offsets = np.cumsum([0, *sizes])
    chosen = st.lists(st.sampled_from(range(len(sizes))), unique=True, min_size=1)
    clients = np.array(sorted(data.draw(chosen)))
    drawn = [
        draw(loops, RoundRandom(seed).at(2), offsets, clients, size, steps)
        for loops in (IN_PYTHON, COMPILED)
    ]
    assert_same_minibatches(*drawn)
    assert drawn[0].samples == drawn[0].sizes.sum()
    assert drawn[0].largest == drawn[0].sizes.max()


def test_only_long_trainings_of_networks_load_a_compiler() -> None:
    program = """
import sys
import fedatlas.federations.decentralised.torch_engine, fedatlas.federations.min_max.engine
from fedatlas.arithmetic.minibatches import loop_for

for minibatches, compiler in ((10_000, False), (100_000, True)):
    loop_for(minibatches)
    assert ("numba" in sys.modules) == compiler, sorted(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def assert_same_minibatches(one: Minibatches, other: Minibatches) -> None:
    for field in fields(Minibatches):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


# --------------------------------------------------------------------------------------- draws


def test_rounds_have_their_own_streams() -> None:
    def draws(random: RoundRandom) -> list[Any]:
        return [random.bernoulli(0.5), *random.sample(50, 5), *random.uniform(4)]

    forward = RoundRandom(1)
    in_order = [draws(forward.at(r)) for r in range(6)]
    backward = RoundRandom(1)
    in_reverse = [draws(backward.at(r)) for r in reversed(range(6))]
    assert in_order == in_reverse[::-1]
    assert all(a[1:] != b[1:] for a, b in combinations(in_order, 2))
    other = RoundRandom(2)
    assert all(draws(other.at(r))[1:] != in_order[r][1:] for r in range(6))
    # Odd numbers of draws in a round, or none, leave no trace in the next.
    forward.at(0).uniform(3)
    assert draws(forward.at(1)) == in_order[1]
    # However much a round draws, it does not run into the streams of its neighbours.
    long = [forward.at(r).uniform(5000) for r in range(4)]
    assert len(np.unique(np.concatenate(long))) == 20_000


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_compiled_streams_are_numpys(data):
    """In any order of draws, before and after numpy's generator itself is asked."""
    seed, number = data.draw(st.integers(0, 2**64)), data.draw(st.integers(0, 2**63))
    streams = RoundRandom(seed), CompiledRandom(seed)
    for random in streams:
        random.at(data.draw(st.just(5))).uniform(3)  # another round, which leaves no trace
        random.at(number)
    for _ in range(data.draw(st.integers(1, 6))):
        kind = data.draw(st.sampled_from(["uniform", "sample", "bernoulli", "indices", "key"]))
        if kind == "sample":
            most = data.draw(
                st.sampled_from([1, 2, 65, 500, 10_000, 10_001, 200_000, 2**31 + 2**30])
            )
            values: Any = (most, data.draw(st.integers(0, min(most, 501))))
        else:
            shapes = st.lists(st.integers(0, 7), min_size=1, max_size=3)
            values = {
                "uniform": data.draw(shapes),
                "bernoulli": [0.5],
                "indices": [9, 3],
                "key": [],
            }[kind]
        one, other = (getattr(random, kind)(*values) for random in streams)
        np.testing.assert_array_equal(one, other, strict=True)


def test_coins_fall_as_often_as_asked() -> None:
    random = RoundRandom(5)
    for probability in (0.0, 0.1, 0.7, 1.0):
        heads = sum(random.at(r).bernoulli(probability) for r in range(4000))
        slack = 4 * np.sqrt(4000 * probability * (1 - probability))
        assert abs(heads - 4000 * probability) <= slack


def test_clients_are_sampled_uniformly_without_replacement() -> None:
    random = RoundRandom(6)
    samples = [tuple(random.at(r).sample(5, 2).tolist()) for r in range(4000)]
    count = Counter(samples)
    assert set(count) == set(combinations(range(5), 2))  # ascending, distinct
    assert stats.chisquare(list(count.values())).pvalue > 1e-3
    np.testing.assert_array_equal(random.at(0).sample(5, 5), np.arange(5))


# ------------------------------------------------------------------- test rows


@every_engine
def test_test_rows_are_measured_and_nothing_else_changes(kind):
    problem = toy("logistic_l2")
    objective, data = objective_of("logistic_l2", 0.1), shard_of(problem, "sparse")
    generator = np.random.default_rng(3)
    rows, label = generator.normal(size=(9, 6)), np.where(np.arange(9) % 3, 1.0, -1.0)
    for layout in (rows, sparse.csr_array(rows)):
        tested = replace(data, test=Samples(np.arange(9), label, layout))
        engines = [
            TorchEngine(held, objective, "cpu")
            if kind == "torch"
            else CompiledEngine(held, objective)
            for held in (data, tested)
        ]
        x = generator.normal(size=6)
        without, measured = (engine.measure(engine.array(x)) for engine in engines)
        assert measured.pop("test_accuracy") == np.mean(np.sign(rows @ x) == label)
        assert measured == without


def test_images_are_not_for_linear_models():
    data = shard_of(toy("robust_regression"), "dense")
    pixels = replace(data.samples, features=np.zeros(data.samples.features.shape, np.uint8))
    with pytest.raises(FedatlasError, match="holds images"):
        CompiledEngine(replace(data, samples=pixels), objective_of("robust_regression"))


OPERATIONS = (operator.add, operator.sub, operator.mul, operator.truediv)


def in_chunks(values, at_once: int) -> ChunkedRows:
    return ChunkedRows(tuple(values.shape), at_once, lambda chunk: values[chunk] + 0.0, 8)


@given(st.integers(1, 40), st.integers(2, 5), st.integers(1, 13), st.data())
def test_sums_of_chunks_have_the_bits_of_the_whole(clients, d, at_once, data):
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    whole, other = random.normal(size=(2, clients, d))
    rows, others = in_chunks(whole, at_once), in_chunks(other, at_once)
    point, number = random.normal(size=d), float(random.normal())
    assert rows.nbytes == whole.nbytes and len(rows) == len(whole)
    for _ in range(data.draw(st.integers(0, 3))):
        operation = data.draw(st.sampled_from(OPERATIONS))
        ours, theirs = data.draw(
            st.sampled_from([(point, point), (number, number), (other, other), (others, other)])
        )
        if data.draw(st.booleans()):
            rows, whole = operation(ours, rows), operation(theirs, whole)
        else:
            rows, whole = operation(rows, ours), operation(whole, theirs)
    np.testing.assert_array_equal(rows.sum(0), whole.sum(0))
    np.testing.assert_array_equal(rows.mean(0), whole.mean(0))
    np.testing.assert_array_equal(rows.sum(0), whole.sum(0))  # a sum leaves the rows as they were


def test_tensors_leave_arithmetic_to_the_rows():
    whole, point = torch.rand(5, 3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    rows = in_chunks(whole, 2)
    for operation in OPERATIONS:
        for combined, expected in (
            (operation(point, rows), operation(point, whole)),
            (operation(-rows, point), operation(-whole, point)),
        ):
            assert isinstance(combined, ChunkedRows)
            torch.testing.assert_close(combined.mean(0), expected.mean(0))


def test_whole_rows_are_there_for_those_who_need_them():
    whole = np.random.default_rng(0).normal(size=(7, 3))
    rows = in_chunks(whole, 2) - 1.0
    np.testing.assert_array_equal(rows, whole - 1.0)
    np.testing.assert_array_equal(np.median(rows, axis=0), np.median(whole - 1.0, axis=0))
    for clients in (3, -1, slice(2, 5), slice(None), slice(5, 0, -2)):
        np.testing.assert_array_equal(rows[clients], whole[clients] - 1.0)
    np.testing.assert_array_equal(list(rows), list(whole - 1.0))
    with pytest.raises(IndexError):
        rows[7]
    np.testing.assert_array_equal(rows.sum(0), (whole - 1.0).sum(0))


def test_chunks_and_whole_rows_may_be_mixed():
    problem, everyone = problem_of(40, numbers_at_once=7 * DIMENSION), np.arange(40)
    whole = problem_of(40, numbers_at_once=40 * DIMENSION)
    batch = problem.minibatches(RoundRandom(0), everyone, 1, 2)
    x = np.ones(DIMENSION)
    y = problem.client_zeros()[everyone] + 0.5
    chunked, gradient = (p.gradient(x, batch.at(0)) for p in (problem, whole))
    assert isinstance(chunked, ChunkedRows) and not isinstance(gradient, ChunkedRows)
    for ours, theirs in (
        (problem.local_sgd(y, batch, 0.1, chunked), whole.local_sgd(y, batch, 0.1, gradient)),
        (
            problem.local_recursive_steps(y, x, chunked, batch, 0.1),
            whole.local_recursive_steps(y, x, gradient, batch, 0.1),
        ),
        (
            problem.gradient_difference(chunked, y, batch.at(1)),
            whole.gradient_difference(gradient, y, batch.at(1)),
        ),
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert isinstance(problem.local_sgd(y, batch, 0.1), np.ndarray)


def test_rows_are_summed_over_clients_only():
    with pytest.raises(ValueError, match="axis 0"):
        in_chunks(np.ones((2, 3)), 1).sum(1)


CLIENTS, DIMENSION = 100, 50_000  # 40 MB for a number per client and coordinate
METHODS = {
    "fedavg": FedAvg(clients_per_round=CLIENTS, local_steps=2, batch_size=1, local_step_size=0.1),
    "fedpage": FedPage(
        clients_per_round=CLIENTS, local_steps=2, global_step_size=0.1, full_round_probability=0.5
    ),
}


def problem_of(clients: int, numbers_at_once: int = 2**20) -> HorizontalProblem:
    """Two samples each, of five features that are not zero."""
    random = np.random.default_rng(0)
    count = 2 * clients
    columns = np.sort(random.integers(DIMENSION, size=(count, 5)), axis=1).ravel()
    parts = (random.normal(size=5 * count), columns, np.arange(0, 5 * count + 1, 5))
    rows = sparse.csr_array(parts, shape=(count, DIMENSION))
    samples = Samples(np.arange(count), random.choice([-1.0, 1.0], count), rows)
    data = ClientSamples(samples, np.arange(0, count + 1, 2), {})
    problem = CompiledEngine(data, LinearObjective(name="robust_regression"))
    problem.numbers_at_once = numbers_at_once
    return problem


def four_rounds(method: str, problem: HorizontalProblem) -> np.ndarray:
    """Where they lead."""
    algorithm = METHODS[method].model_copy(update={"clients_per_round": problem.clients})
    network = StarNetwork(problem.clients, Counters())
    state = algorithm.start(problem, network, np.ones(DIMENSION))
    for number in range(4):
        state = algorithm.round(state, problem, network, RoundRandom(1).at(number))
    return state.x


def test_many_clients_of_many_features_take_little_memory(tmp_path):
    file = tmp_path / "points.npz"
    outcome = subprocess.run(
        [sys.executable, __file__, str(file)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    megabytes = json.loads(outcome.stdout)
    assert megabytes["chunks"] < 40 < 60 < megabytes["whole"]
    points = np.load(file)
    for method in METHODS:
        np.testing.assert_array_equal(points[f"{method} chunks"], points[f"{method} whole"])


def most_memory() -> float:
    """Megabytes that this process has had; getrusage's begin with what its parent had."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def measure(file: Path) -> None:
    """Points go to the file; printed are megabytes that rounds took beside the data."""
    points, megabytes = {}, {}
    for method in METHODS:
        four_rounds(method, problem_of(3))  # compiles
    problem_of(CLIENTS)
    before = most_memory()
    for way, at_once in {"chunks": 5, "whole": CLIENTS}.items():
        for method in METHODS:
            problem = problem_of(CLIENTS, numbers_at_once=at_once * DIMENSION)
            points[f"{method} {way}"] = four_rounds(method, problem)
        megabytes[way] = most_memory() - before
    np.savez(file, **points)
    print(json.dumps(megabytes))


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
