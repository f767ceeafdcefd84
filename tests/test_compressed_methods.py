"""What EF21, DIANA and CHOCO-SGD reduce to, their steps' bounds, and what they refuse."""

from itertools import pairwise

import numpy as np
import pytest
from pydantic import ValidationError

from fedatlas.algorithms.choco_sgd import ChocoSgd
from fedatlas.algorithms.diana import Diana
from fedatlas.algorithms.ef21 import EF21
from fedatlas.arithmetic.randomness import Draws
from fedatlas.federations.algorithm import Algorithm
from test_decentralised_methods import Run as GraphRun
from test_decentralised_methods import Toy, W
from test_methods import N, Run, engine_of, toy

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

ROUNDS = 30


EVERYONE, SOME = {"clients_per_round": N}, {"clients_per_round": 3, "batch_size": 2}


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


GRAPH = {"step_size": 0.05, "samples": 3}


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
