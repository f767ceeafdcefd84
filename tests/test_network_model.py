"""Simulated time under a declared network: a plain simulation, its name as a cost, who lacks it.

Methods of every kind are run here for a round. What they count one after the other must make the
time of `Schedule`, which knows nothing of counts: it moves bytes and gradients, event by event.
"""

import itertools
import json
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

import figure_factory
from experiment_files import config_folder
from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.algorithms.tdcd import Tdcd
from fedatlas.arithmetic.randomness import Draws
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import cost_axis, is_counted, network_time, own_latency
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.evaluation.verdicts import judge
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.decentralised.graph import GraphNetwork
from fedatlas.federations.parts import SequentialCounters
from fedatlas.plan.build import build_plan
from fedatlas.schema.claims import Claim
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.quantities import Cost, DeclaredNetwork, declared_network
from fedatlas.schema.runs import Selection
from figure_factory import figure_of
from test_decentralised_problem import layout
from test_methods import DIMENSION, Run, ScriptedRandom, engine_of, toy
from test_tdcd import minibatches, run
from test_tiered_problem import Toy, make_toy
from trace_factory import falling_trace, make_trace, tiered_trace, vertical_trace

pytestmark = pytest.mark.usefixtures("one_thread")

COST = TypeAdapter(Cost)
SEQUENTIAL = ("sequential_messages", "sequential_bytes", "sequential_gradients")
# Seconds, bytes per second: of the size that makes either matter beside the others.
NETWORKS = st.builds(
    DeclaredNetwork,
    latency=st.floats(0, 5),
    bandwidth=st.floats(20, 2000),
    gradient=st.floats(0, 1),
)
quick = settings(deadline=None, max_examples=20)


def named(network: DeclaredNetwork) -> str:
    """As experiments state it."""
    return "network({})".format(", ".join(f"{k}={v!r}" for k, v in asdict(network).items()))


def seconds(counts: SequentialCounters, network: DeclaredNetwork) -> float:
    """What a trace with these counts says."""
    spent = {name: [[0, getattr(counts, name)]] for name in SEQUENTIAL}
    return float(cost_axis(make_trace([[1.0, 1.0]], **spent), named(network))[0, 1])


# --------------------------------------------------------------------------- a plain simulation


@dataclass(eq=False)
class Task:
    """Work of one node, or a message between two: first its bytes, then its flight."""

    kind: str
    nodes: tuple[Hashable, ...]
    left: float
    after: tuple["Task", ...]
    over: bool = False


class Schedule:
    """Who computes and who sends what, each as soon as all that it waits for is over.

    A node has one link. All that it sends and receives at a time shares it equally, and a message
    is as fast as the busier of its two ends lets it be. Its last byte arrives a latency later. A
    node takes one gradient after another.
    """

    def __init__(self, network: DeclaredNetwork) -> None:
        self.network, self.tasks, self.waited_for = network, list[Task](), tuple[Task, ...]()

    def everyone_waits(self) -> None:
        """Whatever is added now begins when all that was added so far is over."""
        self.waited_for = tuple(self.tasks)

    def compute(self, node: Hashable, gradients: float, after: Iterable[Task] = ()) -> Task:
        lasting = gradients * self.network.gradient
        self.tasks.append(Task("work", (node,), lasting, (*after, *self.waited_for)))
        return self.tasks[-1]

    def send(
        self, sender: Hashable, receiver: Hashable, weight: float, after: Iterable[Task] = ()
    ) -> Task:
        """Over when it has arrived."""
        leaving = Task("bytes", (sender, receiver), weight, (*after, *self.waited_for))
        arriving = Task("flight", (), self.network.latency, (leaving,))
        self.tasks += [leaving, arriving]
        return arriving

    def seconds(self) -> float:
        """When the last of all is over."""
        now, waiting, running = 0.0, list(self.tasks), list[Task]()
        while waiting or running:
            for task in list(waiting):
                idle = task.kind != "work" or not any(
                    other.kind == "work" and other.nodes == task.nodes for other in running
                )
                if idle and all(before.over for before in task.after):
                    waiting.remove(task)
                    running.append(task)
            paces = [self.pace(task, running) for task in running]
            lasts = [task.left / pace for task, pace in zip(running, paces, strict=True)]
            step = min(lasts)
            now += step
            for task, pace, last in list(zip(running, paces, lasts, strict=True)):
                task.left = max(task.left - pace * step, 0.0)
                if last <= step * (1 + 1e-12):
                    task.over = True
                    running.remove(task)
        return now

    def pace(self, task: Task, running: Sequence[Task]) -> float:
        """How much of it is done in a second."""
        if task.kind != "bytes":
            return 1.0
        sharing = [
            sum(node in other.nodes for other in running if other.kind == "bytes")
            for node in task.nodes
        ]
        return self.network.bandwidth / max(sharing)


# ----------------------------------------------------------------------------- around a server

# method, floats of size d down and up per client, gradients of a client with so many samples.
AROUND_A_SERVER: dict[str, tuple[Algorithm, int, int, Any]] = {
    "FedAvg": (
        FedAvg(clients_per_round=3, local_steps=4, local_step_size=0.01, batch_size=2),
        1, 1, lambda samples: 4 * min(2, samples),
    ),
    "SCAFFOLD I": (
        Scaffold(clients_per_round=3, local_steps=4, local_step_size=0.01, batch_size=2,
                 option="I"),
        2, 2, lambda samples: 4 * min(2, samples) + samples,
    ),
    "FedPAGE, full round": (
        FedPage(clients_per_round=2, local_steps=3, global_step_size=0.01, full_batch_size=4),
        1, 1, lambda samples: min(4, samples),
    ),
    "FedPAGE, local round": (
        FedPage(clients_per_round=3, local_steps=3, global_step_size=0.01, local_batch_size=2),
        3, 1, lambda samples: 2 * samples + 2 * 2 * min(2, samples),
    ),
}  # fmt: skip


def around_a_server(label: str, sizes: tuple[int, ...], network: DeclaredNetwork) -> Any:
    """A round's time by its counts, by the plain simulation, and that of the others' uploads."""
    method, down, up, gradients_of = AROUND_A_SERVER[label]
    name = "robust_regression"
    method_run = Run(method, engine_of("compiled", toy(name, sizes), name), random=ScriptedRandom)
    draws = method_run.round()
    before = SimpleNamespace(**dict.fromkeys(SEQUENTIAL, 0))
    if label == "FedPAGE, local round":  # the first one is full
        before = SimpleNamespace(**asdict(method_run.counters))
        draws = method_run.round()
    spent = {of: getattr(method_run.counters, of) - getattr(before, of) for of in SEQUENTIAL}
    schedule, number = Schedule(network), 8 * DIMENSION
    clients = range(len(sizes)) if draws.clients is None else draws.clients
    for client in clients:
        sent = schedule.send("server", client, down * number)
        taken = schedule.compute(client, gradients_of(sizes[client]), after=[sent])
        schedule.send(client, "server", up * number, after=[taken])
    others = (len(clients) - 1) * up * number / network.bandwidth
    return seconds(SequentialCounters(**spent), network), schedule.seconds(), others


@quick
@given(
    label=st.sampled_from(sorted(AROUND_A_SERVER)),
    clients=st.integers(3, 6),
    samples=st.integers(1, 6),
    network=NETWORKS,
)
def test_a_round_around_a_server_takes_what_is_counted_if_clients_work_equally_long(
    label, clients, samples, network
):
    counted, simulated, _ = around_a_server(label, (samples,) * clients, network)
    assert counted == pytest.approx(simulated, rel=1e-9, abs=1e-9)


@quick
@given(
    label=st.sampled_from(sorted(AROUND_A_SERVER)),
    sizes=st.lists(st.integers(1, 9), min_size=3, max_size=6).map(tuple),
    network=NETWORKS,
)
def test_a_round_around_a_server_takes_at_most_what_is_counted_and_less_by_early_uploads_only(
    label, sizes, network
):
    counted, simulated, others = around_a_server(label, sizes, network)
    assert simulated <= counted * (1 + 1e-9)
    assert counted - others <= simulated * (1 + 1e-9)


# ------------------------------------------------------------------------------------ on graphs

ROW_BYTES = 3 * 8


def on_graphs(
    graphs: Sequence[np.ndarray], sizes: Sequence[int], samples: int, network: DeclaredNetwork
) -> tuple[float, float]:
    """An iteration's time by its counts and by the plain simulation; graphs as weights."""
    problem = layout(sizes)
    counts = problem._counters
    links = GraphNetwork(*graphs, *[None] * (2 - len(graphs)), np.array, Draws(), counts)
    for sent in (links.states, links.trackers)[: len(graphs)]:
        sent.send(np.ones((len(sizes), 3)))
    problem.gradients(np.ones((len(sizes), 1)), problem.first_samples(samples), None)
    schedule = Schedule(network)
    for agent, own in enumerate(sizes):
        received = [
            schedule.send(other, agent, ROW_BYTES)
            for weights in graphs
            for other in np.flatnonzero(weights[agent])
        ]
        schedule.compute(agent, min(samples, own), after=received)
    return seconds(counts, network), schedule.seconds()


def links_of(weights: np.ndarray) -> np.ndarray:
    """Messages that each agent sends or receives."""
    return np.count_nonzero(weights, axis=0) + np.count_nonzero(weights, axis=1)


@st.composite
def graphs_of(draw, agents: int, number: int) -> list[np.ndarray]:
    pairs = [(i, j) for i, j in itertools.product(range(agents), repeat=2) if i != j]
    found = []
    for _ in range(number):
        weights = np.zeros((agents, agents))
        for i, j in draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True)):
            weights[i, j] = draw(st.floats(0.1, 2))
        found.append(weights)
    return found


@quick
@given(data=st.data(), agents=st.integers(2, 6), network=NETWORKS)
def test_an_iteration_on_a_graph_takes_what_is_counted_if_agents_work_equally_long(
    data, agents, network
):
    (weights,) = data.draw(graphs_of(agents, 1))
    counted, simulated = on_graphs([weights], [4] * agents, 3, network)
    assert counted == pytest.approx(simulated, rel=1e-9, abs=1e-9)


@quick
@given(data=st.data(), agents=st.integers(2, 6), network=NETWORKS)
def test_an_iteration_on_two_graphs_takes_what_is_counted_if_one_agent_is_the_busiest_in_both(
    data, agents, network
):
    first, second = data.draw(graphs_of(agents, 2))
    # Agents of the second graph are renumbered so that its busiest is the first one's.
    order = np.arange(agents)
    one, other = links_of(first).argmax(), links_of(second).argmax()
    order[[one, other]] = order[[other, one]]
    second = second[np.ix_(order, order)]
    counted, simulated = on_graphs([first, second], [4] * agents, 3, network)
    assert counted == pytest.approx(simulated, rel=1e-9, abs=1e-9)


@quick
@given(data=st.data(), agents=st.integers(2, 6), network=NETWORKS)
def test_an_iteration_on_graphs_never_takes_longer_than_counted(data, agents, network):
    graphs = data.draw(graphs_of(agents, data.draw(st.integers(1, 2))))
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=agents, max_size=agents))
    counted, simulated = on_graphs(graphs, sizes, data.draw(st.integers(1, 9)), network)
    assert simulated <= counted * (1 + 1e-9)


# -------------------------------------------------------------------------------------- in tiers


def even_toy(silos: int, clients: int, samples: int) -> Toy:
    """Silos of two columns each, clients of as many samples each."""
    rng, rows = np.random.default_rng(0), clients * samples
    owners = [
        [np.sort(part) for part in np.split(rng.permutation(rows), clients)] for _ in range(silos)
    ]
    data = [rng.normal(size=(rows, 2)) for _ in range(silos)]
    return Toy("linear", data, np.arange(rows) % 2, owners, outputs=1)


def in_tiers(
    held_by: Toy, tdcd: Tdcd, network: DeclaredNetwork, waits: bool
) -> tuple[float, float]:
    """A round's time by its counts and by the plain simulation.

    waits: everyone, for the last of each exchange and step. Otherwise every node goes on when it
    has what it needs; models are returned when all have taken their steps.
    """
    _, counts = run(held_by, tdcd, 1)
    (batch,) = minibatches(held_by, tdcd, 1)
    silos, embedding = range(held_by.silos), 8 * held_by.outputs  # of one sample
    held = {
        (j, k): len(np.intersect1d(own, batch))
        for j, clients in enumerate(held_by.owners)
        for k, own in enumerate(clients)
    }
    blocks = [held_by.outputs * (values.shape[1] + 1) for values in held_by.data]
    schedule = Schedule(network)

    def end_of_exchange() -> None:
        if waits:
            schedule.everyone_waits()

    # What clients and hubs wait for before they go on.
    at_client: dict[tuple[int, int], list[Task]] = {client: [] for client in held}
    at_hub: dict[int, list[Task]] = {j: [] for j in silos}

    def to_hubs(of: Sequence[int], weight: int) -> None:
        """From clients of these silos, so many bytes a sample."""
        for j in of:
            at_hub[j] = [
                schedule.send((j, k), j, rows * weight, at_client[j, k])
                for (silo, k), rows in held.items()
                if silo == j and rows
            ]
        end_of_exchange()

    def to_clients(of: Sequence[int], weight: int) -> None:
        for (j, k), rows in held.items():
            if j in of and rows:
                at_client[j, k] = [schedule.send(j, (j, k), rows * weight, at_hub[j])]
        end_of_exchange()

    def between_hubs(pairs: Iterable[tuple[int, int]]) -> None:
        arrived = [
            (receiver, schedule.send(sender, receiver, len(batch) * embedding, at_hub[sender]))
            for sender, receiver in pairs
        ]
        for receiver, task in arrived:
            at_hub[receiver] = [*at_hub[receiver], task]
        end_of_exchange()

    for j, k in held:
        at_client[j, k] = [schedule.send(j, (j, k), 8 * (blocks[j] + len(batch)))]
    end_of_exchange()
    if tdcd.labels == "every_client":
        to_hubs(silos, embedding)
        between_hubs(itertools.permutations(silos, 2))
        to_clients(silos, embedding)
    for _ in range(tdcd.local_steps):
        others = silos[1:]
        if tdcd.labels == "first_silo" and others:
            to_hubs(others, embedding)
            between_hubs((j, 0) for j in others)
            to_clients([0], embedding * len(others))
            to_hubs([0], embedding * len(others))  # slopes, and back the same way
            between_hubs((0, j) for j in others)
            to_clients(others, embedding)
        for (j, k), rows in held.items():
            share = rows * blocks[j] / sum(blocks)
            at_client[j, k] = [schedule.compute((j, k), share, at_client[j, k])]
        end_of_exchange()
    schedule.everyone_waits()
    for j, k in held:
        schedule.send((j, k), j, 8 * blocks[j])
    return seconds(counts, network), schedule.seconds()


LABELS = st.sampled_from(["every_client", "first_silo"])


@quick
@given(
    silos=st.integers(1, 4),
    clients=st.integers(1, 3),
    samples=st.integers(2, 4),
    local_steps=st.integers(1, 3),
    labels=LABELS,
    network=NETWORKS,
)
def test_a_round_in_tiers_takes_what_is_counted_if_silos_and_clients_are_alike(
    silos, clients, samples, local_steps, labels, network
):
    tdcd = Tdcd(step_size=0.1, local_steps=local_steps, batch_size=clients * samples, labels=labels)
    alike = even_toy(silos, clients, samples)
    counted, simulated = in_tiers(alike, tdcd, network, waits=False)
    assert counted == pytest.approx(simulated, rel=1e-9, abs=1e-9)


@quick
@given(
    silos=st.integers(1, 4),
    clients=st.integers(1, 4),
    batch=st.integers(1, 11),
    local_steps=st.integers(1, 3),
    labels=LABELS,
    network=NETWORKS,
    seed=st.integers(0, 99),
)
def test_a_round_in_tiers_takes_what_is_counted_if_everyone_waits_for_the_last_of_each_exchange(
    silos, clients, batch, local_steps, labels, network, seed
):
    tdcd = Tdcd(step_size=0.1, local_steps=local_steps, batch_size=batch, labels=labels)
    uneven = make_toy("linear", silos, clients, seed=seed)
    counted, simulated = in_tiers(uneven, tdcd, network, waits=True)
    assert counted == pytest.approx(simulated, rel=1e-9, abs=1e-9)


# ------------------------------------------------------------------------- what is made of counts

COUNTS = st.tuples(st.integers(0, 10**6), st.floats(0, 1e12), st.floats(0, 1e9))


def counting(*records: tuple[float, float, float], run: str = "star") -> xr.Dataset:
    """One seed, with these messages, bytes and gradients one after the other."""
    spent = {
        name: [list(values)] for name, values in zip(SEQUENTIAL, np.transpose(records), strict=True)
    }
    return make_trace(np.ones((1, len(records))), run=run, **spent)


@quick
@given(records=st.lists(COUNTS, min_size=1, max_size=5), network=NETWORKS, factor=st.floats(0, 9))
def test_time_is_linear_in_latency_in_the_reciprocal_of_bandwidth_and_in_gradient_time(
    records, network, factor
):
    trace = counting(*records)
    by_hand = [
        network.latency * messages + weight / network.bandwidth + network.gradient * gradients
        for messages, weight, gradients in records
    ]
    times = network_time(trace, network)
    assert times[0] == pytest.approx(by_hand)
    assert cost_axis(trace, named(network))[0] == pytest.approx(by_hand)
    for key, per in (("latency", 0), ("bandwidth", 1), ("gradient", 2)):
        declared = getattr(network, key)
        other = declared / (1 + factor) if key == "bandwidth" else declared * (1 + factor)
        grown = network_time(trace, DeclaredNetwork(**{**asdict(network), key: other}))
        per_unit = 1 / declared if key == "bandwidth" else declared
        expected = [
            time + factor * per_unit * of[per] for time, of in zip(by_hand, records, strict=True)
        ]
        assert grown[0] == pytest.approx(expected)


def test_a_lost_seed_has_no_time():
    lost = [[1.0, 0.5], [1.0, np.nan]]
    spent = {name: np.where(np.isnan(lost), np.nan, [[0.0, 4.0]] * 2) for name in SEQUENTIAL}
    trace = make_trace(lost, **spent).transpose("record", "seed")
    times = network_time(trace, DeclaredNetwork(0.5, 2.0, 0.25))
    np.testing.assert_array_equal(times, [[0, 5], [0, np.nan]])


def test_a_trace_without_counts_is_refused_by_name():
    bare = falling_trace([0.5], run="star")
    with pytest.raises(FedatlasError, match=r"run 'star' has no 'sequential_messages': name one "):
        cost_axis(bare, "network(latency=1, bandwidth=1, gradient=1)")
    for missing in SEQUENTIAL:
        trace = counting((0, 0, 0), (1, 1, 1)).drop_vars(missing)
        with pytest.raises(FedatlasError, match=f"run 'star' has no '{missing}'"):
            network_time(trace, DeclaredNetwork(1, 1, 1))


# ------------------------------------------------------------------------- clocks of their own


def with_clock(network: dict[str, Any] | None, seconds_per_epoch: Any = 1.5) -> xr.Dataset:
    """A run of four parties that were simulated on this network."""
    trace = vertical_trace(np.full((2, 5), 0.1), run="parties", seconds_per_epoch=seconds_per_epoch)
    specification = json.loads(trace.attrs["specification"]) | {"network": network}
    trace.attrs["specification"] = json.dumps(specification)
    return trace


@given(
    latency=st.floats(1e-9, 1e3),
    bandwidth=st.floats(1e-3, 1e12),
    gradient=st.floats(0, 1e3),
)
@settings(max_examples=20, deadline=None)
def test_runs_with_a_clock_keep_it_whatever_bandwidth_and_gradients_take(
    latency, bandwidth, gradient
):
    trace = with_clock(NetworkModel(latency=latency).model_dump(), [1.5, 2.5])
    network = DeclaredNetwork(latency, bandwidth, gradient)
    assert own_latency(trace) == latency
    np.testing.assert_array_equal(network_time(trace, network), trace["simulated_time"])
    np.testing.assert_array_equal(cost_axis(trace, named(network)), trace["simulated_time"])
    # Also if they were to count what others do.
    both = trace.assign_coords(dict.fromkeys(SEQUENTIAL, trace["round"]))
    np.testing.assert_array_equal(network_time(both, network), trace["simulated_time"])


def test_a_clock_with_another_latency_is_refused():
    trace = with_clock({"latency": 2e-6})
    message = r"run 'parties' has a clock of its own, with the latency 2e-06 s, not "
    for latency in (0.05, 0.0, 2.0000001e-6):
        with pytest.raises(FedatlasError, match=message):
            network_time(trace, DeclaredNetwork(latency, 1e6, 1e-5))
    with pytest.raises(FedatlasError, match=message):
        cost_axis(trace, "network(latency=0.05, bandwidth=1e6, gradient=1e-5)")


def test_a_specification_without_a_network_is_simulated_on_the_default_one():
    trace = with_clock(None)
    assert own_latency(trace) == NetworkModel().latency == 1e-6
    network = DeclaredNetwork(1e-6, 1.0, 1.0)
    np.testing.assert_array_equal(network_time(trace, network), trace["simulated_time"])


def test_a_clock_of_older_code_may_state_keys_that_networks_had_then():
    assert own_latency(with_clock({"latency": 2e-6, "mask_scale": 1.0})) == 2e-6


def test_which_traces_count_what():
    star, parties = falling_trace([0.5]), with_clock({"latency": 1.0})
    tiers, new = tiered_trace([[1.0, 0.5]]), counting((0, 0, 0), (1, 1, 1))
    costs = ("round", "exchanges", "bytes", "latency(3)", "simulated_time", "epsilon",
             "network(latency=0.5, bandwidth=1, gradient=1)")  # fmt: skip
    found = {
        name: [cost for cost in costs if is_counted(trace, cost)]
        for name, trace in {"star": star, "parties": parties, "tiers": tiers, "new": new}.items()
    }
    always = ["round", "exchanges", "bytes"]
    assert found == {
        "star": always,
        # Whether it has the declared latency is another question, which `network_time` answers.
        "parties": [*always, "simulated_time", costs[-1]],
        "tiers": [*always, "latency(3)"],
        "new": [*always, costs[-1]],
    }


def test_exchanges_are_rounds_and_updates_of_parties_that_wait_for_nobody():
    star, parties = falling_trace([0.5]), with_clock({"latency": 1.0})
    np.testing.assert_array_equal(cost_axis(star, "exchanges"), star["round"])
    np.testing.assert_array_equal(cost_axis(parties, "exchanges"), parties["iteration"])
    assert (parties["iteration"][:, 1:] != parties["round"][:, 1:]).all()


# ------------------------------------------------------------------------------- names of costs


@pytest.mark.parametrize(
    ("cost", "network"),
    [
        ("network(latency=0.05, bandwidth=1e6, gradient=1e-5)", (0.05, 1e6, 1e-5)),
        ("network(latency=0,bandwidth=1,gradient=0)", (0, 1, 0)),
        ("network( latency = 1e-06 , bandwidth =12.5e+6, gradient= 2 )", (1e-6, 12.5e6, 2)),
    ],
)
def test_a_network_is_read_from_the_name_of_a_cost(cost, network):
    assert COST.validate_python(cost) == cost
    assert declared_network(cost) == DeclaredNetwork(*network)


@given(
    latency=st.floats(0, 1e300), bandwidth=st.floats(1e-300, 1e300), gradient=st.floats(0, 1e300)
)
def test_every_network_has_a_name_that_is_read_back(latency, bandwidth, gradient):
    network = DeclaredNetwork(latency, bandwidth, gradient)
    assert declared_network(COST.validate_python(named(network))) == network


PREFIXES = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


@given(*[st.one_of(st.just(0.0), st.floats(-9, 11.9).map(lambda power: 10**power))] * 3)
def test_labels_state_their_numbers_in_units(latency, bandwidth, gradient):
    label = DeclaredNetwork(latency, bandwidth, gradient).label
    read = re.fullmatch(r"latency (\S+) (\w?)s, (\S+) (\w?)B/s, (\S+) (\w?)s per gradient", label)
    assert read is not None
    declared = zip(read.groups()[::2], read.groups()[1::2], strict=True)
    for value, (number, prefix) in zip((latency, bandwidth, gradient), declared, strict=True):
        assert float(number) * PREFIXES[prefix] == pytest.approx(value, rel=1e-5)
        assert value == 0 or 0.999 < float(number) <= 1000


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("network", "must be one of round"),
        ("network(0.05, 1e6, 1e-5)", "must be one of round"),
        ("network(bandwidth=1e6, latency=0.05, gradient=1e-5)", "must be one of round"),
        ("network(latency=-1, bandwidth=1, gradient=1)", "must be one of round"),
        ("network(latency=1, bandwidth=inf, gradient=1)", "must be one of round"),
        ("network(latency=٣, bandwidth=1, gradient=1)", "must be one of round"),
        ("network(latency=1, bandwidth=1, gradient=1)\n", "must be one of round"),
        ("Network(latency=1, bandwidth=1, gradient=1)", "must be one of round"),
        ("network(latency=1, bandwidth=0, gradient=1)", "a bandwidth of 0 carries nothing"),
        ("network(latency=1e999, bandwidth=1, gradient=1)", "must be finite"),
    ],
)
def test_networks_that_make_no_sense_are_refused(cost, message):
    with pytest.raises(ValidationError, match=message):
        COST.validate_python(cost)


# ---------------------------------------------------------------- figures, claims, experiments


def test_the_network_decides_which_method_is_faster():
    """One saves messages, the other gradients."""
    rounds = np.arange(11.0)
    values = np.tile(2 * 0.5**rounds, (6, 1))

    def steady(*of_round: float) -> xr.Dataset:
        spent = {
            name: np.tile(each * rounds, (6, 1))
            for name, each in zip(SEQUENTIAL, of_round, strict=True)
        }
        return make_trace(values, objective=values, schedule=range(11), **spent)

    points = {"few": {"p": steady(2, 1000, 500)}, "short": {"p": steady(10, 1000, 20)}}
    rule = Selection(measurement="objective")
    verdicts = []
    for network in (
        "network(latency=1, bandwidth=1e3, gradient=1e-3)",  # rounds of 3.5 and 11.02 s
        "network(latency=1e-3, bandwidth=1e3, gradient=1)",  # rounds of 501.002 and 21.01 s
    ):
        test = {"kind": "cost_to_target", "first": "few", "second": "short", "cost": network,
                "measurement": "objective", "target": 0.5, "relation": "faster"}  # fmt: skip
        claim = Claim.model_validate({"id": "c", "source": "s", "statement": "t", "test": test})
        (only,) = judge("e", "p", [claim], Results(points, choices(select(points, rule))))
        verdicts.append((only.outcome, only.evidence.partition("; ")[0]))
    assert verdicts == [
        (
            "reproduced",
            "simulated seconds (latency 1 s, 1 kB/s, 1 ms per gradient) to objective ≤ 0.5: "
            "few 7, short 22",
        ),
        (
            "contradicted",
            "simulated seconds (latency 1 ms, 1 kB/s, 1 s per gradient) to objective ≤ 0.5: "
            "few 1002, short 42",
        ),
    ]


def test_columns_show_counted_times_and_clocks_beside_each_other():
    network = "network(latency=2, bandwidth=1e3, gradient=0)"
    figure = figure_of(
        measurement="objective", costs=(network, "round", "epsilon"), points="selected"
    )
    points = {
        "counts": {"p": counting((0, 0, 0), (5, 2000, 1))},
        "clock": {"p": with_clock({"latency": 2.0})},
        "bare": {"p": falling_trace([0.5])},
    }
    for of_point in points.values():
        of_point["p"] = of_point["p"].assign(objective=of_point["p"]["gradient_norm"] + 0.5)
    places = figure_factory.composed(points, figure).axes
    medians = [[line for line in place.lines if line.get_lw() > 1] for place in places]
    assert [len(lines) for lines in medians] == [2, 3, 0]
    assert sorted(line.get_xdata().max() for line in medians[0]) == [12, 30]
    assert places[0].get_xlabel() == (
        "simulated time in seconds,\nlatency 2 s, 1 kB/s, 0 s per gradient"
    )
    assert [text.get_text() for text in places[2].texts] == ["nothing to draw"]


MIXED = """
paper: ours
title: "Parties and clients"
source: "a test"
dataset: breast-cancer
partition: {kind: horizontal, assignment: consecutive, clients: 5, samples: 500}
network: {latency: 0.05}
objective: {name: logistic_l2, weight: 1.0e-2}
rounds: 10
record_every: 5
seeds: [0, 1]
runs:
  clients:
    algorithm: fedavg
    hyper_parameters: {clients_per_round: 2, local_steps: 5, local_step_size: 0.02}
  parties:
    algorithm: vfb2_svrg
    hyper_parameters: {step_size: 0.05}
    partition: {kind: vertical, parties: 3, active: 2}
figure:
  measurement: objective
  costs: ["network(latency=0.05, bandwidth=1e6, gradient=1e-5)", simulated_time]
claims:
  - id: order
    source: "a test"
    statement: "Parties are faster"
    test:
      kind: cost_to_target
      measurement: objective
      target: 0.3
      first: parties
      second: clients
      relation: faster
      cost: "network(latency=0.05, bandwidth=2e6, gradient=0)"
"""


@pytest.fixture
def mixed(tmp_path):
    """Plans the experiment with something else in place of some of it."""

    def planned(*edits: tuple[str, str]) -> Any:
        text = MIXED
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        return build_plan(config_folder(tmp_path / "config", mixed=text)).experiments["demo-mixed"]

    return planned


CLIENTS = MIXED[MIXED.index("  clients:\n") : MIXED.index("  parties:\n")]
PARTIES = MIXED[MIXED.index("  parties:\n") : MIXED.index("figure:")]
UNJUDGED = (MIXED[MIXED.index("claims:") :], "")
NO_NETWORK = ("network: {latency: 0.05}\n", "")
ANOTHER_COLUMN = ('costs: ["network(latency=0.05', 'costs: ["network(latency=0.5')


@pytest.mark.parametrize(
    "edits",
    [
        (),
        (NO_NETWORK, ("latency=0.05", "latency=1e-6")),  # that of the default network
        (ANOTHER_COLUMN,),  # which the other run counts
        ((CLIENTS, ""), UNJUDGED),
    ],
)
def test_parties_and_clients_are_compared_on_the_network_that_parties_had(mixed, edits):
    assert mixed(*edits).network == (None if NO_NETWORK in edits else NetworkModel(latency=0.05))


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (
            [('"network(latency=0.05, bandwidth=2e6, gradient=0)"', "simulated_time")],
            r"claim 'order' looks at simulated_time, which run 'clients' .*: it states no 'net",
        ),
        (
            [("network: {latency: 0.05}", "network: {latency: 0.5}")],
            r"claim 'order' looks at network\(.*\), which run 'parties' .* the latency 0\.5 s",
        ),
        ([("latency=0.05, bandwidth=2e6", "latency=0.5, bandwidth=2e6")], r"latency 0\.05 s"),
        ([NO_NETWORK], r"its own clock has the latency 1e-06 s"),
        (
            [(CLIENTS, ""), UNJUDGED, ANOTHER_COLUMN],
            r"the figure looks at network\(latency=0\.5, .*\), which run 'parties' .* 0\.05 s",
        ),
        ([(PARTIES, ""), UNJUDGED], r"'network' belongs to vertical"),
        (
            [(PARTIES, ""), UNJUDGED, NO_NETWORK],
            r"the figure looks at simulated_time, which run 'clients' .*: it states no 'network'",
        ),
    ],
)
def test_costs_that_a_run_does_not_count_are_refused(mixed, edits, message):
    with pytest.raises(FedatlasError, match=rf"mixed\.yaml: .*{message}"):
        mixed(*edits)


def test_measured_times_may_lie_in_a_file(tmp_path):
    file = tmp_path / "times.csv"
    file.write_text(
        "kind,party,seconds\nshare,0,1.0\nshare,0,3.0\nupdate,1,10\nmessage,0,700\nupdate,1,30\n"
    )
    law = {"kind": "measured", "file": str(file)}
    assert NetworkModel(compute=law).compute.times == (0.5, 0.5, 1.5, 1.5)
    file.write_text("seconds\n" + "\n".join(str(1 + number) for number in range(4096)))
    many = NetworkModel(compute=law).compute.times
    # Each of 512 stands for eight.
    assert len(many) == 512 and sum(many) / 512 == pytest.approx(1, abs=1e-3)
    assert np.diff(many) == pytest.approx(8 / 2048.5, rel=1e-2)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("kind,party\nshare,0\n", "must be CSV with a column 'seconds'"),
        ("seconds\nfast\n", "must be CSV with a column 'seconds'"),
        ("seconds\n", "there are no measured times"),
        ("seconds\n1\n-2\n4\n", "must be positive and finite"),
        ("seconds\n0\n", "division by zero"),
        (None, "No such file"),
    ],
)
def test_a_bad_file_of_times_is_refused(tmp_path, contents, message):
    file = tmp_path / "times.csv"
    if contents is not None:
        file.write_text(contents)
    with pytest.raises(ValidationError, match=message):
        NetworkModel(compute={"kind": "measured", "file": str(file)})
    with pytest.raises(ValidationError, match="state one"):
        NetworkModel(compute={"kind": "measured", "file": "a.csv", "times": [1.0]})
