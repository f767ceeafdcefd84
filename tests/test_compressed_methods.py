"""EF21, DIANA and CHOCO-SGD against the papers' listings, in float64, and what they reduce to.

The package draws samples and the numbers by which compressors round; loops, and their compressors,
are written here from the papers, one client after the other.
"""

from collections.abc import Callable
from itertools import pairwise
from math import floor, frexp
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import test_network_clients as networks
from fedatlas.algorithms.choco_sgd import ChocoSgd
from fedatlas.algorithms.diana import Diana
from fedatlas.algorithms.ef21 import EF21
from fedatlas.arithmetic.randomness import Draws
from fedatlas.federations.algorithm import Algorithm
from reference import Problem
from test_decentralised_methods import Run as GraphRun
from test_decentralised_methods import Toy, W
from test_methods import N, RecordingRandom, Run, engine_of, toy

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

Vector, Compress = np.ndarray, Callable[[np.ndarray, np.ndarray], np.ndarray]
ROUNDS = 30


class Uniforms(RecordingRandom):
    """The same draws; the last uniform numbers, by which a compressor rounds, are kept."""

    last: Any = (None,) * N

    def uniform(self, *shape: int) -> np.ndarray:
        self.last = super().uniform(*shape)
        return self.last


# ------------------------------------------------------------------------------- compressors


def top(k: int) -> Compress:
    """The k entries of largest absolute value."""

    def compress(x: Vector, _: Vector) -> Vector:
        kept = sorted(range(len(x)), key=lambda j: -abs(x[j]))[:k]
        return np.array([x[j] if j in kept else 0.0 for j in range(len(x))])

    return compress


def drawn(k: int, scaled: bool) -> Compress:
    """The k entries of the largest numbers, times d/k if scaled."""

    def compress(x: Vector, u: Vector) -> Vector:
        return (len(x) / k if scaled else 1.0) * x * (u >= np.sort(u)[len(x) - k])

    return compress


def dithered(s: int) -> Compress:
    """QSGD, section 3.1."""

    def compress(x: Vector, u: Vector) -> Vector:
        norm, found = np.sqrt(np.dot(x, x)), np.zeros_like(x)
        for j in range(len(x)):
            below = floor(abs(x[j]) / norm * s)
            level = below + (u[j] < abs(x[j]) / norm * s - below)
            found[j] = norm * np.sign(x[j]) * level / s
        return found

    return compress


def natural(x: Vector, u: Vector) -> Vector:
    """Natural compression, Definition 1."""
    found = np.zeros_like(x)
    for j in range(len(x)):
        if x[j]:
            lower = 2.0 ** (frexp(abs(x[j]))[1] - 1)
            found[j] = np.sign(x[j]) * lower * (1 + (u[j] < abs(x[j]) / lower - 1))
    return found


# ------------------------------------------------------------------------- around a server


def replayed(run: Run, problem: Any, compress: Compress, alpha: float, correct: bool) -> None:
    """EF21 (Algorithm 2) if not `correct`, else DIANA (Algorithm 1), beside the run."""
    method, clients = run.algorithm, len(problem.clients)
    step = method.step_size
    x, own = run.x0.copy(), np.zeros((clients, len(run.x0)))
    for _ in range(ROUNDS):
        draws = run.round()
        known, sent = own.mean(0), {}
        for s, i in enumerate(draws.clients):
            (rows,) = draws.steps(0)[s]
            gradient = problem.client_gradient(i, x, rows)
            sent[i] = compress(gradient - own[i], run.random.last[s])
        for i, message in sent.items():
            own[i] = own[i] + alpha * message
        if correct:
            x = x - step * (known + sum(sent.values()) / len(sent))
        else:
            x = x - step * own.mean(0)
        np.testing.assert_allclose(run.x, x, rtol=0, atol=1e-12)
    assert np.linalg.norm(run.x - run.x0) > 0.3


EVERYONE, SOME = {"clients_per_round": N}, {"clients_per_round": 3, "batch_size": 2}
TOP_2, RAND_2 = {"kind": "top_k", "k": 2}, {"kind": "rand_k", "k": 2}
LEVELS, NATURAL = {"kind": "quantised", "levels": 2}, {"kind": "natural"}
# The method, its loop's C, and α.
CASES: dict[str, tuple[Algorithm, Compress, float]] = {
    "EF21, top-2": (EF21(**EVERYONE, step_size=0.3, compressor=TOP_2), top(2), 1.0),
    "EF21, some": (
        EF21(**SOME, step_size=0.1, compressor={"kind": "top_k", "share": 0.4}), top(2), 1.0,
    ),
    "EF21, rand-2": (EF21(**EVERYONE, step_size=0.3, compressor=RAND_2), drawn(2, False), 1.0),
    "DIANA, rand-2": (Diana(**EVERYONE, step_size=0.2, compressor=RAND_2), drawn(2, True), 0.4),
    "DIANA, levels": (
        Diana(**EVERYONE, batch_size=2, step_size=0.1, compressor=LEVELS),
        dithered(2), 1 / (1 + 5**0.5 / 2),
    ),
    "DIANA, some": (
        Diana(**SOME, step_size=0.1, memory_step=0.3, compressor=NATURAL), natural, 0.3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("label", CASES)
@pytest.mark.parametrize("kind", ["compiled", "torch"])
def test_methods_around_a_server_are_the_papers_loops(label: str, kind: str) -> None:
    problem: Problem = toy("logistic_nonconvex")
    method, compress, alpha = CASES[label]
    run = Run(method, engine_of(kind, problem, "logistic_nonconvex"), random=Uniforms)
    replayed(run, problem, compress, alpha, isinstance(method, Diana))


def test_networks_around_a_server_are_the_papers_loops() -> None:
    engine = networks.engine_of("cross_entropy")
    compressor = {"kind": "quantised", "levels": 3}
    d = engine.dimension
    omega = min(d / 9, d**0.5 / 3)
    method = Diana(**SOME, step_size=0.3, compressor=compressor)
    run = Run(method, engine, x0=engine.numpy(engine.start(5)), random=Uniforms)
    replayed(run, networks.Plain("cross_entropy"), dithered(3), 1 / (1 + omega), correct=True)


@pytest.mark.parametrize("method", [EF21, Diana])
def test_without_compression_they_are_descent(method: type[Algorithm]) -> None:
    """EF21 is gradient descent, DIANA is SGD; a message takes what its numbers take."""
    problem = toy("logistic_nonconvex")
    whole = {"kind": "top_k" if method is EF21 else "rand_k", "share": 1}
    batch = None if method is EF21 else 2
    run = Run(
        method(**EVERYONE, batch_size=batch, step_size=0.4, compressor=whole),
        engine_of("compiled", problem, "logistic_nonconvex"),
    )
    x = run.x0.copy()
    for _ in range(ROUNDS):
        draws = run.round()
        gradients = [
            problem.client_gradient(i, x, rows) for i, (rows,) in enumerate(draws.steps(0))
        ]
        x = x - 0.4 * np.mean(gradients, axis=0)
        np.testing.assert_allclose(run.x, x, rtol=0, atol=1e-12)
    assert run.counters.bytes_up == run.counters.bytes_down == ROUNDS * N * len(x) * 8


def test_ef21_descends_at_the_step_of_its_theorem_and_says_when_a_step_is_larger() -> None:
    problem = toy("logistic_nonconvex")
    engine = engine_of("compiled", problem, "logistic_nonconvex")
    compressor = {"kind": "top_k", "k": 1}
    (bound,) = EF21(**EVERYONE, step_size=9, compressor=compressor).step_bounds(engine)
    root = (1 - 1 / 5) ** 0.5  # θ = 1 − √(1 − δ), β = (1 − δ)/θ
    theta, beta = 1 - root, (1 - 1 / 5) / (1 - root)
    expected = 1 / (engine.average_smoothness * (1 + (beta / theta) ** 0.5))
    assert bound.exceeded and bound.bound == pytest.approx(expected, rel=1e-12)
    method = EF21(**EVERYONE, step_size=bound.bound, compressor=compressor)
    # Theorem 1's function falls: f(x) + γ/2θ · 1/N Σ ‖g_i − ∇f_i(x)‖².
    run, levels = Run(method, engine), []
    for _ in range(40):
        before = run.x
        run.round()
        own = run.state.client_g.table
        apart = [((own[i] - problem.client_gradient(i, before)) ** 2).sum() for i in range(N)]
        levels.append(problem.value(before) + bound.bound / (2 * theta) * np.mean(apart))
    assert all(after <= before + 1e-12 for before, after in pairwise(levels))
    assert EF21(**SOME, step_size=9, compressor=compressor).step_bounds(engine) == []


def test_diana_refuses_biased_compressors() -> None:
    with pytest.raises(ValidationError, match="sign is biased, but DIANA needs an unbiased one"):
        Diana(**EVERYONE, step_size=1, compressor={"kind": "sign"})


# ------------------------------------------------------------------------------ on a graph


def choco(run: GraphRun, compress: Compress) -> None:
    """CHOCO-SGD, Algorithm 2, beside the run."""
    method, toy = run.method, run.toy
    gradient, n = toy.gradient(), len(toy.x0)
    x, hat = toy.x0.copy(), np.zeros_like(toy.x0)
    for _ in range(ROUNDS):
        run.rounds(1)
        rows = run.problem.taken[-1]
        half = [x[i] - method.step_size * gradient(i, x[i], rows[i]) for i in range(n)]
        messages = [compress(half[i] - hat[i], run.random.last[i]) for i in range(n)]
        hat = np.array([hat[i] + messages[i] for i in range(n)])
        x = np.array([
            half[i] + method.coupling * sum(W[i, j] * (hat[j] - hat[i]) for j in range(n))
            for i in range(n)
        ])  # fmt: skip
        np.testing.assert_allclose(run.state.x, x, rtol=0, atol=1e-12)


GRAPH = {"step_size": 0.05, "samples": 3}


@pytest.mark.parametrize(
    ("compressor", "compress"),
    [({"kind": "top_k", "k": 2}, top(2)), ({"kind": "rand_k", "k": 1}, drawn(1, scaled=False))],
)
def test_choco_is_the_papers_loop(compressor: Any, compress: Compress) -> None:
    method = ChocoSgd(**GRAPH, coupling=0.4, compressor=compressor)
    run = GraphRun(method, Toy(), Draws(), graphs=(W, None))
    run.random = Uniforms(0)
    choco(run, compress)
    assert np.abs(run.state.x - run.toy.x0).max() > 0.1


def test_choco_without_compression_is_dsgd() -> None:
    """With γ = 1: x ← W̄ (x − η g), W̄ with what is left of each row on the diagonal."""
    toy = Toy()
    weights = 0.4 * W
    whole = weights + np.diag(1 - weights.sum(1))
    method = ChocoSgd(**GRAPH, coupling=1.0, compressor={"kind": "top_k", "share": 1})
    run = GraphRun(method, toy, Draws(), graphs=(weights, None))
    x = toy.x0.copy()
    for _ in range(ROUNDS):
        run.rounds(1)
        rows = run.problem.taken[-1]
        gradients = [toy.gradient()(i, x[i], rows[i]) for i in range(len(x))]
        x = whole @ (x - method.step_size * np.array(gradients))
        np.testing.assert_allclose(run.state.x, x, rtol=0, atol=1e-12)
    assert run.counters.bytes_sent == ROUNDS * np.count_nonzero(W) * x.shape[1] * 8
