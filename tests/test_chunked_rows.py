"""Rows of clients in chunks: the arithmetic of whole arrays, in less memory."""

import json
import operator
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.arithmetic.client_rows import ChunkedRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import LinearObjective

OPERATIONS = (operator.add, operator.sub, operator.mul, operator.truediv)


def in_chunks(values, at_once: int) -> ChunkedRows:
    return ChunkedRows(tuple(values.shape), at_once, lambda chunk: values[chunk] + 0.0)


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
