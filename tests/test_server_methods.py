"""Methods around a server with local work: what they reduce to, invariants, costs and refusals.

Certificates have their loops; here each method is held against another one, or against f.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.amplified_fedavg import AmplifiedFedAvg
from fedatlas.algorithms.cyclic import Cyclic
from fedatlas.algorithms.dp_local_sgd import DpLocalSgd
from fedatlas.algorithms.fedadagrad import FedAdagrad
from fedatlas.algorithms.fedadam import FedAdam
from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedavgm import FedAvgM
from fedatlas.algorithms.feddane import FedDane
from fedatlas.algorithms.feddyn import FedDyn
from fedatlas.algorithms.fedlin import FedLin
from fedatlas.algorithms.fednova import FedNova
from fedatlas.algorithms.fedpaq import FedPaq
from fedatlas.algorithms.fedprox import FedProx
from fedatlas.algorithms.fedsam import FedSam
from fedatlas.algorithms.fedyogi import FedYogi
from fedatlas.algorithms.mifa import Mifa
from fedatlas.algorithms.mime import Mime
from fedatlas.algorithms.pooled import Pooled
from fedatlas.algorithms.power_of_choice import PowerOfChoice
from fedatlas.algorithms.scaffnew import Scaffnew
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.schema.network_model import StarNetworkModel
from fedatlas.schema.objectives import LinearObjective
from fedatlas.training.states import state_arrays
from small_federations import LINEAR, TIMED, small
from test_client_weights import DECLARED, SIZES, WEIGHTS, N, engine_of, shares, toy
from test_methods import Run, bounds_at

each_engine = pytest.mark.parametrize("kind", ["compiled", "torch", "network"])

LOCAL: dict[str, Any] = {"clients_per_round": 3, "local_steps": 3, "batch_size": 2}
LOCAL |= {"local_step_size": 0.2}
#: One step of all clients on all samples.
WHOLE: dict[str, Any] = {"clients_per_round": N, "local_steps": 1, "local_step_size": 0.3}
FAR: dict[str, Any] = LOCAL | {"global_step_size": 1.6e7, "adaptivity": 1e7, "momentum": 0}
SLOW = FedAvg(**LOCAL, global_step_size=0.8)  # η/(2τ)
DESCENT = FedAvg(**WHOLE)
HALF = {**WHOLE, "local_step_size": 0.15}
ALL = LOCAL | {"clients_per_round": N, "step_factors": {3: 0.5}}

#: A method, the one that it is, and to what digit.
REDUCTIONS: dict[str, tuple[Any, Any, float]] = {
    "FedAvgM, no momentum": (FedAvgM(**LOCAL, momentum=0), FedAvg(**LOCAL), 0),
    "FedAdagrad, large τ": (FedAdagrad(**FAR), SLOW, 1e-9),
    "FedAdam, large τ": (FedAdam(**FAR, second_momentum=1 - 1e-14), SLOW, 1e-9),
    "FedYogi, large τ": (FedYogi(**FAR), SLOW, 1e-9),
    "FedNova, equal steps": (FedNova(**LOCAL), FedAvg(**LOCAL), 1e-14),
    "Scaffnew, p = 1": (Scaffnew(step_size=0.3, communication_probability=1), DESCENT, 1e-14),
    "MimeLite, no momentum": (Mime(**LOCAL, momentum=0, lite=True), FedAvg(**LOCAL), 1e-14),
    "Mime, one step": (Mime(**WHOLE, momentum=0.5), FedAvgM(**HALF, momentum=0.5), 1e-14),
    "FedLin, one step": (FedLin(**WHOLE), DESCENT, 1e-14),
    "FedDANE, one step": (FedDane(**WHOLE, proximal_weight=9), DESCENT, 1e-14),
    "FedDANE, all clients": (
        FedDane(**ALL, proximal_weight=0),
        FedLin(**ALL | {"local_step_size": 0.6}),
        1e-14,
    ),
    "FedPAQ, C(v) = v": (
        FedPaq(**LOCAL, compressor={"kind": "rand_k", "share": 1}),
        FedAvg(**LOCAL),
        1e-14,
    ),
    "MIFA, all take part": (Mifa(**ALL), FedAvg(**ALL), 1e-13),
    "Amplified FedAvg, γ = 1": (
        AmplifiedFedAvg(**LOCAL, period=3, amplification=1, proximal_weight=0.4),
        FedProx(**LOCAL, proximal_weight=0.4),
        1e-14,
    ),
    "Amplified FedAvg, P = 1": (
        AmplifiedFedAvg(**LOCAL, period=1, amplification=0.8),
        SLOW,
        1e-14,
    ),
    "Power-of-Choice, d = S": (PowerOfChoice(**LOCAL, candidates=3), FedAvg(**LOCAL), 0),
    "DP local SGD, σ = 0": (
        DpLocalSgd(**LOCAL, clip_bound=1e9, noise_multiplier=0, proximal_weight=0.4),
        FedProx(**LOCAL, proximal_weight=0.4),
        1e-14,
    ),
    "FedSAM, small ρ": (FedSam(**LOCAL, radius=1e-9), FedAvg(**LOCAL), 1e-8),
}


@pytest.mark.parametrize("label", REDUCTIONS)
@each_engine
def test_a_method_is_another_one(label: str, kind: str) -> None:
    method, other, within = REDUCTIONS[label]
    engine = engine_of(kind, "equal")
    paths = [Run(each, engine, seed=4).trajectory(8) for each in (method, other)]
    np.testing.assert_allclose(*paths, rtol=0, atol=within)
    assert np.linalg.norm(paths[0][-1] - paths[0][0]) > 0.1


ALONE: dict[str, Any] = {"local_steps": 3, "local_step_size": 0.2}


@pytest.mark.parametrize(
    "method",
    [
        Cyclic(**ALONE),
        Mime(**ALONE, clients_per_round=1, momentum=0),
        FedLin(**ALONE | {"local_step_size": 0.6}, clients_per_round=1),
        FedDane(**ALONE, clients_per_round=1, proximal_weight=0),
    ],
    ids=lambda method: method.title,
)
def test_one_client_takes_plain_steps(method: Any) -> None:
    engine = engine_of("compiled", "equal", toy((6,)))
    paths = [
        Run(each, engine).trajectory(5) for each in (method, FedAvg(**ALONE, clients_per_round=1))
    ]
    np.testing.assert_allclose(*paths, rtol=0, atol=1e-14)


@each_engine
@pytest.mark.parametrize("sampled", [2, N])
def test_the_first_round_of_feddyn_is_a_long_one_of_fedprox(kind: str, sampled: int) -> None:
    """While g_i = 0 clients take FedProx's steps, and −h/α adds S/N of their progress."""
    work = LOCAL | {"clients_per_round": sampled}
    engine = engine_of(kind, "equal")
    methods = [
        FedDyn(**work, regularisation=0.4),
        FedProx(**work, proximal_weight=0.4, global_step_size=1 + sampled / N),
    ]
    paths = [Run(method, engine).trajectory(1) for method in methods]
    np.testing.assert_allclose(*paths, rtol=0, atol=1e-14)


@each_engine
def test_adam_without_memory_steps_along_signs(kind: str) -> None:
    engine = engine_of(kind, "equal")
    memory = {"momentum": 0, "second_momentum": 0, "adaptivity": 1e-9}
    adam = Run(FedAdam(**LOCAL, **memory, global_step_size=0.01), engine).trajectory(1)
    fedavg = Run(FedAvg(**LOCAL), engine).trajectory(1)
    expected = 0.01 * np.sign(fedavg[1] - fedavg[0])
    np.testing.assert_allclose(adam[1] - adam[0], expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("weights", ["equal", *WEIGHTS])
def test_fednova_steps_along_the_gradient_whatever_clients_do(weights: str) -> None:
    """With short steps, one sample each: who takes nine counts no more than who takes one."""
    p = np.full(N, 1 / N) if weights == "equal" else shares(weights)
    engine, problem = engine_of("compiled", WEIGHTS.get(weights, "equal")), toy()
    work = {"clients_per_round": N, "local_steps": 1, "local_unit": "epochs", "batch_size": 1}
    runs = [Run(method(**work, local_step_size=1e-7), engine) for method in (FedNova, FedAvg)]
    gradient = sum(p[i] * problem.client_gradient(i, runs[0].x0) for i in range(N))
    nova, fedavg = (np.diff(run.trajectory(1), axis=0)[0] / -1e-7 for run in runs)
    np.testing.assert_allclose(nova, p @ SIZES * gradient, rtol=1e-5)
    assert np.abs(fedavg - p @ SIZES * gradient).max() > 0.1


@each_engine
def test_pooled_steps_on_all_samples_are_gradient_descent(kind: str) -> None:
    engine = engine_of(kind, "size")
    methods = [Pooled(local_steps=2, local_step_size=0.3), FedAvg(**WHOLE)]
    runs = [Run(method, engine) for method in methods]
    paths = [runs[0].trajectory(5), runs[1].trajectory(10)[::2]]
    np.testing.assert_allclose(*paths, rtol=0, atol=1e-14)
    spent = vars(runs[0].counters)
    assert spent["gradient_evaluations"] == spent["sequential_gradients"] == 10 * sum(SIZES)
    assert spent["iteration"] == 10
    assert not spent["messages"] and not spent["bytes_down"] and not spent["bytes_up"]


@given(some.integers(0, 99), some.integers(1, 30))
def test_pooled_samples_are_anybodys(seed: int, size: int) -> None:
    engine = engine_of("compiled", "size")
    batch = engine.pooled_minibatches(RoundRandom(seed), size, 3)
    held = min(size, sum(SIZES))
    assert batch.sizes.tolist() == [held] and batch.gradient_evaluations == 3 * held
    if size < sum(SIZES):
        for step in batch.rows[0]:
            assert len(set(step.tolist())) == size and set(step) <= set(range(sum(SIZES)))


EXACT = {
    "FedDyn": FedDyn(**WHOLE | {"local_steps": 5, "clients_per_round": 4}, regularisation=0.5),
    "Scaffnew": Scaffnew(step_size=0.3, communication_probability=0.3),
    "Mime": Mime(**WHOLE | {"local_steps": 5}, momentum=0.5),
    "FedLin": FedLin(**WHOLE | {"local_steps": 5, "local_step_size": 1.5}),
    "FedDANE": FedDane(**WHOLE | {"local_steps": 5}, proximal_weight=0.5),
}


@pytest.mark.parametrize("label", EXACT)
@pytest.mark.parametrize("weights", ["equal", "declared"])
def test_clients_of_different_functions_agree_on_the_optimum(label: str, weights: str) -> None:
    """Where FedAvg stays apart."""
    engine = engine_of("compiled", WEIGHTS.get(weights, "equal"))
    norms = []
    for method in (EXACT[label], FedAvg(**WHOLE | {"local_steps": 5})):
        run = Run(method, engine)
        x = run.trajectory(400)[-1]
        norms.append(engine.measure(x)["gradient_norm"])
        if isinstance(method, FedDyn | Scaffnew):
            table = getattr(run.state, "client_g", None) or run.state.client_h
            mean = engine.part_of_mean(table.table, np.arange(N))
            own = run.state.h if isinstance(method, FedDyn) else 0
            np.testing.assert_allclose(mean, own, rtol=0, atol=1e-13)
    assert norms[0] < 1e-9 < 1e-3 < norms[1]


def test_feddane_draws_twice() -> None:
    """Gradients of two clients, and steps of two others; both may be the same by chance."""
    run = Run(
        FedDane(**WHOLE | {"clients_per_round": 2}, proximal_weight=0.5),
        engine_of("compiled", "equal"),
    )
    pairs = [[tuple(own.starts) for own in run.round().batches[:2]] for _ in range(8)]
    assert sum(first != second for first, second in pairs) > 4


def test_mifa_of_few_clients_finds_the_optimum() -> None:
    """With one step of all samples it is the stochastic average gradient method over clients."""
    engine, norms = engine_of("compiled", DECLARED), []
    few = WHOLE | {"clients_per_round": 2}
    for method in (Mifa(**few), FedAvg(**few)):
        run = Run(method, engine)
        norms.append(engine.measure(run.trajectory(900)[-1])["gradient_norm"])
        if isinstance(method, Mifa):
            mean = engine.part_of_mean(run.state.client_g.table, np.arange(N))
            np.testing.assert_allclose(run.state.g, mean, rtol=0, atol=1e-13)
    assert norms[0] < 1e-9 < 1e-3 < norms[1]


def test_amplified_fedavg_goes_on_from_where_periods_begin() -> None:
    """Of a first period; the next one begins at the amplified model."""
    engine = engine_of("compiled", "equal")
    plain = Run(FedAvg(**LOCAL), engine).trajectory(3)
    run = Run(AmplifiedFedAvg(**LOCAL, period=3, amplification=2.5), engine)
    found = run.trajectory(4)
    np.testing.assert_allclose(found[:3], plain[:3], rtol=0, atol=1e-14)
    np.testing.assert_allclose(found[3] - plain[0], 2.5 * (plain[3] - plain[0]), atol=1e-14)
    np.testing.assert_array_equal(run.state.anchor, found[3])


@each_engine
def test_clients_with_the_greatest_loss_take_part(kind: str) -> None:
    """Of five candidates the worst two, by their objectives at x; others only tell a number."""
    engine = engine_of(kind, "equal", toy((5,) * N))
    run = Run(PowerOfChoice(**LOCAL | {"clients_per_round": 2}, candidates=5), engine)
    model, chosen = engine.dimension * engine.itemsize, set()
    for number in range(1, 9):
        every = engine.numpy(engine.losses(run.state.x, np.arange(N)))[:, 0]
        draws = run.round()
        worst = sorted(draws.clients, key=lambda client: -every[client])[:2]
        assert [start // 5 for start in draws.batches[0].starts] == sorted(worst)
        counted = vars(run.counters)
        assert counted["bytes_down"] == pytest.approx(number * (5 * model + 2 / 8))
        assert counted["bytes_up"] == number * (5 * engine.itemsize + 2 * model)
        assert counted["messages"] == number * (2 * 5 + 2 * 2)
        assert counted["gradient_evaluations"] == number * (5 * 5 + 2 * 3 * 2)
        assert counted["iteration"] == number * 3
        chosen |= set(worst)
    assert len(chosen) > 2


def test_power_of_choice_waits_for_all_candidates() -> None:
    engine = engine_of("compiled", "equal", toy((5,) * N))
    run = Run(PowerOfChoice(**LOCAL, candidates=5), engine, network=CLOCK)
    run.round()
    seconds = 4 * 0.5 + 5 * 8 / 100 + (5 + 3 * 2) * 0.01
    assert run.counters.simulated_time == pytest.approx(seconds)


@each_engine
@pytest.mark.parametrize("weights", ["equal", *WEIGHTS])
def test_losses_of_clients_are_their_objectives(kind: str, weights: str) -> None:
    """Their mean is f, and their differences are along the clients' gradients."""
    engine = engine_of(kind, WEIGHTS.get(weights, "equal"))
    x, along = np.random.default_rng(3).normal(size=(2, engine.dimension))
    who = np.array([0, 2, 3, 5])

    def losses(step: float, clients: np.ndarray) -> np.ndarray:
        return engine.numpy(engine.losses(engine.array(x + step * along), clients))[:, 0]

    p = np.full(N, 1 / N) if weights == "equal" else shares(weights)
    measured = engine.measure(engine.array(x))["objective"]
    assert p @ losses(0, np.arange(N)) == pytest.approx(measured, rel=1e-12)
    batch = engine.minibatches(RoundRandom(0), who, None)
    gradients = engine.numpy(engine.client_gradients(engine.array(x), batch))
    slopes = (losses(1e-5, who) - losses(-1e-5, who)) / 2e-5
    np.testing.assert_allclose(slopes, gradients @ along, rtol=0, atol=1e-8)


RAND_2 = {"kind": "rand_k", "k": 2}
#: Models that a client is sent and sends, its gradients of 2 of 5 samples and of all, its steps.
COSTS: dict[str, tuple[Any, float, float, int, int, int]] = {
    "FedAvgM": (FedAvgM(**LOCAL, momentum=0.9), 1, 1, 3, 0, 3),
    "FedAdam": (FedAdam(**LOCAL, global_step_size=0.1), 1, 1, 3, 0, 3),
    "FedDyn": (FedDyn(**LOCAL, regularisation=0.1), 1, 1, 3, 0, 3),
    "FedNova": (FedNova(**LOCAL), 1, 1 + 1 / 4, 3, 0, 3),
    "Scaffnew": (Scaffnew(step_size=0.1, communication_probability=1, batch_size=2), 1, 1, 1, 0, 1),
    "MimeLite": (Mime(**LOCAL, momentum=0.9, lite=True), 2, 2, 3, 1, 4),
    "Mime": (Mime(**LOCAL, momentum=0.9), 3, 2, 6, 1, 4),
    "FedLin": (FedLin(**LOCAL), 2, 2, 3, 1, 4),
    "FedDANE": (FedDane(**LOCAL, proximal_weight=0.1), 3, 2, 3, 2, 5),
    "Cyclic": (Cyclic(**ALONE, batch_size=2), 1, 1, 3, 0, 3),
    "FedPAQ": (FedPaq(**LOCAL, compressor=RAND_2), 1, (2 * 64 + 4) / (4 * 64), 3, 0, 3),
    "MIFA": (Mifa(**LOCAL), 1, 1, 3, 0, 3),
    "Amplified FedAvg": (AmplifiedFedAvg(**LOCAL, period=2, amplification=2), 1, 1, 3, 0, 3),
    "DP local SGD": (DpLocalSgd(**LOCAL, clip_bound=0.1, noise_multiplier=1), 1, 1, 3, 0, 3),
    "FedSAM": (FedSam(**LOCAL, radius=0.1), 1, 1, 6, 0, 6),
}
CLOCK = StarNetworkModel(seconds_per_gradient=0.01, latency=0.5, bandwidth_up=100.0)


@pytest.mark.parametrize("label", COSTS)
def test_a_round_costs_what_the_paper_says(label: str) -> None:
    """And takes the time of it: what the network is told is what is carried."""
    method, down, up, few, whole, steps = COSTS[label]
    run = Run(method, engine_of("compiled", "equal", toy((5,) * N)), network=CLOCK)
    reached = {"Scaffnew": N, "Cyclic": 1}.get(label, 3)
    gradients, trips = 2 * few + 5 * whole, 2 if label in ("Mime", "FedLin", "FedDANE") else 1
    for number in range(1, 3):
        run.round()
        counted = vars(run.counters)
        assert counted["bytes_down"] == number * reached * down * 8 * 4
        assert counted["bytes_up"] == number * reached * up * 8 * 4
        assert counted["messages"] == number * reached * 2 * trips
        assert counted["sequential_messages"] == number * 2 * trips
        assert counted["gradient_evaluations"] == number * reached * gradients
        assert counted["sequential_gradients"] == number * gradients
        assert counted["iteration"] == number * steps
        seconds = trips * 2 * 0.5 + up * 8 * 4 / 100 + gradients * 0.01
        assert counted["simulated_time"] == pytest.approx(number * seconds)


@pytest.mark.parametrize("label", COSTS)
def test_clients_a_chunk_at_a_time_walk_the_same_path(label: str) -> None:
    engine = engine_of("compiled", "equal")
    runs = [Run(COSTS[label][0], engine, numbers_at_once=many) for many in (None, 4)]
    np.testing.assert_array_equal(*(run.trajectory(5) for run in runs))
    assert runs[0].counters == runs[1].counters


@pytest.mark.parametrize("label", sorted(set(COSTS) - {"Scaffnew"}))
def test_a_round_without_answers_changes_nothing(label: str) -> None:
    nobody = StarNetworkModel(seconds_per_gradient=0.01, availability=1e-9)
    run = Run(COSTS[label][0], engine_of("compiled", "equal"), network=nobody)
    before = run.state
    run.round()
    assert run.counters.bytes_up == run.counters.bytes_down == 0
    for name, array in state_arrays(run.state, run.numpy).items():
        np.testing.assert_array_equal(array, state_arrays(before, run.numpy)[name])


@pytest.mark.parametrize(
    ("algorithm", "changes", "told"),
    [
        ("scaffnew", {"network": TIMED}, r"key 'network': all clients .* remove 'availability'"),
        (
            "cyclic",
            {"objective": LinearObjective(name="logistic_l2", weight=0.1, client_weights="size")},
            "key 'objective.client_weights': Cyclic visits all clients equally often",
        ),
        ("pooled", {"objective": LINEAR}, "value 'equal': Pooled SGD minimises the mean over all"),
        ("pooled", {"network": TIMED}, "key 'network': Pooled SGD sends nothing"),
        ("fedadam", {"hyper": {"momentum": 1.0}}, "momentum"),
        ("fedadam", {"hyper": {"adaptivity": 0.0}}, "adaptivity"),
        ("feddyn", {"hyper": {"regularisation": 0.0}}, "regularisation"),
        ("scaffnew", {"hyper": {"communication_probability": 0.0}}, "communication_probability"),
        ("power_of_choice", {"hyper": {"candidates": 3}}, "candidates is 3, but 4 of them are to"),
        ("power_of_choice", {"hyper": {"candidates": 13}}, "'candidates' is 13, .* 12 clients"),
        ("amplified_fedavg", {"hyper": {"period": 0}}, "period"),
        ("amplified_fedavg", {"hyper": {"amplification": 0.0}}, "amplification"),
        ("fedpaq", {"hyper": {"compressor": None}}, "compressor"),
        ("fedsam", {"hyper": {"radius": 0.0}}, "radius"),
        ("dp_local_sgd", {"hyper": {"clip_bound": 0.0}}, "clip_bound"),
        ("dp_local_sgd", {"hyper": {"local_unit": "epochs"}}, "local_unit"),
    ],
)
def test_what_a_method_cannot_do_is_refused(algorithm: str, changes: Any, told: str) -> None:
    with pytest.raises(FedatlasError, match=told):
        build_algorithm(small(algorithm, **changes))


def test_methods_warn_beyond_their_theorems() -> None:
    for factor in (1 - 1e-9, 1 + 1e-9):
        exact = {"clients_per_round": N, "local_steps": 4, "local_step_size": factor / 26 / 7}
        (fedlin,) = bounds_at(FedLin(**exact), N, 7.0).values()
        own = Scaffnew(step_size=factor / 7, communication_probability=0.1)
        (scaffnew,) = bounds_at(own, N, 7.0).values()
        assert fedlin.exceeded == scaffnew.exceeded == (factor > 1)
    assert bounds_at(FedLin(**exact, batch_size=2), N, 7.0) == {}
