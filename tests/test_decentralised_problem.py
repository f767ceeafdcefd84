"""What agents on graphs ask: samples, gradients, measurements, and links that count."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from torch.nn.functional import cross_entropy

from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.arithmetic.samples import Clipping, Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised.graph import (
    GraphCounters,
    GraphNetwork,
    GraphProblem,
    Links,
)
from fedatlas.federations.decentralised.numpy_engines import LinearAgents
from fedatlas.federations.decentralised.torch_engine import ClassifyingAgents
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import ClassificationObjective, LinearObjective

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

SIZES, FEATURES, HIDDEN = (4, 7, 3, 5), 3, 2
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
AGENTS, ROWS = len(SIZES), int(OFFSETS[-1])
RNG = np.random.default_rng(2)
A, TEST_A = RNG.normal(size=(ROWS, FEATURES)), RNG.normal(size=(9, FEATURES))
A[5] = 0  # its gradient is 0, too, which no norm divides
A[0, 1] = A[7, 0] = A[7, 2] = 0
CLIPPINGS = [None, Clipping("l1", 0.4), Clipping("l2", 0.3), Clipping("l1", 1e6)]

all_clippings = pytest.mark.parametrize("clipping", CLIPPINGS, ids=str)


def client_samples(label: np.ndarray, test: Any = None, features: Any = A) -> ClientSamples:
    metadata = {"dataset": "toy", "shape": [FEATURES]}
    held = Samples(np.arange(ROWS), np.asarray(label, float), features)
    if test is not None:
        test = Samples(np.arange(len(TEST_A)), np.asarray(test, float), TEST_A)
    return ClientSamples(held, OFFSETS, metadata, test)


def rows_of(batch: Minibatches) -> list[list[int]]:
    """The samples of each agent."""
    rows, share = batch.padded()
    return [own[counted > 0].tolist() for own, counted in zip(rows, share, strict=True)]


def clipped(gradient: np.ndarray, clipping: Clipping | None) -> np.ndarray:
    if clipping is None:
        return gradient
    norm = np.linalg.norm(gradient, {"l1": 1, "l2": 2}[clipping.norm])
    return gradient if norm <= clipping.bound else gradient * clipping.bound / norm


# --------------------------------------------------------------------------------------- samples


def layout(sizes: Any) -> GraphProblem:
    """Agents with so many samples."""
    n = sum(sizes)
    data = ClientSamples(
        Samples(np.arange(n), np.zeros(n), np.zeros((n, 1))),
        np.concatenate([[0], np.cumsum(sizes)]),
        {"dataset": "toy"},
    )
    return LinearAgents(data, LinearObjective(name="robust_regression"))


@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.data(), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_agents_draw_distinct_samples_of_their_own(sizes, data, seed):
    problem = layout(sizes)
    assert (problem.agents, problem.fewest_samples) == (len(sizes), min(sizes))
    size = data.draw(st.integers(1, min(sizes)))
    batch = problem.minibatches(RoundRandom(seed), size)
    ends = np.cumsum(sizes)
    for rows, end, own in zip(rows_of(batch), ends, sizes, strict=True):
        assert len(rows) == len(set(rows)) == size
        assert all(end - own <= row < end for row in rows)
    assert batch.gradient_evaluations == size * len(sizes)
    message = rf"^{min(sizes) + 1} distinct samples cannot .* has only {min(sizes)}; lower the"
    with pytest.raises(FedatlasError, match=message):
        problem.minibatches(RoundRandom(seed), min(sizes) + 1)


def test_samples_are_put_back_and_equally_likely():
    problem, random = layout(SIZES), RoundRandom(5)
    drawn = [rows_of(problem.minibatches(random.at(k), 2)) for k in range(2000)]
    counts = np.bincount(np.concatenate([rows for taken in drawn for rows in taken]))
    for agent, size in enumerate(SIZES):
        own = counts[OFFSETS[agent] : OFFSETS[agent + 1]]
        assert len(own) == size
        assert stats.chisquare(own).pvalue > 1e-3
    # Two draws of one round, as of iteration 0 of DP-GT, and those of two rounds, are unrelated.
    random = RoundRandom(5)
    twice = [rows_of(problem.minibatches(random, 2)) for _ in range(2)]
    assert twice[0] == drawn[0]
    assert twice[1] != twice[0] != drawn[1]


@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(1, 40))
@settings(deadline=None, max_examples=40)
def test_samples_arrive_in_order_until_all_have(sizes, size):
    problem = layout(sizes)
    batch = problem.first_samples(size)
    starts = np.cumsum([0, *sizes])
    assert rows_of(batch) == [
        list(range(start, start + min(size, own)))
        for start, own in zip(starts, sizes, strict=False)
    ]
    assert batch.gradient_evaluations == sum(min(size, own) for own in sizes)


# ---------------------------------------------------------------------------------- linear models

LOSSES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "ridge_regression": (lambda z, b: (z - b) ** 2, lambda x: (x**2).sum() / 2),
    "logistic_l2": (lambda z, b: np.log(1 + np.exp(-b * z)), lambda x: (x**2).sum() / 2),
    "logistic_nonconvex": (
        lambda z, b: np.log(1 + np.exp(-b * z)),
        lambda x: (x**2 / (1 + x**2)).sum(),
    ),
    "robust_regression": (lambda z, b: np.log(1 + (z - b) ** 2 / 2), lambda x: 0.0),
}
SIGNS = np.where(RNG.random(ROWS) < 0.5, 1.0, -1.0)
TEST_SIGNS = np.where(RNG.random(len(TEST_A)) < 0.5, 1.0, -1.0)
NUMBERS, TEST_NUMBERS = RNG.normal(size=ROWS), RNG.normal(size=len(TEST_A))

all_losses = pytest.mark.parametrize("name", LOSSES)
sparse_or_not = pytest.mark.parametrize("features", [A, sparse.csr_array(A)], ids=["A", "CSR"])


def linear(name: str, features: Any = A) -> tuple[LinearAgents, np.ndarray, float]:
    """An engine, its labels and the weight of its regulariser."""
    weight = 0.0 if name == "robust_regression" else 0.3
    label, test = (SIGNS, TEST_SIGNS) if name.startswith("log") else (NUMBERS, TEST_NUMBERS)
    objective = LinearObjective(name=name, weight=weight or None)
    return LinearAgents(client_samples(label, test, features), objective), label, weight


def derivative(function: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """∇ by complex steps, exact to rounding."""
    steps = 1e-30j * np.eye(len(x))
    return np.array([np.imag(function(x + step)) / 1e-30 for step in steps])


# Of minibatches of three samples each, or of the first five, of which two agents have fewer.
COUNTED = {
    "minibatches": GraphCounters(
        gradient_evaluations=3 * AGENTS, iteration=1, sequential_gradients=3
    ),
    "first_samples": GraphCounters(
        gradient_evaluations=4 + 5 + 3 + 5, iteration=1, sequential_gradients=5
    ),
}


@all_losses
@all_clippings
@sparse_or_not
@pytest.mark.parametrize("draw", ["minibatches", "first_samples"])
def test_gradients_of_linear_models(name, clipping, features, draw):
    engine, label, weight = linear(name, features)
    loss, penalty = LOSSES[name]
    counters = GraphCounters()
    problem = engine.counting(counters)
    assert problem.dimension == FEATURES
    if draw == "minibatches":
        batch = problem.minibatches(RoundRandom(1), 3)
    else:
        batch = problem.first_samples(5)
    points = np.random.default_rng(3).normal(size=(AGENTS, FEATURES))
    before = points.copy()
    gradients = problem.gradients(points, batch, clipping)
    for agent, (x, rows) in enumerate(zip(before, rows_of(batch), strict=True)):
        own = [derivative(lambda y, row=row: loss(A[row] @ y, label[row]), x) for row in rows]
        expected = np.mean([clipped(gradient, clipping) for gradient in own], axis=0)
        expected += weight * derivative(penalty, x)
        np.testing.assert_allclose(gradients[agent], expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(points, before)
    assert counters == COUNTED[draw]


def plain_disagreement(points: np.ndarray) -> float:
    mean = sum(points) / len(points)
    return (sum(((x - mean) ** 2).sum() for x in points) / len(points)) ** 0.5


@all_losses
def test_measurements_of_linear_models(name):
    engine, label, weight = linear(name)
    loss, penalty = LOSSES[name]
    points = np.random.default_rng(3).normal(size=(AGENTS, FEATURES))
    mean = points.mean(axis=0)

    def objective(x: np.ndarray) -> Any:
        of_agents = [
            sum(loss(A[row] @ x, label[row]) for row in range(*OFFSETS[agent : agent + 2])) / size
            for agent, size in enumerate(SIZES)
        ]
        return sum(of_agents) / AGENTS + weight * penalty(x)

    counters = GraphCounters()
    measured = engine.counting(counters).measure(points)
    assert counters == GraphCounters()
    expected = {
        "objective": objective(mean),
        "gradient_norm": np.linalg.norm(derivative(objective, mean)),
        "disagreement": plain_disagreement(points),
    }
    if name.startswith("logistic"):

        def accuracy(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
            return sum((z > 0) == (sign > 0) for z, sign in zip(a @ x, b, strict=True)) / len(b)

        own = [accuracy(x, TEST_A, TEST_SIGNS) for x in points]
        assert min(own) < np.mean(own)
        expected |= {
            "train_accuracy": accuracy(mean, A, SIGNS),
            "test_accuracy": accuracy(mean, TEST_A, TEST_SIGNS),
            "test_accuracy_of_agents": sum(own) / AGENTS,
            "test_accuracy_of_worst_agent": min(own),
        }
    else:
        error = ((TEST_A @ mean - TEST_NUMBERS) ** 2).mean() ** 0.5
        expected |= {"test_rmse": error, "train_accuracy": np.nan}
    for key, value in expected.items():
        assert measured[key] == pytest.approx(value, rel=1e-12, nan_ok=True), key
    assert set(measured) == set(expected)


def test_linear_agents_start_from_zero():
    start = linear("ridge_regression")[0].start(3)
    assert start.shape == (AGENTS, FEATURES)
    assert (start == 0).all()


# --------------------------------------------------------------------------------------- networks

# Labels of the rows, of test rows, and all classes.
LABELS = {
    "0, 1, 2": (np.arange(ROWS) % 3, np.arange(9) % 3, [0, 1, 2]),
    "3, 7": (np.where(SIGNS > 0, 3, 7), np.where(TEST_SIGNS > 0, 3, 7), [3, 7]),
    "-1, 1": (SIGNS, TEST_SIGNS, [-1, 1]),
    "one class among test rows only": (SIGNS, 4 * (np.arange(9) % 2) + 1, [-1, 1, 5]),
}

all_labels = pytest.mark.parametrize("labels", LABELS)


def classifying(
    label: np.ndarray, test: Any, dtype: torch.dtype = torch.float64, name: str = "cross_entropy"
) -> ClassifyingAgents:
    objective = ClassificationObjective.model_validate({"name": name, "model": "two_layers"})
    return ClassifyingAgents(client_samples(label, test), objective, "cpu", dtype)


def plain_outputs(x: torch.Tensor, a: Any, classes: int) -> torch.Tensor:
    """Of flat parameters: W by rows, c, V by rows, e."""
    w, c, v, e = x.split([HIDDEN * FEATURES, HIDDEN, classes * HIDDEN, classes])
    hidden = torch.tanh(torch.as_tensor(a) @ w.view(HIDDEN, FEATURES).T + c)
    return hidden @ v.view(classes, HIDDEN).T + e


def loss_of(x: torch.Tensor, row: int, labels: str) -> torch.Tensor:
    """Cross-entropy of one sample."""
    label, _, classes = LABELS[labels]
    outputs = plain_outputs(x, A[row], len(classes))
    return cross_entropy(outputs, torch.tensor(classes.index(label[row])))


@all_labels
@all_clippings
@pytest.mark.parametrize("draw", ["minibatches", "first_samples"])
def test_gradients_of_networks(labels, clipping, draw):
    label, test, _ = LABELS[labels]
    counters = GraphCounters()
    problem = classifying(label, test).counting(counters)
    if draw == "minibatches":
        batch = problem.minibatches(RoundRandom(1), 3)
    else:
        batch = problem.first_samples(5)
    points = torch.from_numpy(np.random.default_rng(3).normal(size=(AGENTS, problem.dimension)))
    gradients = problem.gradients(points, batch, clipping)
    for agent, rows in enumerate(rows_of(batch)):
        x = points[agent].clone().requires_grad_()
        own = [torch.autograd.grad(loss_of(x, row, labels), x)[0].numpy() for row in rows]
        expected = np.mean([clipped(gradient, clipping) for gradient in own], axis=0)
        np.testing.assert_allclose(gradients[agent], expected, rtol=1e-11, atol=1e-14)
    assert counters == COUNTED[draw]


@all_labels
def test_measurements_of_networks(labels):
    label, test, classes = LABELS[labels]
    engine = classifying(label, test)
    points = torch.from_numpy(2 * np.random.default_rng(4).normal(size=(AGENTS, engine.dimension)))
    measured = engine.measure(points)
    mean = points.mean(0)

    def accuracy(x: torch.Tensor, a: np.ndarray, b: np.ndarray) -> float:
        said = [classes[k] for k in plain_outputs(x, a, len(classes)).argmax(1).tolist()]
        return sum(one == other for one, other in zip(said, b, strict=True)) / len(b)

    of_agents = [
        sum(loss_of(mean, row, labels).item() for row in range(*OFFSETS[agent : agent + 2])) / size
        for agent, size in enumerate(SIZES)
    ]
    own = [accuracy(x, TEST_A, test) for x in points]
    assert len({*own, accuracy(mean, TEST_A, test)}) > 1
    assert measured == pytest.approx(
        {
            "objective": sum(of_agents) / AGENTS,
            "train_accuracy": accuracy(mean, A, label),
            "test_accuracy": accuracy(mean, TEST_A, test),
            "test_accuracy_of_agents": sum(own) / AGENTS,
            "test_accuracy_of_worst_agent": min(own),
            "disagreement": plain_disagreement(points.numpy()),
        },
        rel=1e-12,
    )
    if labels != "one class among test rows only":
        kept = {name: value for name, value in measured.items() if not name.startswith("test_")}
        assert classifying(label, None).measure(points) == pytest.approx(kept, rel=1e-12)


@pytest.mark.parametrize("one_class", [False, True])
def test_measurements_of_the_mean_of_agents_with_one_output(one_class):
    """AUROC by a loop over pairs, ties counting half; nothing to rank among one class alone."""
    signs = np.ones(len(TEST_A)) if one_class else np.resize([1.0, -1.0, -1.0], len(TEST_A))
    engine = classifying(SIGNS, signs, name="binary_cross_entropy")
    points = torch.from_numpy(2 * np.random.default_rng(4).normal(size=(AGENTS, engine.dimension)))
    measured = engine.measure(points)
    expected = {}
    for rows, a, b in (("train", A, SIGNS), ("test", TEST_A, signs)):
        z = plain_outputs(points.mean(0), a, 1)[:, 0].numpy()
        pairs = [np.sign(up - down) / 2 + 0.5 for up in z[b > 0] for down in z[b < 0]]
        expected |= {f"{rows}_auroc": np.mean(pairs)} if pairs else {}
        expected[f"{rows}_accuracy"] = np.mean((z > 0) == (b > 0))
    assert {key: measured.get(key) for key in expected} == pytest.approx(expected)
    assert ("test_auroc" in measured) != one_class


def test_single_precision_is_near_double():
    label, test, _ = LABELS["3, 7"]
    engines = [classifying(label, test, dtype) for dtype in (torch.float32, torch.float64)]
    points = np.random.default_rng(3).normal(size=(AGENTS, engines[0].dimension))
    batch = engines[0].minibatches(RoundRandom(1), 3)
    single, double = (engine.gradients(engine.array(points), batch, None) for engine in engines)
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    np.testing.assert_allclose(single, double, atol=1e-5)


def test_networks_start_from_one_model_of_the_seed():
    label, test, _ = LABELS["3, 7"]
    engine = classifying(label, test)
    start = engine.start(3)
    assert start.shape == (AGENTS, engine.dimension)
    assert (start == start[0]).all()
    assert torch.equal(engine.start(3), start)
    assert not torch.equal(engine.start(4), start)
    assert not torch.equal(start[0], torch.zeros_like(start[0]))


@pytest.mark.parametrize(
    ("label", "count"), [(np.full(ROWS, 2.0), "1"), (0.1 * np.arange(2000), "2000")]
)
def test_labels_that_are_no_classes_are_refused(label, count):
    features = np.zeros((len(label), FEATURES))
    data = ClientSamples(
        Samples(np.arange(len(label)), label, features),
        np.array([0, 4, len(label)]),
        {"dataset": "toy", "shape": [FEATURES]},
    )
    objective = ClassificationObjective(name="cross_entropy", model="two_layers")
    with pytest.raises(FedatlasError, match=rf"'cross_entropy' needs 2 to .* 'toy' has {count} "):
        ClassifyingAgents(data, objective, "cpu")


# ------------------------------------------------------------------------------------------ links


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_links_carry_weighted_sums(seed, agents, numbers):
    rng = np.random.default_rng(seed)
    weights = rng.random((agents, agents)) * (rng.random((agents, agents)) < 0.5)
    np.fill_diagonal(weights, 0)
    links = Links(weights, np.array, Draws(), GraphCounters())
    own, sent = rng.normal(size=(2, agents, numbers))
    received, balance = np.zeros((2, agents, numbers))
    towards = np.zeros((agents, numbers))
    for i in range(agents):
        for j in range(agents):  # i receives from j
            towards[i] += weights[i, j] * (sent[j] - own[i])
            received[i] += weights[i, j] * (sent[i] - sent[j])
            balance[i] += weights[j, i] * sent[i] - weights[i, j] * sent[j]
    np.testing.assert_allclose(links.towards(own, sent), towards, atol=1e-14)
    np.testing.assert_allclose(links.in_laplacian @ sent, received, atol=1e-14)
    np.testing.assert_allclose(links.out_laplacian @ sent, balance, atol=1e-14)


def test_links_count_edges_and_add_noise():
    weights = np.array([[0, 0.5, 2.0], [0, 0, 1.0], [0, 0.1, 0]])  # 4 edges
    counters = GraphCounters()
    network = GraphNetwork(weights, None, np.array, Draws(), counters)
    assert network.trackers is None
    values, random = np.ones((3, 20_000)), RoundRandom(1)
    np.testing.assert_array_equal(network.states.release(values, 0.0, random), values)
    # Agents 1 and 2 have three of the edges each.
    counted = GraphCounters(bytes_sent=4 * 20_000 * 8, messages=4)
    counted.sequential_messages, counted.sequential_bytes = 1, 3 * 20_000 * 8
    assert counters == counted
    np.testing.assert_array_equal(network.states.send(values, bits=100), values)
    counted = GraphCounters(bytes_sent=4 * (20_000 * 8 + 12.5), messages=8)
    counted.sequential_messages, counted.sequential_bytes = 2, 3 * (20_000 * 8 + 12.5)
    assert counters == counted
    noise = network.states.release(values, 0.25, random) - 1
    assert counters.messages == 12
    assert stats.kstest(noise.ravel(), stats.laplace(scale=0.25).cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(noise) - np.eye(3)).max() < 4 / 20_000**0.5
    assert (values == 1).all()
