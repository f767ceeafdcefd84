"""Times around a server: rounds, late answers and answers as they arrive, against plain loops.

The loops know of the package only what chance decided: numbers in [0, 1), who was chosen, and the
rows of minibatches.
"""

from functools import cache
from math import exp, fsum, inf
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import reference
from experiment_files import config_folder
from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms._staleness import Hinge, Polynomial
from fedatlas.algorithms.diana import Diana
from fedatlas.algorithms.ef21 import EF21
from fedatlas.algorithms.fedasync import FedAsync
from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedbuff import FedBuff
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal.timed_network import LossyCounters, TimedNetwork
from fedatlas.federations.parts import Load
from fedatlas.federations.times import NANOSECONDS, QUANTILES, ClientTimes
from fedatlas.plan.build import build_plan
from fedatlas.schema.models import Model, validated
from fedatlas.schema.network_model import AnyNetworkModel, StarNetworkModel
from fedatlas.training.loop import train
from fedatlas.training.rehearsal import rehearse
from outside_project import open_project, whole_files
from resuming import killed_and_resumed, without_times
from small_federations import TIMED, small, small_shards
from test_methods import EVEN, N, Run, engine_of, toy
from test_network_clients import Plain
from test_network_clients import engine_of as network_of

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

NAME = "logistic_nonconvex"
NAMED = "network(latency=0.1, bandwidth=1e6, gradient=1e-5)"
STEPS = {"local_steps": 3, "local_step_size": 0.2, "batch_size": 2}
BY_CHANCE = StarNetworkModel.model_validate(TIMED)
ALWAYS = StarNetworkModel.model_validate(TIMED | {"availability": 1.0})
EQUAL = StarNetworkModel(seconds_per_gradient=0.01, latency=0.5)


def settings(kind: str) -> tuple[Any, Any]:
    """The plain problem, and the engine."""
    if kind == "network":
        return Plain("cross_entropy"), network_of("cross_entropy")
    return toy(NAME), engine_of(kind, toy(NAME), NAME)


# ------------------------------------------------------------------------------- the plain clock


@cache
def numbers(seed: int, clients: int, trip: int) -> np.ndarray:
    """What chance draws for all clients' trips of one number."""
    return RoundRandom((seed, 4)).at(trip).uniform(4, clients)


@cache
def lognormal_factors(spread: float) -> list[float]:
    """Equally likely ones of mean 1."""
    normal = NormalDist()
    law = [exp(spread * normal.inv_cdf((k + 0.5) / QUANTILES)) for k in range(QUANTILES)]
    mean = fsum(law) / QUANTILES
    return [one / mean for one in law]


class Clock:
    """What a declared network says of one client's trip, one number at a time."""

    def __init__(self, model: StarNetworkModel, clients: int, seed: int) -> None:
        self.model, self.clients, self.seed = model, clients, seed
        normal = RoundRandom((seed, 3)).generator.standard_normal(clients)
        self.slow = [exp(model.spread * one - model.spread**2 / 2) for one in normal]

    def chance(self, what: int, client: int, trip: int) -> float:
        return float(numbers(self.seed, self.clients, trip)[what, client])

    def duration(self, client: int, trip: int, gradients: int, down: int, up: int) -> float:
        """Seconds."""
        work = self.model.seconds_per_gradient * gradients * self.slow[client]
        if self.model.compute.kind != "constant":
            work *= lognormal_factors(0.5)[int(self.chance(0, client, trip) * QUANTILES)]
        links = down / (self.model.bandwidth_down or inf) + up / (self.model.bandwidth_up or inf)
        return 2 * self.model.latency + links + work

    def lost(self, client: int, trip: int) -> bool:
        """Gilbert's chain from its beginning."""
        loss, lost = self.model.loss, False
        for step in range(trip + 1) if loss else ():
            if step == 0 or self.chance(1, client, step) >= loss.memory:
                lost = self.chance(2, client, step) < loss.probability
        return lost

    def there(self, trip: int) -> list[int]:
        free = self.model.availability
        return [i for i in range(self.clients) if free == 1 or self.chance(3, i, trip) < free]

    def comes(self, client: int, trip: int, took: float) -> bool:
        return not self.lost(client, trip) and took <= (self.model.deadline or inf)


@pytest.mark.parametrize("kind", ["compiled", "torch", "network"])
def test_rounds_take_the_time_of_their_slowest_client_and_waste_what_is_late(kind):
    """FedAvg by its paper, over those who answer; time and waste one client at a time."""
    problem, engine = settings(kind)
    method, seed = FedAvg(clients_per_round=2, global_step_size=0.8, **STEPS), 5
    run = Run(method, engine, seed=seed, network=BY_CHANCE)
    clock, x, time, late, nobody = Clock(BY_CHANCE, engine.clients, seed), run.x0, 0.0, [], 0
    model, sizes = 8 * engine.dimension, np.diff(engine._offsets)
    for k in range(25):
        draws = run.round()
        there = clock.there(k)
        asked = [there[place] for place in draws.clients]
        assert len(asked) == min(2, len(there))
        work = [3 * min(2, int(sizes[i])) for i in asked]
        took = [clock.duration(i, k, g, model, model) for i, g in zip(asked, work, strict=True)]
        comes = [clock.comes(i, k, t) for i, t in zip(asked, took, strict=True)]
        late += [g for g, came in zip(work, comes, strict=True) if not came]
        time += max(took) if asked and all(comes) else BY_CHANCE.deadline
        answered = [i for i, came in zip(asked, comes, strict=True) if came]
        if answered:
            x = reference.fedavg_round(problem, x, answered, draws.steps(0), 0.2, 0.8)
        nobody += not answered
        np.testing.assert_allclose(run.x, x, rtol=0, atol=1e-12)
        assert run.counters.simulated_time == pytest.approx(time, abs=1e-6)
    assert len(late) > 5 and nobody
    assert run.counters.wasted_gradients == sum(late)
    assert run.counters.wasted_bytes == 2 * model * len(late)


def test_what_is_in_vain_is_spent_too():
    """Bytes, messages and gradients of a run are those of all whom the server asked."""
    seen = {}
    for network in (EQUAL, EQUAL.model_copy(update={"deadline": 1.0})):
        run = Run(FedAvg(clients_per_round=N, **STEPS), engine_of("compiled", toy(NAME), NAME),
                  network=network)  # fmt: skip
        run.trajectory(6)
        seen[network.deadline] = vars(run.counters)
    spent, same = seen[1.0], ("bytes_up", "bytes_down", "messages", "gradient_evaluations")
    assert [spent[name] for name in same] == [seen[None][name] for name in same]
    # All take longer than a second: a latency there and back, and their steps.
    assert spent["wasted_gradients"] == spent["gradient_evaluations"]
    assert spent["wasted_bytes"] == spent["bytes_up"] + spent["bytes_down"]
    assert spent["simulated_time"] == 6 and seen[None]["wasted_bytes"] == 0
    assert seen[None]["simulated_time"] == pytest.approx(6 * (1 + 0.01 * 3 * 2))


@pytest.mark.parametrize(
    "method",
    [
        Scaffold(clients_per_round=3, option="I", **STEPS),
        FedPage(clients_per_round=3, local_steps=3, global_step_size=0.1),
        EF21(clients_per_round=3, compressor={"kind": "top_k", "k": 2}, step_size=0.1),
        Diana(clients_per_round=3, compressor={"kind": "quantised", "levels": 2}, step_size=0.1),
    ],
    ids=["scaffold", "fedpage", "ef21", "diana"],
)
def test_without_limits_a_network_changes_no_number(method):
    """All answer: the same draws, and a time besides."""
    engine = engine_of("compiled", toy(NAME), NAME)
    plain, timed = Run(method, engine), Run(method, engine, network=EQUAL)
    np.testing.assert_array_equal(plain.trajectory(12), timed.trajectory(12))
    counted = vars(timed.counters)
    assert counted["simulated_time"] > 12 and counted.items() >= vars(plain.counters).items()


def test_compressed_answers_take_less_time():
    seconds = []
    for k in (1, 5):  # of five
        network = EQUAL.model_copy(update={"bandwidth_up": 8.0, "latency": 0.0})
        method = EF21(clients_per_round=3, compressor={"kind": "top_k", "k": k}, step_size=0.1)
        run = Run(method, engine_of("compiled", toy(NAME, EVEN), NAME), network=network)
        run.round()
        seconds.append(run.counters.simulated_time)
    # A number and its place in 64 + 3 bits, or five numbers; five gradients.
    assert seconds == pytest.approx([67 / 64 + 0.05, 5 + 0.05])


@pytest.mark.parametrize(
    "method", ["scaffold", "fedpage", "ef21", "marina", "dasha", "fedmid", "fed_dual_avg"]
)
def test_where_nobody_answers_a_round_changes_nothing(method):
    network = EQUAL.model_copy(update={"deadline": 1e-3})
    run = Run(
        build_algorithm(small(method)), engine_of("compiled", toy(NAME), NAME), network=network
    )
    np.testing.assert_array_equal(run.trajectory(5), np.tile(run.x0, (6, 1)))
    assert getattr(run.state, "moves", 0) == 0


# ------------------------------------------------------------------------------------- the laws


def times_of(clients: int = 1, seed: int = 0, **network: Any) -> ClientTimes:
    network = {"seconds_per_gradient": 1e-3, "deadline": 100.0, **network}
    return ClientTimes(StarNetworkModel.model_validate(network), clients, seed)


def test_losses_come_as_often_and_as_long_in_a_row_as_declared():
    for burst, expected in ((None, 1 / 0.7), (4.0, 4.0)):
        times = times_of(400, loss={"probability": 0.3, "burst": burst})
        everyone = np.arange(400)
        lost = np.array([times.lost(everyone, np.full(400, k)) for k in range(150)])
        assert lost.mean() == pytest.approx(0.3, abs=0.015)
        ends = lost[:-1] & ~lost[1:]
        assert lost[:-1].sum() / ends.sum() == pytest.approx(expected, rel=0.05)
        assert abs(lost[0].mean() - lost[-1].mean()) < 0.1  # from the first on
        # Asked in another order, of single clients.
        for k, client in ((149, 3), (70, 399), (0, 5)):
            assert times.lost(np.array([client]), np.array([k]))[0] == lost[k, client]


def test_clients_differ_and_answers_vary_about_the_declared_average():
    everyone, load = np.arange(4000), Load(np.full(4000, 1000), 0.0, 0.0)
    took = times_of(4000, spread=0.5).durations(everyone, 0 * everyone, load) / NANOSECONDS
    assert took.mean() == pytest.approx(1, rel=0.03)
    assert np.log(took).std() == pytest.approx(0.5, rel=0.03)
    varied = times_of(4000, compute={"kind": "shifted_exponential", "fixed": 0.4})
    took = varied.durations(everyone, everyone % 3, load) / NANOSECONDS
    assert took.min() >= 0.4 and took.mean() == pytest.approx(1, rel=0.03)
    links = times_of(bandwidth_down=50.0, bandwidth_up=20.0, latency=0.25)
    one = links.durations(np.zeros(1, int), np.zeros(1, int), Load(np.array([2]), 10.0, 10.0))
    assert one[0] == NANOSECONDS * (0.5 + 0.2 + 0.5 + 0.002)


TRACE = "client,from,until\n0,0,10\n1,5,20\n1,30,32\n2,25,40\n"


def test_a_trace_says_who_is_there_and_begins_anew(tmp_path):
    (tmp_path / "there.csv").write_text(TRACE)
    times = times_of(4, availability={"kind": "trace", "file": tmp_path / "there.csv"})
    at = {0: [0], 7: [0, 1], 10: [1], 20: [], 26: [2], 31: [1, 2], 40: [0], 47: [0, 1], 60: []}
    for second, there in at.items():
        assert times.present(second * NANOSECONDS).tolist() == there, second
    opens = {3: 3, 20: 25, 24.5: 25, 60: 65, 32: 32}
    for second, first in opens.items():
        assert times.opens(second * NANOSECONDS) == first * NANOSECONDS
    both, trips = np.array([0, 1]), np.zeros(2, int)
    stays = times.arrive(both, trips, 7 * NANOSECONDS, np.array([4.0, 4.0]) * NANOSECONDS)
    assert stays.tolist() == [False, True]  # the first leaves at 10 s


def test_who_is_there_decides_who_takes_part(tmp_path):
    """A server waits for clients; one that leaves before it has answered costs the deadline."""
    (tmp_path / "there.csv").write_text("client,from,until\n0,5,6.5\n1,5,40\n")
    network = {"seconds_per_gradient": 0.01, "latency": 0.5, "deadline": 3.0}
    network["availability"] = {"kind": "trace", "file": tmp_path / "there.csv"}
    run = Run(FedAvg(clients_per_round=2, **STEPS), engine_of("compiled", toy(NAME), NAME),
              network=StarNetworkModel.model_validate(network))  # fmt: skip
    seconds, sent = [], []
    for _ in range(3):
        run.round()
        seconds.append(run.counters.simulated_time)
        sent.append(run.counters.messages)
    # Both from 5 s on, 1.06 s; the first then leaves, and from 9.06 s on the second is alone.
    assert seconds == pytest.approx([6.06, 9.06, 10.12]) and sent == [4, 8, 10]
    assert run.counters.wasted_gradients == 6


# -------------------------------------------------------------- asynchronous methods, by event


class Watched:
    """The network, and who started when."""

    def __init__(self, network: TimedNetwork) -> None:
        self.network, self.started = network, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)

    def next(self, *given: Any) -> Any:
        found = self.network.next(*given)
        self.started += found[1].clients.tolist()
        return found


def event_loop(run: Run, problem: Any, clock: Clock, rounds: int, take: Any) -> list[list[Any]]:
    """Algorithm 1 of both papers: x after each of the server's steps, and the seconds.

    take(x, t, answers): the next x from the buffer's (version, model sent, model found).
    """
    method, x, seconds, told = run.algorithm, run.x0, 0.0, []
    buffer_size = getattr(method, "buffer_size", 1)
    flight: list[Any] = []  # due, client, trip, version, model that was sent
    trips, sizes = [0] * clock.clients, np.diff(run.engine._offsets)
    model = 8 * run.engine.dimension
    for t in range(rounds):
        run.network.started.clear()
        draws = run.round()
        chosen, buffer = list(run.network.started), []
        while len(buffer) < buffer_size:
            while len(flight) < method.concurrency:
                i = chosen.pop(0)
                assert i not in [client for _, client, *_ in flight]
                work = 3 * min(2, int(sizes[i]))
                took = clock.duration(i, trips[i], work, model, model)
                comes = clock.comes(i, trips[i], took)
                due = seconds + (took if comes else clock.model.deadline)
                flight.append((due, i, comes, t, x.copy()))
                trips[i] += 1
            due, i, comes, version, sent = flight.pop(flight.index(min(flight, key=lambda e: e[0])))
            seconds = due
            if comes:
                y = sent.copy()
                for rows in draws.steps(0)[len(buffer)]:
                    step = problem.client_gradient(i, y, rows)
                    step = step + getattr(method, "proximal_weight", 0.0) * (y - sent)
                    y = y - 0.2 * step
                buffer.append((version, sent, y))
        assert not chosen
        x = take(x, t, buffer)
        np.testing.assert_allclose(run.x, x, rtol=0, atol=1e-12)
        assert run.counters.simulated_time == pytest.approx(seconds, abs=1e-6)
        told.append([t - version for version, *_ in buffer])
    return told


FLIGHT = STEPS | {"concurrency": 4}
STALE = {
    "constant": ({"kind": "constant"}, lambda age: 1.0),
    "polynomial": ({"kind": "polynomial", "power": 0.5}, lambda age: (age + 1) ** -0.5),
    "hinge": (
        {"kind": "hinge", "slope": 2.0, "grace": 2},
        lambda age: 1.0 if age <= 2 else 1 / (2.0 * (age - 2) + 1),
    ),
}


@pytest.mark.parametrize(
    ("kind", "stale"),
    [
        ("compiled", "constant"),
        ("compiled", "hinge"),
        ("torch", "hinge"),
        ("network", "polynomial"),
    ],
)
def test_fedasync_is_its_papers_loop(kind, stale):
    problem, engine = settings(kind)
    declared, s = STALE[stale]
    method = FedAsync(mixing=0.6, proximal_weight=0.3, staleness=declared, **FLIGHT)
    run = Run(method, engine, seed=2, network=ALWAYS)
    run.network = Watched(run.network)

    def mix(x: Any, t: int, buffer: Any) -> Any:
        ((version, _, y),) = buffer
        alpha = 0.6 * s(t - version)
        return (1 - alpha) * x + alpha * y

    ages = event_loop(run, problem, Clock(ALWAYS, engine.clients, 2), 20, mix)
    assert max(max(ages)) > 3  # and some are old


@pytest.mark.parametrize(
    ("kind", "stale"), [("compiled", "polynomial"), ("torch", "constant"), ("network", "constant")]
)
def test_fedbuff_is_its_papers_loop(kind, stale):
    problem, engine = settings(kind)
    declared, s = STALE[stale]
    method = FedBuff(buffer_size=3, global_step_size=0.8, staleness=declared, **FLIGHT)
    run = Run(method, engine, seed=6, network=ALWAYS)
    run.network = Watched(run.network)

    def step(x: Any, t: int, buffer: Any) -> Any:
        total = np.zeros_like(x)
        for version, sent, y in buffer:
            total = total + s(t - version) * (y - sent)
        return x + 0.8 * total / 3

    ages = event_loop(run, problem, Clock(ALWAYS, engine.clients, 6), 10, step)
    # Some start and arrive in one round, others cross several; some answers are lost.
    assert {0, 1} <= {age for one in ages for age in one} and run.counters.wasted_gradients
    assert run.counters.wasted_bytes % (2 * 8 * engine.dimension) == 0


@pytest.mark.parametrize("kind", ["compiled", "network"])
def test_with_equal_times_and_a_buffer_for_all_that_compute_fedbuff_is_fedavg(kind):
    engine = settings(kind)[1]
    even = settings(kind)[1].clients
    for size in (3, even):
        buffered = FedBuff(concurrency=size, buffer_size=size, global_step_size=0.8, **STEPS)
        averaged = FedAvg(clients_per_round=size, global_step_size=0.8, **STEPS)
        # Of clients with one sample work is shorter: times are those of latency alone.
        network = EQUAL.model_copy(update={"seconds_per_gradient": 1e-12})
        runs = [Run(method, engine, network=network) for method in (buffered, averaged)]
        paths = [run.trajectory(8) for run in runs]
        np.testing.assert_allclose(*paths, rtol=0, atol=1e-14)
        assert runs[0].counters.simulated_time == runs[1].counters.simulated_time == 8
        assert runs[0].counters.bytes_up == runs[1].counters.bytes_up


def test_with_one_client_and_alpha_one_fedasync_is_gradient_descent():
    problem = toy(NAME, sizes=(9,))
    method = FedAsync(concurrency=1, local_steps=1, local_step_size=0.3, mixing=1.0)
    run, x = Run(method, engine_of("compiled", problem, NAME), network=EQUAL), None
    x = run.x0
    for _ in range(20):
        run.round()
        x = x - 0.3 * problem.gradient(x)
        np.testing.assert_allclose(run.x, x, rtol=0, atol=1e-13)
    assert run.counters.simulated_time == pytest.approx(20 * (1 + 0.09))


@given(
    seed=some.integers(0, 1000),
    concurrency=some.integers(1, 6),
    answers=some.integers(1, 5),
    availability=some.sampled_from([0.15, 0.6, 1.0]),
    probability=some.sampled_from([0.0, 0.5]),
)
def test_nobody_computes_twice_at_a_time_and_no_more_than_may(
    seed, concurrency, answers, availability, probability
):
    loss = {"probability": probability} if probability else None
    network = TIMED | {"availability": availability, "loss": loss}
    times = ClientTimes(StarNetworkModel.model_validate(network), 6, seed)
    star, load = TimedNetwork(6, LossyCounters(), times), Load(np.full(6, 5), 80.0, 80.0)
    flight, random, now, starts = star.in_flight(concurrency, answers), RoundRandom(seed), 0.0, 0
    for k in range(6):
        before = flight
        flight, started, arrived = star.next(flight, random.at(k), answers, load)
        busy = flight.clients[flight.clients >= 0]
        assert len(np.unique(busy)) == len(busy) <= concurrency
        assert len(arrived.places) == answers == len(np.unique(arrived.places))
        assert (arrived.staleness >= 0).all() and flight.now >= now
        assert (flight.due[flight.clients >= 0] >= flight.now).all()
        starts, now = starts + len(started.clients), flight.now
        assert flight.trips.sum() == starts
        assert before.clients.shape == flight.clients.shape
    given_up = star._counters.wasted_gradients / 5
    assert starts == 6 * answers + given_up + len(busy)


# --------------------------------------------------------------------- nodes that all wait

BARRIER = {"seconds_per_gradient": 0.01, "spread": 0.7, "latency": 0.25, "bandwidth_up": 500.0}
BARRIER |= {"bandwidth_down": 500.0}
OTHERS = {"fmgda": 3, "tdcd": 6}


@pytest.mark.parametrize("method", OTHERS)
def test_where_all_wait_an_exchange_takes_the_time_of_the_slowest(method, tmp_path):
    """The seconds add up from what traces count of the critical path."""
    network = StarNetworkModel.model_validate(BARRIER)
    spec = small(method, network=BARRIER, record_every=1, rounds=4)
    shards = small_shards(tmp_path, method)
    trace = train(spec, shards, tmp_path / "trace.nc")
    if method == "tdcd":
        plain = train(small(method, record_every=1, rounds=4), shards, tmp_path / "plain.nc")
        assert set(trace.variables) - set(plain.variables) == {"simulated_time"}
        np.testing.assert_array_equal(trace["objective"], plain["objective"])
    for number, seed in enumerate(spec.seeds):
        slowest = max(Clock(network, OTHERS[method], seed).slow)
        found = {name: trace[name].to_numpy()[number] for name in trace.coords if name != "seed"}
        carried, gradients = found["sequential_bytes"], found["sequential_gradients"]
        if method == "fmgda":
            carried = carried / 3  # each worker has a link of its own
        seconds = 0.25 * found["sequential_messages"] + carried / 500
        seconds += 0.01 * slowest * gradients
        # What is computed after the last exchange takes its time before the next one.
        left = seconds - found["simulated_time"]
        assert (left > -1e-6).all()
        np.testing.assert_allclose(left[1:], left[1], rtol=0, atol=1e-6)
        if method == "tdcd":
            assert abs(left).max() < 1e-6


def test_times_of_nodes_that_all_wait_go_on_where_a_run_was_killed(tmp_path):
    method = "dp_gradient_tracking"
    varied = BARRIER | {"compute": {"kind": "lognormal", "spread": 1.0}}
    spec, shards = small(method, network=varied, rounds=4), small_shards(tmp_path, method)
    trace = train(spec, shards, tmp_path / "trace.nc")
    resumed = killed_and_resumed((2, 3), spec, shards, tmp_path)
    assert without_times(resumed).identical(without_times(trace))
    assert rehearse(spec, shards) == "does what a method promises"


def test_only_clients_that_a_server_chooses_may_be_away():
    for key in ("availability", "deadline"):
        spec = small("tdcd", network=BARRIER | {key: 0.5})
        with pytest.raises(FedatlasError, match="'network': all silos take part in every exchange"):
            build_algorithm(spec)


# ------------------------------------------------------------------------------- what is refused


class Timed(Model):
    network: AnyNetworkModel


@pytest.mark.parametrize(
    ("network", "told"),
    [
        ({"loss": {"probability": 0.1}}, "'loss': the server would wait forever.*'deadline'"),
        ({"availability": {"kind": "trace", "spells": [[0, 1, 2]]}}, "'availability': the server"),
        ({"availability": {"kind": "trace", "spells": [[0, 2, 1]]}}, "client 0 is there from 2"),
        ({"availability": {"kind": "trace", "file": "no.csv"}}, "no.csv: No such file"),
        ({"loss": {"probability": 0.5, "burst": 1.5}}, "shorter than chance makes it, 2;"),
        ({"latencey": 1}, "unknown key 'latencey'; similar: latency"),
        ({"latency": 1e-12}, "key 'latency', .*whole nanoseconds"),
    ],
)
def test_networks_that_cannot_be_are_refused(network, told):
    with pytest.raises(FedatlasError, match=told):
        validated(AnyNetworkModel, {"seconds_per_gradient": 1e-3} | network, "network")


NUMBERS = "must be CSV with the columns 'client', 'from' and 'until', of numbers"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file or directory"),
        ("who,from,until\n0,1,2\n", NUMBERS),
        ("client,from,until\n0,1,x\n", NUMBERS),
        (
            "client,from,until\n0,1,2\n1,3,2\n",
            "client 1 is there from 3 until 2 s: 'from' must be less",
        ),
    ],
)
def test_a_fault_of_a_traces_file_is_told_once_and_of_its_key(text, told, tmp_path):
    file = tmp_path / "there.csv"
    if text:
        file.write_text(text)
    declared = TIMED | {"availability": {"kind": "trace", "file": str(file)}}
    with pytest.raises(FedatlasError) as refused:
        validated(Timed, {"network": declared}, "e.yaml")
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"e.yaml: key 'network.availability.file', value '{file}': ")
    assert line.endswith(told)


@pytest.mark.parametrize(
    ("availability", "told"),
    [
        ({"kind": "trace"}, ["missing key 'network.availability.spells'"]),
        (
            {"kind": "trac", "spells": [[0, 1, 2]]},
            ["key 'network.availability.kind', value 'trac': must be 'trace'"],
        ),
        (2, ["key 'network.availability', value 2: must be less than or equal to 1"]),
        ("often", ["key 'network.availability', value 'often': must be a number"]),
        ([1], ["key 'network.availability': must be a number"]),
        (
            {"kind": "trace", "spells": [[0, 2, 1]]},
            ["key 'network.availability': client 0 is there from 2 until 1 s: 'from' must be less"],
        ),
    ],
)
def test_of_a_number_or_a_mapping_only_the_faults_of_what_was_meant_are_told(availability, told):
    with pytest.raises(FedatlasError) as refused:
        validated(Timed, {"network": TIMED | {"availability": availability}}, "e.yaml")
    assert str(refused.value).splitlines() == [f"e.yaml: {line}" for line in told]


def test_a_method_that_does_not_say_what_clients_do_is_refused():
    """Times hold only for what the network was told."""
    engine, everyone = engine_of("compiled", toy(NAME), NAME), np.arange(N)
    network = TimedNetwork(N, LossyCounters(), ClientTimes(EQUAL, N, 0))
    x, random = engine.zeros(), RoundRandom(0)
    with pytest.raises(FedatlasError, match=r"network\.participants did not choose"):
        network.broadcast(x, to=everyone)
    clients = network.participants(random, 3, engine.load((2, 1)))
    with pytest.raises(FedatlasError, match=r"that network\.participants did not choose"):
        network.broadcast(x, to=np.setdiff1d(everyone, clients))
    network.broadcast(x, to=clients)
    with pytest.raises(FedatlasError, match=r"broadcast carries 80 bytes .* told of 40: .*'down'"):
        network.broadcast(x, to=clients)
    with pytest.raises(FedatlasError, match=r"gather carries 80 bytes .* told of 40: .*'up'"):
        network.gather(engine.zeros(3, 5), engine.zeros(3, 5))


def test_epsilon_does_not_cover_who_is_there_by_a_trace():
    network = TIMED | {"availability": {"kind": "trace", "spells": [[0, 0.0, 9.0]]}}
    spec = small("dp_fedavg", network=network)
    with pytest.raises(FedatlasError, match=r"network\.availability': by a trace"):
        build_algorithm(spec)
    build_algorithm(small("dp_fedavg", network=TIMED))


@pytest.mark.parametrize("method", ["fedasync", "fedbuff"])
def test_who_takes_answers_as_they_arrive_needs_a_network(method):
    spec = small(method)
    with pytest.raises(FedatlasError, match=r"'network': .*state one with 'seconds_per_gradient'"):
        build_algorithm(spec.model_copy(update={"network": None}))


def test_kinds_of_staleness_are_told_apart():
    spec = small("fedasync", {"staleness": {"kind": "hinge", "slope": 1.0, "grace": 3}})
    assert isinstance(build_algorithm(spec).staleness, Hinge)
    assert isinstance(build_algorithm(small("fedasync")).staleness, Polynomial)


def test_a_run_records_its_time_and_its_waste(tmp_path):
    spec = small("fedavg", network=TIMED)
    trace = train(spec, small_shards(tmp_path, "fedavg"), tmp_path / "trace.nc")
    for name, units in {"simulated_time": "s", "wasted_bytes": "byte"}.items():
        assert (np.diff(trace[name]) >= 0).all() and trace[name].attrs["units"] == units
    assert (trace["wasted_gradients"][:, -1] > 0).all()


def test_the_page_on_clocks_is_a_plan(tmp_path, monkeypatch):
    files = whole_files("adding/clocks")
    text = files["experiments/clocks.yaml"]
    plan = build_plan(
        config_folder(tmp_path / "config"), open_project(tmp_path / "lab", files, monkeypatch)
    )
    assert {spec.network.deadline for spec in plan.runs.values()} == {2.0}
    for number, (old, new, told) in enumerate(
        [
            ("availability: 0.8", "availability: {kind: trace, file: there.csv}", "there.csv: No"),
            ("availability: 0.8", "availability: {kind: trace, spells: [[20, 0, 1]]}", "client 20"),
            ("cost: simulated_time", "cost: '" + NAMED + "'", "'fedbuff' .*name simulated_time"),
        ]
    ):
        changed = {"experiments/clocks.yaml": text.replace(old, new)}
        lab = open_project(tmp_path / str(number), changed, monkeypatch)
        with pytest.raises(FedatlasError, match=rf"(?s)clocks\.yaml: .*{told}"):
            build_plan(config_folder(tmp_path / f"config-{number}"), lab)
