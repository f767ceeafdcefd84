"""FedAvg, SCAFFOLD and FedPAGE: what they reduce to, what they cost, and their theorems' steps.

That they are their papers' loops is tested in tests/test_certificates.py.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import reference
from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.algorithms.fedprox import FedProx
from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.arithmetic.client_rows import ChunkedRows
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.algorithm import Algorithm, StepBound
from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.horizontal.timed_network import LossyCounters, TimedNetwork
from fedatlas.federations.horizontal.torch_engine import TorchEngine
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.federations.times import ClientTimes
from fedatlas.schema.network_model import StarNetworkModel
from reference import Problem, objective_of, random_problem, shard_of

ROUNDS = 50
SIZES = (5, 3, 6, 1, 4, 6, 2)
EVEN = (5,) * 6
DIMENSION = 5

both_engines = pytest.mark.parametrize("kind", ["compiled", "torch"])
objectives = pytest.mark.parametrize("name", ["robust_regression", "logistic_nonconvex"])


# --------------------------------------------------------------------------- running a method


@dataclass
class Draws:
    """What a method drew in one round: its coin, its clients and its minibatches, in order."""

    coin: bool | None = None
    probability: float | None = None
    clients: list[int] | None = None
    batches: list[Minibatches] = field(default_factory=list)

    def rows(self, batch: int, client: int, step: int) -> list[int]:
        """The samples, within [M_i], that the client-th client uses at a step."""
        drawn = self.batches[batch]
        size = int(drawn.sizes[client])
        if drawn.rows.size == 0:
            return list(range(size))
        return [int(row - drawn.starts[client]) for row in drawn.rows[client, step, :size]]

    def steps(self, batch: int) -> list[list[list[int]]]:
        """The samples of every client of a batch at every step."""
        drawn = self.batches[batch]
        return [
            [self.rows(batch, s, k) for k in range(drawn.steps)] for s in range(len(drawn.sizes))
        ]


class RecordingRandom(RoundRandom):
    """The same draws, written down."""

    draws: Draws

    def bernoulli(self, probability: float) -> bool:
        self.draws.probability = probability
        self.draws.coin = super().bernoulli(probability)
        return self.draws.coin

    def sample(self, population: int, size: int) -> np.ndarray:
        clients = super().sample(population, size)
        self.draws.clients = clients.tolist()
        return clients


class ScriptedRandom(RecordingRandom):
    """The same draws, but the coin shows what the test says."""

    coin = False

    def bernoulli(self, probability: float) -> bool:
        super().bernoulli(probability)
        self.draws.coin = self.coin
        return self.coin


class RecordingProblem:
    """The same oracle; its minibatches are written down."""

    draws: Draws

    def __init__(self, problem: HorizontalProblem) -> None:
        self._problem = problem

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def minibatches(self, *asked: Any, **options: Any) -> Minibatches:
        batch = self._problem.minibatches(*asked, **options)
        self.draws.batches.append(batch)
        return batch


class Run:
    """A method on an engine, a round at a time."""

    def __init__(
        self,
        algorithm: Algorithm,
        engine: HorizontalProblem,
        seed: int = 0,
        x0: np.ndarray | None = None,
        random: type[RecordingRandom] = RecordingRandom,
        numbers_at_once: int | None = None,
        network: StarNetworkModel | None = None,
    ) -> None:
        self.algorithm, self.engine = algorithm, engine
        self.counters = Counters() if network is None else LossyCounters()
        problem = engine.counting(self.counters)
        problem.numbers_at_once = numbers_at_once or engine.numbers_at_once
        self.problem = RecordingProblem(problem)
        self.network = StarNetwork(engine.clients, self.counters)
        if network is not None:
            times = ClientTimes(network, engine.clients, seed)
            self.network = TimedNetwork(engine.clients, self.counters, times)
        self.random = random(seed)
        self.x0 = start_point(engine.dimension) if x0 is None else x0
        self.state = algorithm.start(self.problem, self.network, engine.array(self.x0.copy()))
        self.round_number = 0

    def round(self) -> Draws:
        draws = Draws()
        self.problem.draws = self.random.draws = draws
        self.state = self.algorithm.round(
            self.state, self.problem, self.network, self.random.at(self.round_number)
        )
        self.round_number += 1
        return draws

    @property
    def x(self) -> np.ndarray:
        return self.numpy(self.state.x)

    def numpy(self, array: Any) -> np.ndarray:
        return self.engine.numpy(array).copy()

    def trajectory(self, rounds: int = 20) -> np.ndarray:
        points = [self.x]
        for _ in range(rounds):
            self.round()
            points.append(self.x)
        return np.array(points)


def start_point(dimension: int) -> np.ndarray:
    return np.random.default_rng(99).normal(size=dimension)


def toy(name: str, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> Problem:
    return random_problem(objective_of(name), sizes, DIMENSION, seed)


def engine_of(kind: str, problem: Problem, name: str) -> HorizontalProblem:
    data = shard_of(problem)
    if kind == "torch":
        return TorchEngine(data, objective_of(name), "cpu")
    return CompiledEngine(data, objective_of(name))


# ------------------------------------------------- (a) everyone takes part, with all their data

N = len(SIZES)
FULL_METHODS = {
    "FedAvg-Full": FedAvg(clients_per_round=N, local_steps=4, local_step_size=0.1),
    "FedAvg-Full, two steps": FedAvg(
        clients_per_round=N, local_steps=3, local_step_size=0.1, global_step_size=0.7
    ),
    "SCAFFOLD-Full I": Scaffold(
        clients_per_round=N, local_steps=4, local_step_size=0.1, option="I"
    ),
    "FedProx-Full": FedProx(
        clients_per_round=N, local_steps=4, local_step_size=0.1, proximal_weight=0.7
    ),
    "SCAFFOLD-Full II": Scaffold(
        clients_per_round=N, local_steps=4, local_step_size=0.1, global_step_size=0.7
    ),
    "FedPAGE-Full": FedPage(
        clients_per_round=N, local_steps=4, global_step_size=0.3, full_round_probability=0.3,
        local_batch_size=None,
    ),
    "FedPAGE-Full, own local step": FedPage(
        clients_per_round=N, local_steps=4, global_step_size=0.3, full_round_probability=0.3,
        local_batch_size=None, local_step_size=0.2,
    ),
    "FedPAGE": FedPage(
        clients_per_round=N, local_steps=4, global_step_size=0.3, full_round_probability=0.3
    ),
}  # fmt: skip


# -------------------------------------------- (b) sampled clients, minibatches, the same draws

STOCHASTIC_METHODS = {
    "FedAvg": FedAvg(
        clients_per_round=3, local_steps=4, local_step_size=0.1, global_step_size=0.8,
        batch_size=2,
    ),
    "SCAFFOLD I": Scaffold(
        clients_per_round=3, local_steps=4, local_step_size=0.05, batch_size=2, option="I"
    ),
    "SCAFFOLD II": Scaffold(
        clients_per_round=3, local_steps=4, local_step_size=0.05, global_step_size=0.8,
        batch_size=2, option="II",
    ),
    "SCAFFOLD by its effective step": Scaffold(
        clients_per_round=3, local_steps=4, local_step_size=0.02, effective_step=0.1, batch_size=2
    ),
    "FedPAGE": FedPage(
        clients_per_round=3, local_steps=4, global_step_size=0.15, full_batch_size=4,
        first_batch_size=3, local_batch_size=2, full_round_probability=0.3,
    ),
    "FedPAGE of section 6": FedPage(
        clients_per_round=2, local_steps=5, global_step_size=0.1, local_step_size=0.03
    ),
    "other probabilities later": FedPage(
        clients_per_round=3, local_steps=3, global_step_size=0.1,
        full_round_probability={5: 0.9, 20: 0.1},
    ),
    "one client": FedPage(clients_per_round=1, local_steps=3, global_step_size=0.1),
    "PAGE": FedPage(
        clients_per_round=3, local_steps=1, global_step_size=0.1, first_batch_size=2
    ),
}  # fmt: skip


@pytest.mark.parametrize("label", [name for name in STOCHASTIC_METHODS if "PAGE" in name])
def test_fedpage_tosses_its_coin_as_told(label: str) -> None:
    method = STOCHASTIC_METHODS[label]
    run = Run(method, engine_of("compiled", toy("logistic_nonconvex"), "logistic_nonconvex"))
    drawn = [run.round() for _ in range(ROUNDS)]
    expected: Any = method.full_round_probability or method.clients_per_round / N
    if isinstance(expected, dict):
        share = method.clients_per_round / N
        expected = [share] * 5 + [0.9] * 15 + [0.1] * (len(drawn) - 20)
        assert [draws.probability for draws in drawn] == expected
    else:
        assert {draws.probability for draws in drawn[1:]} == {expected}
    assert 0 < sum(bool(draws.coin) for draws in drawn[1:]) < ROUNDS - 1


def test_a_stated_effective_step_gives_the_servers_step() -> None:
    steps = {"local_steps": 4, "local_step_size": 0.02, "clients_per_round": 3}
    for method in (Scaffold, FedAvg):
        assert method(**steps, effective_step=0.4).server_step_size == pytest.approx(5)
        assert method(**steps, effective_step=0.4).effective_step_size == 0.4
        assert method(**steps).effective_step_size == pytest.approx(0.08)
        with pytest.raises(ValidationError, match="are both declared, and one gives the other"):
            method(**steps, effective_step=0.4, global_step_size=5)

        with pytest.raises(ValidationError, match="state global_step_size, which is η_g"):
            method(**steps, effective_step=0.4, batch_size=2, local_unit="epochs")


def test_fedpage_draws_its_minibatches_where_the_paper_does() -> None:
    """I_1 on every client; I_2 once and I_3 afresh at each of K − 1 steps on sampled clients."""
    problem = toy("robust_regression", EVEN)
    method = STOCHASTIC_METHODS["FedPAGE"]
    run = Run(method, engine_of("compiled", problem, "robust_regression"), random=ScriptedRandom)
    full, local = run.round(), run.round()
    assert full.clients == list(range(6))
    shapes = [[(len(b.sizes), b.steps, int(b.sizes[0])) for b in d.batches] for d in (full, local)]
    assert shapes == [[(6, 1, 4)], [(3, 1, 3), (3, 3, 2)]]
    third = local.batches[1].rows
    assert len({tuple(step) for client in third.tolist() for step in client}) > 3


# ------------------------------------------------------------------------------ (c) reductions


@objectives
@pytest.mark.parametrize("local_step", [None, 0.37])
def test_fedpage_with_one_local_step_is_page(name: str, local_step: float | None) -> None:
    """K = 1: the local step size cancels and the recursion is PAGE's."""
    problem = toy(name)
    method = FedPage(
        clients_per_round=2, local_steps=1, global_step_size=0.2, local_step_size=local_step
    )
    run = Run(method, engine_of("compiled", problem, name), seed=1)
    state = reference.PageState(run.x0.copy())
    for _ in range(ROUNDS):
        draws = run.round()
        state = reference.page_step(problem, state, bool(draws.coin), draws.clients or [], 0.2)
        np.testing.assert_allclose(run.x, state.x, rtol=0, atol=1e-9)


@objectives
def test_fedavg_with_one_client_is_sgd(name: str) -> None:
    problem = toy(name, (6,))
    method = FedAvg(clients_per_round=1, local_steps=4, local_step_size=0.1, batch_size=2)
    run, x = Run(method, engine_of("compiled", problem, name)), start_point(DIMENSION)
    for _ in range(ROUNDS):
        for rows in run.round().steps(0)[0]:
            x = x - 0.1 * problem.client_gradient(0, x, rows)
        np.testing.assert_allclose(run.x, x, rtol=0, atol=1e-9)


@objectives
@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_with_one_client_is_fedavg(name: str, option: str) -> None:
    """With a single client its control is the server's: the correction vanishes."""
    engine = engine_of("compiled", toy(name, (6,)), name)
    shared = {"clients_per_round": 1, "local_steps": 4, "local_step_size": 0.1, "batch_size": 2}
    scaffold = Run(Scaffold(**shared, option=option), engine).trajectory()
    fedavg = Run(FedAvg(**shared), engine).trajectory()
    np.testing.assert_allclose(scaffold, fedavg, rtol=0, atol=1e-12)


DESCENTS = {
    "FedAvg": FedAvg(clients_per_round=N, local_steps=1, local_step_size=0.2, global_step_size=1.5),
    "SCAFFOLD": Scaffold(
        clients_per_round=N, local_steps=1, local_step_size=0.2, global_step_size=1.5
    ),
    "FedPAGE, one step": FedPage(
        clients_per_round=2, local_steps=1, global_step_size=0.3, full_round_probability=1.0
    ),
    "FedPAGE": FedPage(
        clients_per_round=2, local_steps=3, global_step_size=0.3, full_round_probability=1.0
    ),
}


@objectives
@pytest.mark.parametrize("label", DESCENTS)
def test_one_full_step_of_everyone_is_gradient_descent(name: str, label: str) -> None:
    """One local step with all samples, or FedPAGE's full rounds only."""
    problem = toy(name)
    run = Run(DESCENTS[label], engine_of("compiled", problem, name))
    x = run.x0.copy()
    for _ in range(ROUNDS):
        run.round()
        x = x - 0.3 * problem.gradient(x)
        np.testing.assert_allclose(run.x, x, rtol=0, atol=1e-9)


def test_the_effective_step_size_is_section_6s() -> None:
    shared = {"clients_per_round": 1, "local_steps": 10, "local_step_size": 0.02}
    for method in (FedAvg, Scaffold):
        assert method(**shared).effective_step_size == pytest.approx(0.2)
        assert method(**shared, global_step_size=0.5).effective_step_size == pytest.approx(0.1)
    assert FedPage(**shared, global_step_size=0.3).effective_step_size == 0.3


# ------------------------------------------------------------------------------ (d) invariants


@both_engines
@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("sampled", [1, 3, N])
def test_scaffolds_control_is_the_mean_of_the_clients(kind: str, option: str, sampled: int) -> None:
    name = "logistic_nonconvex"
    method = Scaffold(
        clients_per_round=sampled, local_steps=3, local_step_size=0.1, batch_size=2, option=option
    )
    run = Run(method, engine_of(kind, toy(name), name))
    for _ in range(30):
        run.round()
        mean = run.numpy(run.state.client_c.table).mean(axis=0)
        np.testing.assert_allclose(run.numpy(run.state.c), mean, rtol=0, atol=1e-13)


# ------------------------------------------------------------------------------- (e) what it costs

COST_CASES = {
    # label: (method, coin), and per round: floats of size d down and up, clients reached,
    # gradient evaluations of each, sequential steps. EVEN: N = 6 clients with M = 5 samples.
    "FedAvg": (
        FedAvg(clients_per_round=2, local_steps=4, local_step_size=0.1, batch_size=3),
        False, (2, 2), 2, 4 * 3, 4,
    ),
    "FedAvg-Full, all clients": (
        FedAvg(clients_per_round=6, local_steps=4, local_step_size=0.1),
        False, (6, 6), 6, 4 * 5, 4,
    ),
    "SCAFFOLD II": (
        Scaffold(clients_per_round=2, local_steps=4, local_step_size=0.1, batch_size=3),
        False, (4, 4), 2, 4 * 3, 4,
    ),
    "SCAFFOLD I": (
        Scaffold(clients_per_round=2, local_steps=4, local_step_size=0.1, batch_size=3, option="I"),
        False, (4, 4), 2, 4 * 3 + 5, 5,
    ),
    "FedPAGE, full round": (
        FedPage(clients_per_round=2, local_steps=4, global_step_size=0.1, full_batch_size=4),
        True, (6, 6), 6, 4, 1,
    ),
    "FedPAGE, full round, b1 = M": (
        FedPage(clients_per_round=2, local_steps=4, global_step_size=0.1),
        True, (6, 6), 6, 5, 1,
    ),
    "FedPAGE, local round": (
        FedPage(clients_per_round=2, local_steps=4, global_step_size=0.1, first_batch_size=3,
                local_batch_size=2),
        False, (3 * 2, 2), 2, 2 * 3 + 2 * 3 * 2, 4,
    ),
    "FedPAGE-Full, local round": (
        FedPage(clients_per_round=2, local_steps=4, global_step_size=0.1, local_batch_size=None),
        False, (3 * 2, 2), 2, 2 * 5 + 2 * 3 * 5, 4,
    ),
    "PAGE, local round": (
        FedPage(clients_per_round=2, local_steps=1, global_step_size=0.1),
        False, (3 * 2, 2), 2, 2 * 5, 1,
    ),
}  # fmt: skip


@both_engines
@pytest.mark.parametrize("label", COST_CASES)
def test_a_round_costs_what_the_paper_says(kind: str, label: str) -> None:
    method, coin, (down, up), reached, evaluations, steps = COST_CASES[label]
    name = "robust_regression"
    run = Run(method, engine_of(kind, toy(name, EVEN), name), random=ScriptedRandom)
    run.random.coin = coin
    run.round()  # FedPAGE's first round is a full one whatever the coin
    for _ in range(3):
        before = Counters(**vars(run.counters))
        run.round()
        spent = {key: getattr(run.counters, key) - old for key, old in vars(before).items()}
        assert spent == {
            "gradient_evaluations": reached * evaluations,
            "iteration": steps,
            "bytes_down": 8 * DIMENSION * down,
            "bytes_up": 8 * DIMENSION * up,
            "messages": 2 * reached,
            "full_participations": int(reached == 6),
            # To all clients and back; all bytes pass the server; clients work at the same time.
            "sequential_messages": 2,
            "sequential_bytes": 8 * DIMENSION * (down + up),
            "sequential_gradients": evaluations,
        }


def test_ragged_clients_pay_for_the_samples_they_have() -> None:
    name = "robust_regression"
    engine = engine_of("compiled", toy(name), name)
    fedavg = FedAvg(clients_per_round=N, local_steps=2, local_step_size=0.1, batch_size=4)
    run = Run(fedavg, engine)
    run.round()
    assert run.counters.gradient_evaluations == 2 * sum(min(4, size) for size in SIZES)
    assert run.counters.sequential_gradients == 2 * 4  # of a client that has four or more
    fedpage = FedPage(clients_per_round=N, local_steps=3, global_step_size=0.1, local_batch_size=4)
    run = Run(fedpage, engine, random=ScriptedRandom)
    run.round()
    assert run.counters.gradient_evaluations == sum(SIZES)
    assert run.counters.sequential_gradients == max(SIZES)
    run.round()
    later = 2 * 2 * sum(min(4, size) for size in SIZES)
    assert run.counters.gradient_evaluations == 3 * sum(SIZES) + later
    assert run.counters.sequential_gradients == 3 * max(SIZES) + 2 * 2 * 4


@pytest.mark.parametrize(
    ("clients", "samples", "sampled", "batch", "floats", "work"),
    [
        (3250, 10, 10, 4, (59.9, 80, 40), (38, 40)),
        (4800, 10, 10, 4, (59.9, 80, 40), (38, 40)),
        (325, 100, 1, 22, (6.0, 8, 4), (218, 220)),
        (10, 3250, 1, 652, (5.6, 8, 4), (6518, 6520)),
    ],
)
def test_the_papers_settings_cost_the_same(
    clients: int,
    samples: int,
    sampled: int,
    batch: int,
    floats: tuple[float, float, float],
    work: tuple[int, int],
) -> None:
    """Section 6: twice the clients for FedAvg and SCAFFOLD, and as many gradients per client."""
    rows = np.zeros((samples, 2))
    problem = Problem([(rows, np.ones(samples))] * clients)
    engine = engine_of("compiled", problem, "robust_regression")
    page = FedPage(clients_per_round=sampled, local_steps=10, global_step_size=0.1)
    run, spent = Run(page, engine, random=ScriptedRandom), []
    for _ in range(2):  # a full round, then a local one
        before = Counters(**vars(run.counters))
        run.round()
        spent.append({key: getattr(run.counters, key) - old for key, old in vars(before).items()})
    assert run.random.draws.probability == sampled / clients
    per_round = [(costs["bytes_down"] + costs["bytes_up"]) / (8 * 2) for costs in spent]
    p = sampled / clients
    assert p * per_round[0] + (1 - p) * per_round[1] == pytest.approx(floats[0], abs=0.05)
    assert p * clients + (1 - p) * sampled < 2 * sampled
    assert spent[1]["gradient_evaluations"] == sampled * work[0]
    for method, expected in ((Scaffold, floats[1]), (FedAvg, floats[2])):
        other = method(
            clients_per_round=2 * sampled, local_steps=10, local_step_size=0.01, batch_size=batch
        )
        run = Run(other, engine)
        run.round()
        assert (run.counters.bytes_down + run.counters.bytes_up) / (8 * 2) == expected
        assert run.counters.gradient_evaluations == 2 * sampled * work[1]


# ---------------------------------------------------------------------------------- (f) purity

PURE_METHODS = {
    label: STOCHASTIC_METHODS[label] for label in ("FedAvg", "SCAFFOLD I", "SCAFFOLD II", "FedPAGE")
}


@both_engines
@pytest.mark.parametrize("label", FULL_METHODS | PURE_METHODS)
@pytest.mark.parametrize("clients_at_once", [1, 2])
def test_clients_a_chunk_at_a_time_walk_the_same_path(
    kind: str, label: str, clients_at_once: int
) -> None:
    name = "logistic_nonconvex"
    method, engine = (FULL_METHODS | PURE_METHODS)[label], engine_of(kind, toy(name), name)
    whole = Run(method, engine)
    chunked = Run(method, engine, numbers_at_once=clients_at_once * DIMENSION)
    paths = [run.trajectory() for run in (whole, chunked)]
    if kind == "compiled":
        np.testing.assert_array_equal(*paths)
    else:  # torch adds up clients in an order of its own
        np.testing.assert_allclose(*paths, rtol=0, atol=1e-12)
    assert chunked.counters == whole.counters
    batch = chunked.problem.minibatches(RoundRandom(0), np.arange(N), None)
    rows = chunked.problem.gradient(engine.array(chunked.x0), batch)
    assert isinstance(rows, ChunkedRows)  # these were what it summed


def test_fedavg_and_scaffold_see_the_same_clients_and_samples() -> None:
    name = "robust_regression"
    engine = engine_of("compiled", toy(name), name)
    shared = {"clients_per_round": 3, "local_steps": 2, "local_step_size": 0.1, "batch_size": 2}
    runs = [Run(method(**shared), engine, seed=7) for method in (FedAvg, Scaffold)]
    for _ in range(10):
        one, other = (run.round() for run in runs)
        assert one.clients == other.clients
        assert one.steps(0) == other.steps(0)


# ------------------------------------------------------------------------- (g) theory's steps


def bounds_at(method: Algorithm, clients: int, smoothness: float) -> dict[str, StepBound]:
    problem: Any = SimpleNamespace(
        clients=clients, smoothness=smoothness, average_smoothness=smoothness
    )
    return {bound.step: bound for bound in method.step_bounds(problem)}


SETTINGS = [(3250, 10), (4800, 10), (325, 1), (10, 1)]


@pytest.mark.parametrize("smoothness", [0.25, 1.0, 14.0])
@pytest.mark.parametrize(("clients", "sampled"), SETTINGS)
@pytest.mark.parametrize("local_steps", [1, 10])
def test_fedpage_warns_exactly_beyond_its_theorems(
    smoothness: float, clients: int, sampled: int, local_steps: int
) -> None:
    p = sampled / clients
    single = local_steps == 1
    theory = reference.page_step_bound if single else reference.fedpage_step_bound
    largest = theory(smoothness, p, sampled)
    largest_local = reference.fedpage_local_bound(smoothness, p, sampled, local_steps)
    for factor in (0.5, 1 - 1e-9, 1 + 1e-9, 3.0):
        method = FedPage(
            clients_per_round=sampled, local_steps=local_steps, global_step_size=factor * largest,
            local_step_size=factor * largest_local,
        )  # fmt: skip
        bounds = bounds_at(method, clients, smoothness)
        assert set(bounds) == ({"η_g"} if single else {"η_g", "η_l"})
        assert bounds["η_g"].bound == pytest.approx(largest, rel=1e-12)
        assert all(bound.exceeded == (factor > 1) for bound in bounds.values())
        if not single:
            assert bounds["η_l"].bound == pytest.approx(largest_local, rel=1e-12)
        assert "corrected" in str(bounds["η_g"])
    own = FedPage(
        clients_per_round=sampled, local_steps=local_steps, global_step_size=0.1,
        full_round_probability=0.5,
    )  # fmt: skip
    bounds = bounds_at(own, clients, smoothness)
    assert bounds["η_g"].bound == pytest.approx(theory(smoothness, 0.5, sampled), rel=1e-12)
    if not single:
        assert bounds["η_l"].value == pytest.approx(0.1 / local_steps)  # the step really taken


@pytest.mark.parametrize(("clients", "bound"), [(3250, 1.40e-3), (4800, 1.08e-3)])
@pytest.mark.parametrize("global_step", [1.0, 2.5])
def test_scaffold_warns_exactly_beyond_its_theorem(
    clients: int, bound: float, global_step: float
) -> None:
    largest = reference.scaffold_local_bound(2.0, clients, 20, 10, global_step)
    assert largest * 10 * global_step * 2.0 == pytest.approx(bound, abs=5e-6)
    for factor in (0.5, 1 - 1e-9, 1 + 1e-9, 3.0):
        method = Scaffold(
            clients_per_round=20, local_steps=10, local_step_size=factor * largest,
            global_step_size=global_step,
        )  # fmt: skip
        assert [b.exceeded for b in bounds_at(method, clients, 2.0).values()] == [factor > 1]
