"""Agents on graphs whose links take time and fail, against plain loops and laws.

The loops know of the package only what chance decided: numbers in [0, 1), and minibatches.
"""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.gt_sarah import GtSarah
from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised import timed_graph
from fedatlas.federations.decentralised.graph import TimedAgents
from fedatlas.federations.decentralised.timed_graph import TimedGraphNetwork
from fedatlas.schema.graphs import DirectedFamily, EdgeList, UndirectedFamily, weight_matrix
from fedatlas.schema.network_model import StarNetworkModel
from fedatlas.training.loop import train
from fedatlas.training.rehearsal import rehearse
from resuming import killed_and_resumed, without_times
from small_federations import small, small_shards
from test_clocks import Clock, lognormal_factors

LOSSY = {
    "seconds_per_gradient": 0.01, "spread": 0.7, "latency": 0.25, "bandwidth_up": 500.0,
    "compute": {"kind": "lognormal", "spread": 0.5}, "availability": 0.8,
    "loss": {"probability": 0.2, "burst": 3}, "deadline": 0.55,
}  # fmt: skip
CHANCE = StarNetworkModel.model_validate(
    {key: LOSSY[key] for key in ("seconds_per_gradient", "availability", "loss", "deadline")}
)
IDEAL = StarNetworkModel(seconds_per_gradient=0.01, latency=0.5)
PATH = EdgeList(kind="edges", edges=((0, 1, 0.5), (1, 2, 0.5), (2, 0, 0.3), (2, 1, 0.25)))


class PlainLinks:
    """Exchanges of one graph, an agent and a number at a time."""

    def __init__(self, model, weights, seed, waits=None):
        self.model, self.weights, self.n = model, weights, len(weights)
        self.clock = Clock(model, self.n, seed)
        self.links = [(i, j) for i in range(self.n) for j in range(i + 1, self.n)
                      if weights[i, j] or weights[j, i]]  # fmt: skip
        self.waits = waits if waits is not None else weights
        self.seed, self.times = seed, [0.0] * self.n
        self.sent = self.wasted = 0.0

    def fails(self, link, exchange):
        """Gilbert's chain from its beginning."""
        loss, lost = self.model.loss, False
        for step in range(exchange + 1) if loss else ():
            numbers = RoundRandom((self.seed, 5)).at(step).uniform(4, len(self.links))
            if step == 0 or numbers[1, link] >= loss.memory:
                lost = numbers[2, link] < loss.probability
        return lost

    def exchange(self, number, gradients, row, beside=None):
        """Weights of the links that work; beside: bytes of each agent that travel with rows."""
        n, model, deadline = self.n, self.model, self.model.deadline or inf
        there = self.clock.there(number)
        lost = {pair for k, pair in enumerate(self.links) if self.fails(k, number)}
        going = {(i, j) for i in there for j in there if self.weights[i, j] > 0}
        load = [0.0 if beside is None else beside[i] for i in range(n)]
        for i, j in going:
            load[i] += row
            load[j] += row
        work = []
        for i in range(n):
            seconds = model.seconds_per_gradient * gradients[i] * self.clock.slow[i]
            if model.compute.kind != "constant":
                law = lognormal_factors(0.5)
                seconds *= law[int(self.clock.chance(0, i, number) * len(law))]
            work.append(seconds)
        busy = [each / (model.bandwidth_up or inf) for each in load]

        def takes(i, j):
            return work[j] + model.latency + max(busy[i], busy[j])

        missing = {
            (i, j) for i, j in going
            if (min(i, j), max(i, j)) in lost or takes(i, j) > deadline
        }  # fmt: skip
        begun, ends = self.times, []
        for i in range(n):
            ends.append(begun[i] + work[i] + busy[i])
            for j in range(n):
                if self.waits[i, j] > 0 and i in there and j in there:
                    late = max(begun[i], begun[j]) + deadline
                    came = begun[j] + takes(i, j)
                    ends[i] = max(ends[i], late if (i, j) in missing else came)
        self.times = [round(end, 9) for end in ends]
        failed = {(i, j) for i, j in going if {(i, j), (j, i)} & missing}
        self.sent, self.wasted = self.sent + row * len(going), self.wasted + row * len(failed)
        working = np.zeros((n, n))
        for i, j in going - failed:
            working[i, j] = self.weights[i, j]
        return working


def networked(model, graph, agents, seed=3, trackers=None):
    weights = weight_matrix(graph, agents)
    counters = TimedAgents()
    network = TimedGraphNetwork(weights, trackers, np.asarray, Draws(), counters, model, seed)
    return network, counters, weights


@pytest.mark.parametrize("graph", [UndirectedFamily(kind="star", weights="metropolis"), PATH])
def test_agents_wait_for_their_neighbours_alone_and_links_fail_as_a_plain_loop_says(graph):
    model = StarNetworkModel.model_validate(LOSSY)
    network, counters, weights = networked(model, graph, 3)
    plain, values = PlainLinks(model, weights, 3), np.ones((3, 8))
    for exchange, gradients in enumerate(([5, 1, 20], [0, 9, 9], *([[2, 3, 4]] * 20))):
        counters._gradients = list(map(float, gradients))
        network.states.send(values, bits=256.0)
        working = plain.exchange(exchange, gradients, 32.0)
        np.testing.assert_array_equal(network.states.weights, working)
        np.testing.assert_allclose(np.array(counters._times) / 1e9, plain.times, atol=1e-8)
    assert counters.simulated_time == pytest.approx(max(plain.times))
    assert (counters.bytes_sent, counters.wasted_bytes) == (plain.sent, plain.wasted)
    assert counters.messages == plain.sent / 32 and 0 < plain.wasted < plain.sent


def test_a_slow_agent_delays_those_who_hear_from_it_first():
    network, counters, _ = networked(IDEAL, UndirectedFamily(kind="ring", weights="received"), 8)
    for rounds in range(1, 4):
        counters._gradients = [1000.0 * (rounds == 1), *[0.0] * 7]
        network.states.send(np.ones((8, 1)))
        seconds = np.array(counters._times) / 1e9
        steps = np.minimum(np.arange(8), 8 - np.arange(8))  # to agent 0
        assert ((seconds >= 10) == (steps <= rounds)).all()
        np.testing.assert_allclose(seconds[steps > rounds], 0.5 * rounds)
        assert counters.simulated_time == seconds.max()


def test_rows_of_trackers_travel_with_those_of_states_and_are_waited_for():
    model = StarNetworkModel(seconds_per_gradient=0.01, latency=0.25, bandwidth_up=500.0)
    ring = weight_matrix(DirectedFamily(kind="directed_ring", weights="received"), 4)
    network, counters, weights = networked(
        model, DirectedFamily(kind="exponential", weights="sent"), 4, trackers=ring.T
    )
    plain = PlainLinks(model, weights, 3, waits=weights + ring.T)
    for exchange in range(5):
        gradients = [3, 1 + exchange, 2, 50 * (exchange == 1)]
        counters._gradients = list(map(float, gradients))
        network.trackers.send(np.ones((4, 2)))
        network.states.send(np.ones((4, 3)))
        plain.exchange(exchange, gradients, 24.0, beside=[32.0] * 4)  # one row each way
        np.testing.assert_allclose(np.array(counters._times) / 1e9, plain.times, atol=1e-8)


@pytest.mark.parametrize(("burst", "length"), [(None, 1 / 0.7), (5.0, 5.0)])
def test_links_fail_as_often_and_as_long_as_declared(burst, length):
    model = StarNetworkModel.model_validate(
        {
            "seconds_per_gradient": 1.0,
            "latency": 0.3,
            "deadline": 1,
            "loss": {"probability": 0.3, "burst": burst},
        }
    )
    network, counters, _ = networked(model, UndirectedFamily(kind="ring", weights="received"), 6)
    failed = []
    for _ in range(1500):
        network.states.send(np.ones((6, 1)))
        failed.append(network.states.weights[np.arange(6), (np.arange(6) + 1) % 6] == 0)
    rows = np.array(failed).T  # by link
    starts = (rows[:, 1:] & ~rows[:, :-1]).sum() + rows[:, 0].sum()
    assert rows.mean() == pytest.approx(0.3, abs=0.05)
    assert rows.sum() / starts == pytest.approx(length, rel=0.1)
    share = counters.wasted_bytes / counters.bytes_sent
    assert share == pytest.approx(rows.mean())  # both directions fail together


@given(some.integers(0, 50), some.sampled_from(["ring", "star", "complete"]))
def test_failing_links_keep_the_mean_and_bring_agents_together(seed, kind):
    graph = UndirectedFamily(kind=kind, weights="metropolis")
    network, _, _ = networked(CHANCE, graph, 6, seed)
    x = RoundRandom(seed).generator.standard_normal((6, 2))
    mean, method = x.mean(0), GtSarah(step_size=0.1, inner_steps=0)
    apart = np.abs(x - mean).max()
    for _ in range(60):
        x = method._mixed(x, network)
        mixing = np.eye(6) - network.states.in_laplacian
        assert (mixing >= -1e-15).all()
        np.testing.assert_allclose([mixing.sum(0), mixing.sum(1)], 1.0, atol=1e-14)
        np.testing.assert_allclose(x.mean(0), mean, atol=1e-12)
    assert np.abs(x - mean).max() < 0.2 * apart


@given(some.integers(0, 50))
def test_what_is_pushed_over_links_that_fail_stays_with_its_sender(seed):
    graph = DirectedFamily(kind="exponential", weights="sent")
    network, _, _ = networked(StarNetworkModel.model_validate(LOSSY), graph, 6, seed)
    x = RoundRandom(seed).generator.random((6, 2)) + 1
    total = x.sum(0)
    for _ in range(20):
        sent = network.states.send(x)
        x = x - 0.5 * (network.states.out_laplacian @ sent)
        np.testing.assert_allclose(x.sum(0), total, rtol=1e-13)


def test_a_run_has_the_links_and_the_times_of_the_loop(tmp_path, monkeypatch):
    spec = small("local_dsgd", network=LOSSY, record_every=1, rounds=8)
    shards, model = small_shards(tmp_path, "local_dsgd"), StarNetworkModel.model_validate(LOSSY)
    used, before = [], timed_graph.TimedLinks._take

    def noted(links, working):
        before(links, working)
        used.append(np.array(links.weights))

    monkeypatch.setattr(timed_graph.TimedLinks, "_take", noted)
    trace = train(spec, shards, tmp_path / "trace.nc")
    weights, _ = spec.graph_weights
    plain = PlainLinks(model, weights, 3)
    times = [0.0]
    for number, seen in enumerate(used[:8]):  # of the first seed
        np.testing.assert_array_equal(seen, plain.exchange(number, [6] * 5, 56.0))
        times.append(max(plain.times))
    np.testing.assert_allclose(trace.simulated_time[0], times, atol=1e-8)
    np.testing.assert_allclose(trace.wasted_bytes[0, -1], plain.wasted)
    assert any((seen == 0).sum() > (weights == 0).sum() for seen in used)


@pytest.mark.parametrize("method", ["local_dsgd", "sgp"])
def test_runs_whose_links_fail_keep_their_promises_and_go_on_where_they_were_killed(
    method, tmp_path
):
    spec, shards = small(method, network=LOSSY, rounds=4), small_shards(tmp_path, method)
    trace = train(spec, shards, tmp_path / "trace.nc")
    resumed = killed_and_resumed((2, 3), spec, shards, tmp_path)
    assert without_times(resumed).identical(without_times(trace))
    assert rehearse(spec, shards) == "does what a method promises"
    assert float(trace.wasted_bytes[:, -1].min()) > 0


def test_a_network_whose_links_do_not_fail_changes_no_number(tmp_path):
    shards = small_shards(tmp_path, "gt_sarah")
    trace, plain = (
        train(small("gt_sarah", rounds=4, **network), shards, tmp_path / "trace.nc")
        for network in ({"network": {"seconds_per_gradient": 1.0, "deadline": 1e6}}, {})
    )
    assert set(trace.variables) - set(plain.variables) == {"simulated_time", "wasted_bytes"}
    np.testing.assert_array_equal(trace["objective"], plain["objective"])
    assert float(trace.wasted_bytes.max()) == 0


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("choco_sgd", "neighbours add up differences"),
        ("extra", "the same W in all rounds"),
        ("nids", "the same W in all rounds"),
        ("dp_gradient_tracking", "Σ y = Σ g ends"),
        ("gaussian_gradient_descent", "its ε is that of agents who hear from the same"),
    ],
)
def test_methods_that_need_every_message_are_refused_with_the_reason(method, why):
    with pytest.raises(FedatlasError, match=f"'network': .* needs every message: .*{why}"):
        build_algorithm(small(method, network={"seconds_per_gradient": 1.0, "availability": 0.9}))
    build_algorithm(small(method, network={"seconds_per_gradient": 1.0, "latency": 0.1}))
