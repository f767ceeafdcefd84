"""Linear models in silos against plain float64 loops, autograd of the objective, and networks.

The loops are written here sample by sample, client by client and silo by silo; losses and their
derivatives are those of tests/reference_vertical.py, which shares nothing with the package.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error

import reference_tdcd
import reference_vertical as reference
from fedatlas.algorithms.tdcd import Tdcd
from fedatlas.arithmetic.kernels.formulas import LinearModel
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import ClientSamples, TieredSamples
from fedatlas.federations.tiered.hubs import (
    SiloModels,
    TieredCounters,
    TieredNetwork,
    sums_of_others,
)
from fedatlas.federations.tiered.linear_engine import LinearSilos
from fedatlas.federations.tiered.torch_engine import NetworkSilos
from fedatlas.schema.objectives import ClassificationObjective, LinearObjective
from reference import PARTS, by_autograd

pytestmark = pytest.mark.usefixtures("one_thread")

quick = settings(max_examples=25, deadline=None)
WEIGHT = 0.3
# Loss, regulariser and weight of every objective, as the reference calls them.
FORMULAS = {
    name: (*parts, 0.0 if name == "robust_regression" else WEIGHT) for name, parts in PARTS.items()
}
every_objective = pytest.mark.parametrize("name", FORMULAS)
both_layouts = pytest.mark.parametrize("layout", ["dense", "sparse"])


def objective_of(name: str) -> LinearObjective:
    return LinearObjective(name=name, weight=FORMULAS[name][2] or None)


# ------------------------------------------------------------------------------------- samples


@dataclass(frozen=True)
class Toy:
    """Samples by number, not by place.

    X: (M, d) of all silos' columns; y: (M,). widths: columns of each silo. owners: of silo j the
    sample numbers of each client. test: (R, d) and (R,).
    """

    X: np.ndarray
    y: np.ndarray
    widths: tuple[int, ...]
    owners: list[list[np.ndarray]]
    layout: str
    test: tuple[np.ndarray, np.ndarray]

    @property
    def silos(self) -> int:
        return len(self.widths)

    @property
    def clients(self) -> int:
        return len(self.owners[0])

    def cut(self, values: np.ndarray) -> list[np.ndarray]:
        """The silos' columns, or blocks of a model."""
        return np.split(values, np.cumsum(self.widths)[:-1], axis=-1)

    @property
    def samples(self) -> TieredSamples:
        """As they are read from shards: by silo, client by client, ids with gaps."""
        ids = np.sort(np.random.default_rng(0).choice(1000, len(self.y), replace=False))
        X, y = self.test
        silos = []
        for own, kept, clients in zip(self.cut(self.X), self.cut(X), self.owners, strict=True):
            order = np.concatenate(clients)
            silos.append(
                ClientSamples(
                    Samples(ids[order], self.y[order], self._stored(own[order])),
                    np.cumsum([0, *map(len, clients)]),
                    {"dataset": "toy"},
                    Samples(np.arange(len(y)), y, self._stored(kept)) if len(y) else None,
                )
            )
        place = np.stack([np.argsort(silo.samples.sample_id) for silo in silos])
        return TieredSamples(tuple(silos), place)

    def _stored(self, values: np.ndarray) -> np.ndarray | sparse.csr_array:
        return sparse.csr_array(values) if self.layout == "sparse" else values

    def engine(self, name: str) -> LinearSilos:
        return LinearSilos(self.samples, objective_of(name))


def make_toy(
    layout: str = "dense",
    silos: int = 2,
    clients: int = 3,
    samples: int = 11,
    seed: int = 0,
    *,
    classes: bool = True,
    test: int = 5,
) -> Toy:
    """A third of the values is 0, and so are all of a few samples; clients have other sizes."""
    random = np.random.default_rng(seed)
    widths = tuple(random.permutation(np.arange(1, silos + 1)).tolist())

    def drawn(rows: int) -> tuple[np.ndarray, np.ndarray]:
        X = random.normal(size=(rows, sum(widths)))
        X[random.random(X.shape) < 1 / 3] = 0.0
        X[random.random(rows) < 0.2] = 0.0  # empty rows
        y = random.normal(size=rows)
        return X, np.where(y > 0, 1.0, -1.0) if classes else y

    (X, y), held_out = drawn(samples), drawn(test)
    owners = []
    for _ in range(silos):
        cuts = np.sort(random.choice(np.arange(1, samples), clients - 1, replace=False))
        owners.append([np.sort(own) for own in np.split(random.permutation(samples), cuts)])
    return Toy(X, y, widths, owners, layout, held_out)


@st.composite
def toys(draw: st.DrawFn) -> tuple[Toy, str, np.ndarray]:
    """A toy, an objective that its labels suit, and sample numbers of a minibatch."""
    name = draw(st.sampled_from(sorted(FORMULAS)), "objective")
    samples = draw(st.integers(5, 12), "samples")
    toy = make_toy(
        draw(st.sampled_from(["dense", "sparse"]), "layout"),
        draw(st.integers(1, 4), "silos"),
        draw(st.integers(1, 4), "clients"),
        samples,
        draw(st.integers(0, 99), "seed"),
        classes=name.startswith("logistic") or draw(st.booleans(), "classes"),
    )
    drawn = draw(st.permutations(range(samples)))[: draw(st.integers(1, samples))]
    return toy, name, np.array(drawn)


def random_models(toy: Toy, clients: bool = False, seed: int = 0) -> SiloModels:
    """Of silos, or one of every client."""
    random = np.random.default_rng(seed)
    shape = (toy.clients,) if clients else ()
    blocks = tuple(random.normal(size=(*shape, width)) for width in toy.widths)
    return SiloModels(blocks, tuple(np.zeros((*shape, 0)) for _ in blocks))


# --------------------------------------------------------------- what silos compute, by plain loops


def gradient_by_hand(
    X: np.ndarray, y: np.ndarray, others: np.ndarray, theta: np.ndarray, name: str
) -> np.ndarray:
    """Of the mean over rows of loss(θ·x + others) and of the regulariser; 0 without any row."""
    loss, regulariser, weight = FORMULAS[name]
    if not len(y):
        return np.zeros(len(theta))
    total = np.zeros(len(theta))
    for x, label, rest in zip(X, y, others, strict=True):
        margin = sum(float(a * b) for a, b in zip(x, theta, strict=True)) + float(rest)
        total += reference.loss_derivative(loss, margin, float(label)) * x
    return total / len(y) + reference.regulariser_gradient(regulariser, weight, theta)


def held(toy: Toy, silo: int, client: int, batch: np.ndarray) -> np.ndarray:
    """Places in the minibatch of the samples that a client has."""
    return np.flatnonzero(np.isin(batch, toy.owners[silo][client]))


@quick
@given(toys())
def test_embeddings_are_margins_in_the_order_of_the_minibatch(case):
    toy, name, batch = case
    engine, models = toy.engine(name), random_models(toy)
    found = engine.embeddings(models, engine.minibatch_of(batch))
    expected = [X[batch] @ w for X, w in zip(toy.cut(toy.X), models.weights, strict=True)]
    for own, margins in zip(found, expected, strict=True):
        assert own.shape == (len(batch),) and own.dtype == np.float64
        np.testing.assert_allclose(own, margins, rtol=1e-13, atol=1e-14)
    for silo, others in enumerate(sums_of_others(found)):
        rest = np.zeros(len(batch))
        for other, margins in enumerate(expected):
            rest += margins if other != silo else 0
        np.testing.assert_allclose(others, rest, rtol=1e-13, atol=1e-14)


@quick
@given(toys())
def test_partial_gradients_are_those_of_plain_loops_and_of_autograd(case):
    """Of every client at a model of its own beside any Φ_{−j}; 0 without a sample of ζ."""
    toy, name, batch = case
    engine, models = toy.engine(name), random_models(toy, clients=True)
    others = tuple(np.random.default_rng(silo).normal(size=len(batch)) for silo in range(toy.silos))
    gradients, statistics = engine.partial_gradients(models, others, engine.minibatch_of(batch))
    assert [part.shape for part in statistics] == [(toy.clients, 0)] * toy.silos
    for silo, X in enumerate(toy.cut(toy.X)):
        assert gradients[silo].shape == (toy.clients, toy.widths[silo])
        for client in range(toy.clients):
            places = held(toy, silo, client, batch)
            rows = batch[places]
            theta = models.weights[silo][client]
            own = X[rows], toy.y[rows], others[silo][places], theta
            found = gradients[silo][client]
            np.testing.assert_allclose(found, gradient_by_hand(*own, name), rtol=1e-12, atol=1e-13)
            if not len(rows):
                assert not found.any()
                continue
            point = torch.tensor(theta, requires_grad=True)
            by_autograd(name, FORMULAS[name][2], *own[:2], point, own[2]).backward()
            np.testing.assert_allclose(found, point.grad, rtol=1e-10, atol=1e-12)


@both_layouts
@every_objective
def test_a_silo_without_any_value_learns_nothing(name, layout):
    """All samples of silo 0 are empty: margins are the others', its gradient the regulariser's."""
    toy = make_toy(layout, silos=3)
    X = np.concatenate([0 * toy.cut(toy.X)[0], *toy.cut(toy.X)[1:]], axis=1)
    toy = replace(toy, X=X)
    engine, models = toy.engine(name), random_models(toy, clients=True)
    batch = engine.minibatch_of(np.arange(11))
    others = tuple(np.ones(11) for _ in range(3))
    gradients, _ = engine.partial_gradients(models, others, batch)
    _, regulariser, weight = FORMULAS[name]
    for own, theta in zip(gradients[0], models.weights[0], strict=True):
        expected = reference.regulariser_gradient(regulariser, weight, theta)
        np.testing.assert_allclose(own, expected, rtol=1e-14)
    assert not engine.embeddings(random_models(toy), batch)[0].any()


# ---------------------------------------------------------------------------------- measurements


@both_layouts
@pytest.mark.parametrize(
    ("name", "classes"),
    [
        *((name, True) for name in FORMULAS),
        ("robust_regression", False),
        ("ridge_regression", False),
    ],
)
def test_measurements_are_those_of_numpy_and_scikit_learn(name, layout, classes):
    toy = make_toy(layout, silos=3, samples=40, classes=classes, test=25)
    engine = toy.engine(name)
    loss, regulariser, weight = FORMULAS[name]
    for seed in range(3):
        models = random_models(toy, seed=seed)
        measured = engine.measure(models)
        x = np.concatenate(models.weights)
        assert measured["objective"] == pytest.approx(
            reference.objective(toy.X, toy.y, x, *FORMULAS[name]), rel=1e-13
        )
        if loss == "logistic":
            probability = 1 / (1 + np.exp(-toy.X @ x))
            trusted = log_loss(toy.y, probability)
            trusted += reference.regulariser_value(regulariser, weight, x)
            assert measured["objective"] == pytest.approx(trusted, rel=1e-12)
        gradient = reference.gradient(toy.X, toy.y, x, *FORMULAS[name])
        assert measured["gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-12)
        kind = "accuracy" if classes else "rmse"
        for split, (X, y) in {"train": (toy.X, toy.y), "test": toy.test}.items():
            expected = (
                accuracy_score(y, np.where(X @ x > 0, 1.0, -1.0))
                if classes
                else mean_squared_error(y, X @ x) ** 0.5
            )
            assert measured[f"{split}_{kind}"] == pytest.approx(expected, rel=1e-13)
        assert set(measured) == {"objective", "gradient_norm", f"train_{kind}", f"test_{kind}"}


def test_without_test_rows_none_are_measured():
    engine = make_toy(test=0).engine("ridge_regression")
    measured = engine.measure(engine.start(3))
    assert set(measured) == {"objective", "gradient_norm", "train_accuracy"}


def test_one_label_of_the_test_rows_that_is_no_class_leaves_no_accuracy():
    toy = make_toy()
    X, y = toy.test
    toy = replace(toy, test=(X, np.where(np.arange(5) == 2, 0.5, y)))
    assert "train_rmse" in toy.engine("ridge_regression").measure(random_models(toy))
    with pytest.raises(FedatlasError, match=r"'logistic_l2' needs labels ±1, but data set 'toy'"):
        toy.engine("logistic_l2")


def test_models_start_at_zero_whatever_the_seed():
    toy = make_toy(silos=3)
    engine = toy.engine("logistic_l2")
    for seed in (0, 7):
        start = engine.start(seed)
        assert [block.tolist() for block in start.weights] == [[0.0] * d for d in toy.widths]
    assert engine.measure(start)["objective"] == pytest.approx(np.log(2), rel=1e-15)


def test_images_are_refused_as_by_clients_around_a_server():
    toy = make_toy()
    silos = [
        replace(silo, samples=replace(silo.samples, features=np.zeros((11, 2), np.uint8)))
        for silo in toy.samples.silos
    ]
    with pytest.raises(FedatlasError, match=r"'logistic_l2': data set 'toy' holds images, which"):
        LinearSilos(TieredSamples(tuple(silos), toy.samples.place), objective_of("logistic_l2"))


# ------------------------------------------------------------------------------------------ TDCD


def run(
    toy: Toy, name: str, tdcd: Tdcd, rounds: int, seed: int = 1
) -> tuple[list[tuple[np.ndarray, ...]], TieredCounters]:
    """Blocks of the model after each round, from a start at random, and what was counted."""
    counters = TieredCounters()
    problem = toy.engine(name).counting(counters)
    network = TieredNetwork((toy.clients,) * toy.silos, counters)
    random = RoundRandom(seed)
    state = tdcd.start(problem, network, random_models(toy))
    trace = [tdcd.point(state, network).weights]
    for number in range(rounds):
        state = tdcd.round(state, problem, network, random.at(number))
        trace.append(tdcd.point(state, network).weights)
    return trace, counters


def minibatches(toy: Toy, tdcd: Tdcd, rounds: int, seed: int = 1) -> list[np.ndarray]:
    random = RoundRandom(seed)
    return [random.at(number).sample(len(toy.y), tdcd.batch_size) for number in range(rounds)]


def algorithm_1(
    toy: Toy,
    name: str,
    batches: list[np.ndarray],
    step: float,
    local_steps: int,
) -> list[list[np.ndarray]]:
    """TDCD's loops: Φ_{−j} of a round's start is used in all its Q steps; plain mean of clients."""
    theta = list(random_models(toy).weights)
    trace = [theta]
    for batch in batches:
        parts = [X[batch] for X in toy.cut(toy.X)]
        fixed = [
            sum((parts[i] @ theta[i] for i in range(toy.silos) if i != j), np.zeros(len(batch)))
            for j in range(toy.silos)
        ]
        local = [[theta[j].copy() for _ in range(toy.clients)] for j in range(toy.silos)]
        for _ in range(local_steps):
            stepped = [list(clients) for clients in local]
            for j in range(toy.silos):
                for k in range(toy.clients):
                    places = held(toy, j, k, batch)
                    own = parts[j][places], toy.y[batch][places], fixed[j][places]
                    gradient = gradient_by_hand(*own, local[j][k], name)
                    stepped[j][k] = local[j][k] - step * gradient
            local = stepped
        theta = [sum(clients) / toy.clients for clients in local]
        trace.append(theta)
    return trace


def assert_same(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    assert len(found) == len(expected)
    for blocks, by_hand in zip(found, expected, strict=True):
        for one, other in zip(blocks, by_hand, strict=True):
            np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-12)


@quick
@given(toys(), st.integers(1, 5))
def test_tdcd_is_the_papers_loop(case, local_steps):
    """Any N, K, Q and minibatches; Φ_{−j} is as old as the round, own margins are not."""
    toy, name, batch = case
    tdcd = Tdcd(step_size=0.2, local_steps=local_steps, batch_size=len(batch))
    found, _ = run(toy, name, tdcd, 3)
    expected = algorithm_1(toy, name, minibatches(toy, tdcd, 3), 0.2, local_steps)
    assert_same(found, expected)


@both_layouts
@every_objective
@pytest.mark.parametrize("silos", [1, 3])
def test_full_batches_and_one_step_are_gradient_descent_on_the_pooled_rows(name, layout, silos):
    """With one client; clients of equal sizes have the same mean, and with one silo so has Q."""
    toy = make_toy(layout, silos, clients=1, samples=12)
    step, rounds = 0.3, 6
    found, _ = run(toy, name, Tdcd(step_size=step, local_steps=1, batch_size=12), rounds)
    w = np.concatenate(found[0])
    model = LinearModel(toy.X, toy.y, objective_of(name))
    iterates = [w]
    for blocks in found[1:]:
        np.testing.assert_allclose(
            iterates[-1] - step * model.value_and_gradient(iterates[-1])[1],
            np.concatenate(blocks),
            rtol=1e-11,
            atol=1e-13,
        )
        w = w - step * reference.gradient(toy.X, toy.y, w, *FORMULAS[name])
        iterates.append(w)
        np.testing.assert_allclose(np.concatenate(blocks), w, rtol=1e-11, atol=1e-13)
    equal = [np.split(np.random.default_rng(j).permutation(12), 4) for j in range(silos)]
    shared, _ = run(
        replace(toy, owners=equal), name, Tdcd(step_size=step, local_steps=1, batch_size=12), rounds
    )
    assert_same(shared, found)
    if silos == 1:
        at_once, _ = run(toy, name, Tdcd(step_size=step, local_steps=3, batch_size=12), rounds // 3)
        assert_same(at_once[1:], found[3::3])


def test_clients_without_samples_of_the_minibatch_send_back_what_they_were_sent():
    """ζ has one sample: of K clients one takes steps, K times smaller in the mean."""
    toy, name = make_toy(silos=2, clients=4), "ridge_regression"
    alone = replace(toy, owners=[[np.arange(11)]] * 2)
    tdcd = Tdcd(step_size=0.1, local_steps=3, batch_size=1)
    (start, after), _ = run(toy, name, tdcd, 1)
    (_, moved), _ = run(alone, name, tdcd, 1)
    for before, now, of_one in zip(start, after, moved, strict=True):
        np.testing.assert_allclose(now - before, (of_one - before) / 4, rtol=1e-12, atol=1e-15)
        assert (now != before).any()


# --------------------------------------------------------------------------- beside linear networks


@quick
@given(
    silos=st.integers(1, 3),
    clients=st.integers(1, 4),
    layout=st.sampled_from(["dense", "sparse"]),
    seed=st.integers(0, 99),
    size=st.integers(1, 11),
)
def test_linear_networks_of_binary_cross_entropy_have_the_same_gradients(
    silos, clients, layout, seed, size
):
    """At intercepts of 0, and with a regulariser that vanishes."""
    toy = make_toy(layout, silos, clients, seed=seed)
    linear = LinearSilos(toy.samples, LinearObjective(name="logistic_l2", weight=1e-300))
    shaped = replace(toy, layout="dense").samples
    for silo, width in zip(shaped.silos, toy.widths, strict=True):
        silo.metadata["shape"] = [width]
    networks = NetworkSilos(
        shaped,
        ClassificationObjective(name="binary_cross_entropy", model="linear"),
        "cpu",
        dtype=torch.float64,
    )
    batch = np.random.default_rng(seed).permutation(11)[:size]
    models, statistics = random_models(toy), tuple(torch.zeros(0) for _ in toy.widths)
    with_intercepts = SiloModels(
        tuple(torch.tensor(np.append(w, 0.0)) for w in models.weights), statistics
    )
    found = {}
    for engine, start in ((linear, models), (networks, with_intercepts)):
        ζ = engine.minibatch_of(batch)
        embeddings = engine.embeddings(start, ζ)
        others = sums_of_others(embeddings)
        gradients, _ = engine.partial_gradients(engine.copies(start), others, ζ)
        found[engine] = (
            [engine.numpy(phi).ravel() for phi in embeddings],
            [engine.numpy(g)[:, :width] for g, width in zip(gradients, toy.widths, strict=True)],
        )
    for mine, theirs in zip(found[linear], found[networks], strict=True):
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)
    measured, expected = linear.measure(models), networks.measure(with_intercepts)
    for name in ("objective", "train_accuracy", "test_accuracy"):
        assert measured[name] == pytest.approx(expected[name], rel=1e-12)


# ------------------------------------------------------------------------------------------ counts


@quick
@given(
    toys(),
    st.integers(1, 4),
    st.sampled_from(["every_client", "first_silo"]),
)
def test_what_rounds_cost_is_counted_message_by_message(case, local_steps, labels):
    """An embedding is one float64, whatever the layout; models are the silo's columns."""
    toy, name, batch = case
    tdcd = Tdcd(step_size=0.1, local_steps=local_steps, batch_size=len(batch), labels=labels)
    _, counted = run(toy, name, tdcd, 2)
    expected = reference_tdcd.counters(
        [[own.tolist() for own in clients] for clients in toy.owners],
        minibatches(toy, tdcd, 2),
        toy.widths,
        sent=toy.widths,
        returned=[[width] * toy.clients for width in toy.widths],
        width=1,
        local_steps=local_steps,
        labels=labels,
    )
    assert asdict(counted) == pytest.approx(expected, rel=1e-12)
