"""TDCD against the reference's loops, its special cases, BatchNorm by hand, and what it costs.

The package draws the minibatches; tests/reference_tdcd.py replays them silo by silo, client by
client and sample by sample, in float64.
"""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import reference_tdcd as reference
import small_federations
from fedatlas.algorithms.tdcd import Tdcd
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.evaluation.levels import cost_axis
from fedatlas.federations.tiered.hubs import SiloModels, TieredCounters, TieredNetwork
from fedatlas.schema.partitions import TieredPartition
from fedatlas.schema.runs import RunSpec
from fedatlas.store.trace import read_trace
from fedatlas.training.loop import train
from prepared_files import shard
from resuming import killed_and_resumed, without_times
from test_tiered_problem import (
    Toy,
    inputs_of,
    joint_gradient,
    make_toy,
    mean_loss,
    network_of,
    normed_by_hand,
    normed_embeddings,
)

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

quick = settings(max_examples=20, deadline=None)
LABELS = ["every_client", "first_silo"]

# --------------------------------------------------------------------------------- running both


def method(step: float, local_steps: int, batch: int, **options: Any) -> Tdcd:
    return Tdcd(step_size=step, local_steps=local_steps, batch_size=batch, **options)


def run(
    toy: Toy, tdcd: Tdcd, rounds: int, *, seed: int = 1, vectorised: bool | None = None
) -> tuple[list[SiloModels], TieredCounters]:
    """The models after each round, index 0 being the start, and what was counted."""
    engine, counters = toy.engine(vectorised), TieredCounters()
    problem = engine.counting(counters)
    network = TieredNetwork(toy.clients, counters)
    random = RoundRandom(seed)
    state = tdcd.start(problem, network, toy.start(engine))
    trace = [tdcd.point(state, network)]
    for number in range(rounds):
        state = tdcd.round(state, problem, network, random.at(number))
        trace.append(tdcd.point(state, network))
    return trace, counters


def minibatches(toy: Toy, tdcd: Tdcd, rounds: int, seed: int = 1) -> list[np.ndarray]:
    random = RoundRandom(seed)
    return [random.at(number).sample(len(toy.targets), tdcd.batch_size) for number in range(rounds)]


Theta = list[tuple[np.ndarray, np.ndarray]]


def thetas(toy: Toy, models: SiloModels) -> Theta:
    """Of linear silos: weights by output, then intercepts."""
    found = []
    for values, flat in zip(toy.data, models.weights, strict=True):
        inner = toy.outputs * values.shape[1]
        flat = flat.numpy()
        found.append((flat[:inner].reshape(toy.outputs, -1), flat[inner:]))
    return found


def expected_of(toy: Toy) -> dict[str, Any]:
    """What the reference's loops take, beside the start and the minibatches."""
    binary = toy.outputs == 1
    return {
        "labels": 2 * toy.targets - 1 if binary else toy.targets,
        "loss": reference.Logistic if binary else reference.CrossEntropy,
    }


def replayed(toy: Toy, tdcd: Tdcd, rounds: int, start: SiloModels, **options: Any) -> list[Theta]:
    return reference.tdcd(
        toy.data,
        owners=toy.owners,
        theta=thetas(toy, start),
        batches=minibatches(toy, tdcd, rounds),
        step=tdcd.step_size,
        local_steps=tdcd.local_steps,
        **expected_of(toy),
        **options,
    )


def assert_same(toy: Toy, trace: list[SiloModels], expected: list[Theta]) -> None:
    assert len(trace) == len(expected)
    moved = 0.0
    for models, by_hand in zip(trace, expected, strict=True):
        for found, block in zip(thetas(toy, models), by_hand, strict=True):
            for one, other in zip(found, block, strict=True):
                np.testing.assert_allclose(
                    one, other, rtol=0, atol=1e-12 * (1 + np.linalg.norm(other))
                )
        moved += float(np.abs(by_hand[0][0] - expected[0][0][0]).max())
    assert moved > 0


# ------------------------------------------------------------------- linear silos, any numbers


@st.composite
def cases(draw):
    samples = draw(st.integers(7, 12), "samples")
    silos = draw(st.integers(1, 3), "silos")
    toy = make_toy(
        "linear",
        silos,
        draw(st.tuples(*[st.integers(1, 5)] * silos), "clients"),
        samples,
        draw(st.sampled_from([1, 2, 3]), "outputs"),
        draw(st.integers(0, 99), "seed"),
    )
    tdcd = method(
        draw(st.sampled_from([0.05, 0.5]), "step"),
        draw(st.integers(1, 4), "local_steps"),
        draw(st.integers(1, samples), "batch"),
        labels=draw(st.sampled_from(LABELS), "labels"),
    )
    return toy, tdcd


ONE_SAMPLE = (make_toy(clients=5), method(0.5, 3, 1))  # of five clients four have none
ALL_SAMPLES = (make_toy(silos=3, outputs=1), method(0.5, 2, 11))


@quick
@given(cases(), st.sampled_from([None, False, True]))
@example(ONE_SAMPLE, False)
@example(ONE_SAMPLE, True)
@example(ALL_SAMPLES, None)
def test_linear_silos_are_the_references_loops(case, vectorised):
    toy, tdcd = case
    trace, _ = run(toy, tdcd, 3, vectorised=vectorised)
    assert_same(toy, trace, replayed(toy, tdcd, 3, trace[0]))


# -------------------------------------------------------------------------------- special cases


@quick
@given(
    clients=st.integers(1, 4),
    local_steps=st.integers(1, 4),
    batch=st.integers(1, 11),
    outputs=st.sampled_from([1, 3]),
)
def test_one_silo_is_local_sgd(clients, local_steps, batch, outputs):
    toy = make_toy(silos=1, clients=clients, outputs=outputs)
    tdcd = method(0.4, local_steps, batch)
    trace, _ = run(toy, tdcd, 3)
    expected = reference.local_sgd(
        toy.data[0],
        clients=toy.owners[0],
        theta=thetas(toy, trace[0])[0],
        batches=minibatches(toy, tdcd, 3),
        step=0.4,
        local_steps=local_steps,
        **expected_of(toy),
    )
    assert_same(toy, trace, [[theta] for theta in expected])


@quick
@given(
    silos=st.integers(1, 4),
    local_steps=st.integers(1, 4),
    batch=st.integers(1, 11),
    outputs=st.sampled_from([1, 3]),
)
def test_one_client_per_silo_is_single_tier_vertical_learning(silos, local_steps, batch, outputs):
    toy = make_toy(silos=silos, clients=1, outputs=outputs)
    tdcd = method(0.4, local_steps, batch)
    trace, _ = run(toy, tdcd, 3)
    expected = reference.single_tier(
        toy.data,
        theta=thetas(toy, trace[0]),
        batches=minibatches(toy, tdcd, 3),
        step=0.4,
        local_steps=local_steps,
        **expected_of(toy),
    )
    assert_same(toy, trace, expected)


@pytest.mark.parametrize("model", ["linear", "cnn_strided", "lstm"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_single_full_steps_of_single_clients_descend_the_whole_model(model, outputs):
    toy = make_toy(model, silos=3, clients=1, outputs=outputs)
    trace, _ = run(toy, method(0.3, 1, 11), 4)
    weights = trace[0].weights
    for models in trace[1:]:
        gradients = [joint_gradient(toy, weights, silo, np.arange(11)) for silo in range(3)]
        weights = tuple(w - 0.3 * g for w, g in zip(weights, gradients, strict=True))
        for found, expected in zip(models.weights, weights, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("model", ["cnn_strided", "lstm"])
def test_networks_take_their_steps_one_by_one_as_all_at_once(model):
    """Whole rounds of deep silos by plain modules and torch's own SGD, and either way of ours."""
    toy = make_toy(model, clients=3, samples=14)
    tdcd = method(0.2, 3, 6)
    traces = [run(toy, tdcd, 2, vectorised=vectorised)[0] for vectorised in (False, True)]
    weights = traces[0][0].weights
    for number, batch in enumerate(minibatches(toy, tdcd, 2)):
        with torch.no_grad():
            sent = [network_of(toy, j, w)(inputs_of(toy, j, batch)) for j, w in enumerate(weights)]
        averaged = []
        for silo, clients in enumerate(toy.owners):
            ends = []
            for own in clients:
                module = network_of(toy, silo, weights[silo])
                descent = torch.optim.SGD(module.parameters(), lr=0.2)
                rows = np.flatnonzero(np.isin(batch, own))
                for _ in range(3 if len(rows) else 0):
                    descent.zero_grad()
                    outputs = module(inputs_of(toy, silo, batch[rows])) + sent[1 - silo][rows]
                    mean_loss(toy, outputs, batch[rows]).backward()
                    descent.step()
                ends.append(torch.nn.utils.parameters_to_vector(module.parameters()).detach())
            averaged.append(torch.stack(ends).mean(0))
        weights = tuple(averaged)
        for trace in traces:
            for found, expected in zip(trace[number + 1].weights, weights, strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


# ------------------------------------------------------------------------------------ BatchNorm


def normed_rounds(
    toy: Toy, tdcd: Tdcd, rounds: int, start: SiloModels
) -> tuple[list[SiloModels], int]:
    """Algorithm 1 of the `normed` network, and how often the first client of a silo was idle."""
    models, trace, idle = start, [start], 0
    for batch in minibatches(toy, tdcd, rounds):
        sent = normed_embeddings(toy, models.weights, batch)
        weights, statistics = [], []
        for silo, clients in enumerate(toy.owners):
            network = normed_by_hand(toy, silo)
            others = sum(part for j, part in enumerate(sent) if j != silo)
            ends, kept = [], []
            for client, own in enumerate(clients):
                theta, running = models.weights[silo], models.statistics[silo]
                rows = np.flatnonzero(np.isin(batch, own))
                idle += client == 0 and len(rows) == 0
                for _ in range(tdcd.local_steps if len(rows) else 0):
                    theta = theta.detach().clone().requires_grad_()
                    outputs, of_batch = network(theta, inputs_of(toy, silo, batch[rows]))
                    mean_loss(toy, others[rows] + outputs, batch[rows]).backward()
                    running = 0.9 * running + 0.1 * of_batch
                    theta = (theta - tdcd.step_size * theta.grad).detach()
                ends.append(theta)
                kept.append(running)
            weights.append(torch.stack(ends).mean(0))
            first = tdcd.running_statistics == "first_client"
            statistics.append(kept[0] if first else torch.stack(kept).mean(0))
        models = SiloModels(tuple(weights), tuple(statistics))
        trace.append(models)
    return trace, idle


@pytest.mark.parametrize("rule", ["averaged", "first_client"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_running_statistics_of_whole_rounds_by_hand(rule, outputs):
    toy = make_toy("normed", clients=3, samples=10, outputs=outputs, seed=2)
    tdcd = method(0.2, 2, 4, running_statistics=rule)
    trace, _ = run(toy, tdcd, 6)
    expected, idle = normed_rounds(toy, tdcd, 6, trace[0])
    assert idle > 0  # a client without samples passes on what it was sent
    for models, by_hand in zip(trace, expected, strict=True):
        for part in ("weights", "statistics"):
            for found, own in zip(getattr(models, part), getattr(by_hand, part), strict=True):
                torch.testing.assert_close(found, own, rtol=1e-8, atol=1e-10)
    assert (trace[-1].statistics[0] - trace[0].statistics[0]).abs().min() > 1e-3


def test_where_statistics_come_from_does_not_change_the_weights():
    toy = make_toy("normed", clients=3)
    averaged, _ = run(toy, method(0.2, 2, 4), 3)
    first, _ = run(toy, method(0.2, 2, 4, running_statistics="first_client"), 3)
    for one, other in zip(averaged[-1].weights, first[-1].weights, strict=True):
        assert torch.equal(one, other)
    for one, other in zip(averaged[-1].statistics, first[-1].statistics, strict=True):
        assert (one - other).abs().max() > 1e-4


# ---------------------------------------------------------------------------------------- costs


@quick
@given(
    model=st.sampled_from(["linear", "normed"]),
    silos=st.integers(1, 4),
    clients=st.lists(st.integers(1, 4), min_size=4, max_size=4),
    local_steps=st.integers(1, 3),
    batch=st.integers(1, 11),
    outputs=st.sampled_from([1, 3]),
    labels=st.sampled_from(LABELS),
    rule=st.sampled_from(["averaged", "first_client"]),
)
def test_every_message_is_counted(model, silos, clients, local_steps, batch, outputs, labels, rule):
    clients = tuple(clients[:silos])
    toy = make_toy(model, silos, clients, outputs=outputs)
    tdcd = method(0.1, local_steps, batch, labels=labels, running_statistics=rule)
    trace, counted = run(toy, tdcd, 2)
    weights = [len(part) for part in trace[0].weights]
    statistics = [4 if model == "normed" else 0] * silos
    alone = rule == "first_client"  # the only one that sends its statistics back
    expected = reference.counters(
        toy.owners,
        minibatches(toy, tdcd, 2),
        weights,
        sent=[w + s for w, s in zip(weights, statistics, strict=True)],
        returned=[
            [w + (s if k == 0 or not alone else 0) for k in range(own)]
            for w, s, own in zip(weights, statistics, clients, strict=True)
        ],
        width=outputs,
        local_steps=local_steps,
        labels=labels,
    )
    assert asdict(counted) == pytest.approx(expected, rel=1e-12)


def test_costs_of_a_round_in_numbers():
    """N = 3 silos of 3·(2 + 3 + 4) + 3·3 parameters, K = 2, B = 11, E = 3, Q = 4, float64."""
    toy = make_toy("linear", silos=3, clients=2, outputs=3)
    parameters, rows = 36, 11 * 3 * 8
    _, counted = run(toy, method(0.1, 4, 11), 1)
    assert counted.bytes_down == 2 * parameters * 8 + 3 * 2 * 11 * 8 + 3 * rows
    assert counted.bytes_up == 2 * parameters * 8 + 3 * rows
    assert counted.bytes_sent == 3 * 2 * rows
    assert counted.messages == 6 + 6 + 6 + 6 + 6
    assert (counted.hub_client_trips, counted.hub_hub_trips) == (2, 1)
    # Models and ids, embeddings up, both ways between hubs, down; models. Silo 2 has 15 parameters.
    assert counted.sequential_messages == 5
    models = 2 * (15 * 8 + 11 * 8) + 2 * 15 * 8
    assert counted.sequential_bytes == models + rows + 2 * 2 * rows + rows
    _, asked = run(toy, method(0.1, 4, 11, labels="first_silo"), 1)
    assert asked.bytes_down == 2 * parameters * 8 + 3 * 2 * 11 * 8 + 4 * 4 * rows
    assert asked.bytes_up == 2 * parameters * 8 + 4 * 4 * rows
    assert asked.bytes_sent == 4 * 4 * rows
    assert asked.messages == 6 + 4 * 2 * (6 + 2) + 6
    assert (asked.hub_client_trips, asked.hub_hub_trips) == (1 + 2 * 4, 4)
    assert asked.sequential_messages == 2 + 4 * 6
    # There and back: of one silo to its hub, of both to and from silo 0's.
    assert asked.sequential_bytes == models + 4 * 2 * (rows + 2 * rows + 2 * rows)
    # A client with the most samples in silo 2, or in another with as many more as its block is
    # smaller: blocks of 9, 12 and 15 parameters.
    largest = [max(len(own) for own in clients) for clients in toy.owners]
    share = max(size * block for size, block in zip(largest, (9, 12, 15), strict=True)) / 36
    for counters in (counted, asked):
        assert counters.sequential_gradients == pytest.approx(4 * share)


@quick
@given(
    silos=st.integers(1, 6),
    clients=st.integers(1, 4),
    local_steps=st.integers(1, 4),
    batch=st.integers(1, 11),
)
def test_label_holders_change_messages_but_no_model(silos, clients, local_steps, batch):
    """Remark 2. Asking at every step costs more bytes if 6 (N − 1) Q > N (N + 1) embeddings."""
    toy = make_toy("linear", silos, clients)
    plain, counted = run(toy, method(0.3, local_steps, batch), 2)
    asking, more = run(toy, method(0.3, local_steps, batch, labels="first_silo"), 2)
    for one, other in zip(plain, asking, strict=True):
        for block, same in zip(one.weights, other.weights, strict=True):
            assert torch.equal(block, same)
    assert (more.iteration, more.gradient_evaluations) == (
        counted.iteration,
        counted.gradient_evaluations,
    )
    extra = sum(
        getattr(more, name) - getattr(counted, name)
        for name in ("bytes_up", "bytes_down", "bytes_sent")
    )
    embeddings = 6 * (silos - 1) * local_steps - silos * (silos + 1)
    assert extra == 2 * embeddings * batch * 3 * 8


# ------------------------------------------------------------------------------------- training

HALVES = TieredPartition(cut={"width": 2}, clients=5, test=0.25, seed=0)
SMALL = TieredPartition(cut={"width": 2}, clients=3, samples=40, test=0.25, seed=0)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Halves of digits: 300 rows at five clients and 100 for testing, or 30 at three and ten."""
    folder = tmp_path_factory.mktemp("shards")
    pixels, digits = load_digits(return_X_y=True)
    rows = Samples(np.arange(400), digits[:400].astype(float), (pixels[:400] / 16).astype("f4"))
    for partition in (HALVES, SMALL):
        shard(folder / partition.slug, rows, partition, (1, 8, 8))
    return folder


def specification(**changes: Any) -> RunSpec:
    hyper = {"step_size": 0.2, "local_steps": 5, "batch_size": 100} | changes.pop("hyper", {})
    objective = {"name": "cross_entropy", "model": changes.pop("model", "cnn_strided")}
    values = {"partition": HALVES, "objective": objective, "hyper_parameters": hyper}
    values |= {"algorithm": "tdcd", "rounds": 20, "record_every": 10, "seeds": (3,)}
    return small_federations.specification(**values | changes)


def small(**changes: Any) -> RunSpec:
    hyper = {"local_steps": 2, "batch_size": 7} | changes.pop("hyper", {})
    values = {"rounds": 4, "record_every": 2, "partition": SMALL}
    return specification(hyper=hyper, **(values | changes))


def test_halves_of_digits_are_learned_and_traced(shards, tmp_path):
    train(specification(), shards, tmp_path / "trace.nc")
    trace = read_trace(tmp_path / "trace.nc")
    assert trace["status"].values.tolist() == ["ok"]
    assert trace["round"].values.tolist() == [[0, 10, 20]]
    counted = {"iteration", "epoch", "gradient_evaluations", "bytes_up", "bytes_down", "bytes_sent"}
    counted |= {"messages", "wall_time", "hub_client_trips", "hub_hub_trips"}
    counted |= {"sequential_messages", "sequential_bytes", "sequential_gradients"}
    assert set(trace.coords) == {"seed", "record", "round", *counted}
    qualities = {f"{rows}_{q}" for rows in ("train", "test") for q in ("accuracy", "top5_accuracy")}
    assert set(trace.data_vars) == {"status", "objective", "gradient_norm", *qualities}
    objective = trace["objective"].values[0]
    assert objective[0] == pytest.approx(np.log(10), rel=0.1)
    assert objective[-1] < 0.4 * objective[0]
    for name in ("train_accuracy", "test_accuracy"):
        assert trace[name].values[0, -1] > 0.75
        assert trace[name].values[0, 0] < 0.3
    rounds = trace["round"].values
    np.testing.assert_array_equal(trace["iteration"], 5 * rounds)
    np.testing.assert_allclose(trace["epoch"], rounds * 5 * 100 / 300)
    # Of halves of 8 × 4: two convolutions to 8 and 16 channels of 2 × 1, ten outputs.
    parameters = 8 * 25 + 8 + 16 * 72 + 16 + 10 * 32 + 10
    np.testing.assert_array_equal(
        trace["bytes_down"], rounds * (2 * 5 * (parameters * 4 + 100 * 8) + 2 * 100 * 10 * 4)
    )
    np.testing.assert_array_equal(trace["bytes_sent"], rounds * 2 * 100 * 10 * 4)
    assert json.loads(trace.attrs["hyper_parameters"])["running_statistics"] == "averaged"


@pytest.mark.parametrize(("labels", "trips"), [("every_client", 3), ("first_silo", 1 + 3 * 2)])
def test_simulated_time_follows_from_a_trace(shards, tmp_path, labels, trips):
    """t_Q = 3 t_comm + Q t_comp (section 5.2); asking label holders takes three trips a step."""
    spec = small(record_every=1, hyper={"labels": labels})
    trace = train(spec, shards, tmp_path / "trace.nc")
    rounds = np.arange(5)[None]
    for time in (10, 100):
        expected = rounds * (trips * time + 2)
        np.testing.assert_array_equal(cost_axis(trace, f"latency({time})"), expected)


def test_running_statistics_go_on_when_training_resumes(shards, tmp_path):
    """Killed in both seeds."""
    spec = small(model="normed", seeds=(3, 8))
    whole = without_times(train(spec, shards, tmp_path / "whole.nc"))
    assert whole["status"].values.tolist() == ["ok", "ok"]
    assert (whole["objective"][0] != whole["objective"][1]).all()
    # Within a record, and seven checkpoints later at one.
    resumed = killed_and_resumed((2, 7), spec, shards, tmp_path)
    assert without_times(resumed).identical(whole)
