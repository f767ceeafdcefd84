"""MARINA, DASHA and EF14: what they reduce to, that they are exact, and what they send."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.dasha import Dasha
from fedatlas.algorithms.diana import Diana
from fedatlas.algorithms.ef14 import EF14
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.algorithms.marina import Marina
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from small_federations import small
from test_methods import N, Run, ScriptedRandom, engine_of, start_point, toy

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

LOGISTIC, RIDGE = "logistic_nonconvex", "ridge_regression"
ROUNDS, D = 30, 5
EVERYONE, STEP = {"clients_per_round": N}, 0.3
WHOLE, RAND_2 = {"kind": "rand_k", "share": 1}, {"kind": "rand_k", "k": 2}
TOP_1, SIGN = {"kind": "top_k", "k": 1}, {"kind": "sign"}
BITS = 2 * 64 + 5  # of a message of RAND_2: two numbers, and a bit for every place


def gradient(name: str, x: np.ndarray) -> np.ndarray:
    """∇f(x)."""
    problem = toy(name)
    return np.mean([problem.client_gradient(i, x) for i in range(N)], axis=0)


def descent(name: str) -> np.ndarray:
    """Gradient descent's models, (rounds + 1, d)."""
    points = [start_point(D)]
    for _ in range(ROUNDS):
        points.append(points[-1] - STEP * gradient(name, points[-1]))
    return np.array(points)


def optimum() -> np.ndarray:
    """Of ridge regression, whose gradient is affine."""
    at_zero = gradient(RIDGE, np.zeros(D))
    hessian = np.array([gradient(RIDGE, unit) - at_zero for unit in np.eye(D)])
    return np.linalg.solve(hessian, -at_zero)


@pytest.mark.parametrize("kind", ["compiled", "torch"])
@pytest.mark.parametrize(
    "method",
    [
        Marina(**EVERYONE, compressor=RAND_2, step_size=STEP, full_round_probability=1),
        Marina(**EVERYONE, compressor=WHOLE, step_size=STEP, full_round_probability=0.2),
        Dasha(**EVERYONE, compressor=WHOLE, step_size=STEP),
        Dasha(**EVERYONE, compressor=WHOLE, step_size=STEP, memory_step=0.3),
        EF14(**EVERYONE, compressor=WHOLE, step_size=STEP),
        EF14(**EVERYONE, compressor={"kind": "top_k", "k": D}, step_size=STEP),
    ],
    ids=["marina, p = 1", "marina, C(x) = x", "dasha", "dasha, a", "ef14, rand", "ef14, top"],
)
def test_without_compression_they_are_gradient_descent(method: Algorithm, kind: str) -> None:
    run = Run(method, engine_of(kind, toy(LOGISTIC), LOGISTIC))
    np.testing.assert_allclose(run.trajectory(ROUNDS), descent(LOGISTIC), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [3, N])
def test_without_compression_minibatch_marina_is_page(size: int) -> None:
    """With PAGE, which is FedPAGE with one local step: under one seed they draw alike."""
    engine = engine_of("compiled", toy(LOGISTIC), LOGISTIC)
    shared = {"clients_per_round": size, "full_round_probability": 0.3}
    marina = Marina(**shared, compressor=WHOLE, step_size=0.1, batch_size=2)
    page = FedPage(**shared, local_steps=1, global_step_size=0.1, first_batch_size=2)
    found, expected = (Run(method, engine).trajectory(ROUNDS) for method in (marina, page))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_without_compression_dasha_page_is_marina_of_all_clients() -> None:
    engine = engine_of("compiled", toy(LOGISTIC), LOGISTIC)
    shared = {**EVERYONE, "compressor": WHOLE, "step_size": 0.1, "batch_size": 2}
    dasha, marina = (
        Dasha(**shared, full_gradient_probability=0.3),
        Marina(**shared, full_round_probability=0.3),
    )
    found, expected = (Run(method, engine).trajectory(ROUNDS) for method in (dasha, marina))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("compressor", [TOP_1, SIGN, RAND_2])
def test_what_ef14_owes_is_all_that_it_lost(compressor: Any) -> None:
    """x − mean of e_i moves by exactly −γ times the mean gradient at x, whatever C is."""
    problem = toy(LOGISTIC)
    method = EF14(**EVERYONE, compressor=compressor, step_size=0.1)
    run = Run(method, engine_of("compiled", problem, LOGISTIC))
    virtual = run.x0
    for _ in range(ROUNDS):
        gradients = [problem.client_gradient(i, run.x) for i in range(N)]
        virtual = virtual - 0.1 * np.mean(gradients, axis=0)
        run.round()
        owed = run.state.client_e.table.mean(0)
        np.testing.assert_allclose(run.x - owed, virtual, rtol=0, atol=1e-12)
    assert abs(owed).max() > 1e-3


def bounded(method: Algorithm, engine: Any) -> Algorithm:
    """The same at the largest step that its theorem covers."""
    (bound,) = method.step_bounds(engine)
    assert bound.exceeded == (bound.value > bound.bound)
    return method.model_copy(update={"step_size": bound.bound})


@pytest.mark.parametrize(
    "method",
    [
        Marina(**EVERYONE, compressor=RAND_2, step_size=9, full_round_probability=0.4),
        Marina(clients_per_round=3, compressor=RAND_2, step_size=9, full_round_probability=0.4),
        Dasha(**EVERYONE, compressor=RAND_2, step_size=9),
    ],
    ids=["marina", "marina, some", "dasha"],
)
def test_marina_and_dasha_reach_the_optimum_at_the_steps_of_their_theorems(method: Any) -> None:
    engine = engine_of("compiled", toy(RIDGE), RIDGE)
    run = Run(bounded(method, engine), engine)
    x = run.trajectory(1500)[-1]
    assert np.linalg.norm(x - optimum()) < 1e-8


def test_ef14_with_a_constant_step_misses_the_optimum_of_unequal_clients() -> None:
    engine, best = engine_of("compiled", toy(RIDGE), RIDGE), optimum()
    run = Run(EF14(**EVERYONE, compressor=TOP_1, step_size=0.02), engine)
    apart = np.linalg.norm(run.trajectory(1500)[-20:] - best, axis=1)
    assert apart.min() > 1e-4 and apart.max() < 0.3 * np.linalg.norm(run.x0 - best)


def test_step_bounds_are_the_theorems() -> None:
    engine = engine_of("compiled", toy(LOGISTIC), LOGISTIC)
    smoothness, omega = engine.average_smoothness, D / 2 - 1

    def bound(method: Algorithm) -> float:
        (found,) = method.step_bounds(engine)
        return found.bound * smoothness

    marina = {"compressor": RAND_2, "step_size": 1, "full_round_probability": 0.2}
    found = bound(Marina(**EVERYONE, **marina))
    assert found == pytest.approx(1 / (1 + (0.8 * omega / 0.2 / N) ** 0.5))
    found = bound(Marina(clients_per_round=3, **marina))
    assert found == pytest.approx(1 / (1 + (0.8 * (1 + omega) / 0.2 / 3) ** 0.5))
    found = bound(Dasha(**EVERYONE, compressor=RAND_2, step_size=1))
    assert found == pytest.approx(1 / (1 + (16 * omega * (2 * omega + 1) / N) ** 0.5))
    assert Marina(**EVERYONE, **marina, batch_size=2).step_bounds(engine) == []
    with_own = Dasha(**EVERYONE, compressor=RAND_2, step_size=1, memory_step=0.1)
    assert with_own.step_bounds(engine) == []


# ------------------------------------------------------------------------------- what is sent


class Coins(ScriptedRandom):
    """Full rounds are 0 and 3."""

    def bernoulli(self, probability: float) -> bool:
        self.coin = self.round == 3
        return super().bernoulli(probability)


@pytest.mark.parametrize("size", [3, N])
def test_marina_sends_whole_gradients_in_full_rounds_only(size: int) -> None:
    method = Marina(
        clients_per_round=size, compressor=RAND_2, step_size=0.1, full_round_probability=0.2
    )
    run = Run(method, engine_of("compiled", toy(LOGISTIC), LOGISTIC), random=Coins)
    run.trajectory(5)
    count, model = run.counters, 8 * D
    assert count.bytes_up == 2 * N * model + 3 * size * BITS / 8
    # Models of the round before are sent again where some of the clients do not have them.
    again = 0 if size == N else 1  # only round 2 follows one that did not reach all
    assert count.bytes_down == (2 * N + 3 * size + again * size) * model
    assert count.messages == 2 * (2 * N + 3 * size)


def test_dasha_and_ef14_send_compressed_messages() -> None:
    engine, model = engine_of("compiled", toy(LOGISTIC), LOGISTIC), 8 * D
    dasha = Run(Dasha(**EVERYONE, compressor=RAND_2, step_size=0.1), engine)
    dasha.trajectory(5)
    assert dasha.counters.bytes_up == N * model + 4 * N * BITS / 8
    assert dasha.counters.bytes_down == 5 * N * model
    ef14 = Run(EF14(clients_per_round=3, compressor=RAND_2, step_size=0.1), engine)
    ef14.trajectory(5)
    assert ef14.counters.bytes_up == 5 * 3 * BITS / 8
    assert ef14.counters.bytes_down == 5 * 3 * model


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("method", [Marina, Dasha, Diana])
def test_methods_that_need_unbiased_compressors_refuse_others(method: type[Algorithm]) -> None:
    more = {"full_round_probability": 0.1} if method is Marina else {}
    with pytest.raises(ValidationError, match=r"sign is biased, but .* needs an unbiased one"):
        method(**EVERYONE, step_size=1, compressor=SIGN, **more)


def test_what_dasha_cannot_do_is_refused() -> None:
    for more in ({"batch_size": 2}, {"full_gradient_probability": 0.2}):
        with pytest.raises(ValidationError, match="declare both, with a probability below 1"):
            Dasha(**EVERYONE, step_size=1, compressor=RAND_2, **more)
    with pytest.raises(FedatlasError, match=r"'clients_per_round', value 5: .* state 12"):
        build_algorithm(small("dasha", {"clients_per_round": 5}))
