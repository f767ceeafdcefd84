"""The oracle of tiered methods against autograd of the joint model, and BatchNorm by hand.

The joint model is the sum of the silos' networks, built here from the architectures alone; clients
have different numbers of samples, sample ids have gaps, labels are classes with gaps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from fedatlas import architectures
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import ClientSamples, TieredSamples
from fedatlas.federations.tiered.hubs import PerSilo, SiloModels, TieredCounters, sums_of_others
from fedatlas.federations.tiered.torch_engine import NetworkSilos
from fedatlas.schema.objectives import ClassificationObjective

CLASSES = np.array([2.0, 3.0, 7.0, 11.0, 13.0, 20.0, 21.0])  # labels of data sets of many classes
# The network, its options, and the shape of a sample in silo j.
NETWORKS: dict[str, tuple[dict[str, int], Callable[[int], tuple[int, ...]]]] = {
    "linear": ({}, lambda silo: (2 + silo,)),
    "cnn_strided": ({}, lambda silo: (1, 4, 3 + silo)),
    "lstm": ({"hidden": 3}, lambda silo: (4, 1 + silo)),
    "normed": ({}, lambda silo: (2, 2, 1 + silo)),
    "resnet18_halves": ({}, lambda silo: (3, 16, 16)),
}
DIFFERENTIABLE = ("linear", "cnn_strided", "lstm")  # without running statistics

quick = settings(max_examples=20, deadline=None)


pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")


# ------------------------------------------------------------------------------------ samples


@dataclass(frozen=True)
class Toy:
    """Samples by number, not by place.

    model: of NETWORKS. data: of silo j (M, *shape_j); targets: (M,) classes from 0, or 0 and 1.
    owners: of silo j the sample numbers of each client. test: data and targets, of R samples.
    """

    model: str
    data: list[np.ndarray]
    targets: np.ndarray
    owners: list[list[np.ndarray]]
    outputs: int
    test: tuple[list[np.ndarray], np.ndarray] | None = None

    @property
    def silos(self) -> int:
        return len(self.data)

    @property
    def clients(self) -> tuple[int, ...]:
        return tuple(map(len, self.owners))

    @property
    def labels(self) -> np.ndarray:
        return self.as_labels(self.targets)

    def as_labels(self, targets: np.ndarray) -> np.ndarray:
        return 2.0 * targets - 1 if self.outputs == 1 else CLASSES[targets]

    @property
    def objective(self) -> ClassificationObjective:
        return ClassificationObjective.model_validate(
            {
                "name": "binary_cross_entropy" if self.outputs == 1 else "cross_entropy",
                "model": self.model,
                **NETWORKS[self.model][0],
            }
        )

    @property
    def samples(self) -> TieredSamples:
        """As they are read from shards: by silo, client by client."""
        ids = np.sort(np.random.default_rng(0).choice(1000, len(self.targets), replace=False))
        silos = []
        for number, (values, clients) in enumerate(zip(self.data, self.owners, strict=True)):
            order = np.concatenate(clients)
            metadata = {"dataset": "toy", "shape": values.shape[1:], "silo": number}
            silos.append(
                ClientSamples(
                    _rows(ids[order], self.labels[order], values[order]),
                    np.cumsum([0, *map(len, clients)]),
                    metadata,
                    self._held_out(number),
                )
            )
        place = np.stack([np.argsort(silo.samples.sample_id) for silo in silos])
        return TieredSamples(tuple(silos), place)

    def _held_out(self, silo: int) -> Samples | None:
        if self.test is None:
            return None
        data, targets = self.test
        return _rows(5 * np.arange(len(targets)), self.as_labels(targets), data[silo])

    def engine(self, vectorised: bool | None = None) -> NetworkSilos:
        return NetworkSilos(
            self.samples, self.objective, "cpu", dtype=torch.float64, vectorised=vectorised
        )

    def start(self, engine: NetworkSilos, seed: int = 0) -> SiloModels:
        """The engine's start, moved: linear models start at zero, biases often do."""
        start = engine.start(seed)
        noise = torch.Generator().manual_seed(seed)
        return SiloModels(
            tuple(w + 0.3 * _normal(w.shape, noise) for w in start.weights), start.statistics
        )


def _rows(ids: np.ndarray, label: np.ndarray, values: np.ndarray) -> Samples:
    return Samples(ids, label, values.reshape(len(values), -1))


def _normal(shape: Any, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def make_toy(
    model: str = "linear",
    silos: int = 2,
    clients: int | tuple[int, ...] = 3,
    samples: int = 11,
    outputs: int = 3,
    seed: int = 0,
    test: int = 0,
) -> Toy:
    """Random samples, of all classes if there are enough; each client has at least one.

    clients: of each silo.
    """
    random = np.random.default_rng(seed)
    shapes = [NETWORKS[model][1](silo) for silo in range(silos)]

    def drawn(rows: int) -> tuple[list[np.ndarray], np.ndarray]:
        targets = random.permutation(np.arange(rows) % max(outputs, 2))
        return [random.normal(size=(rows, *shape)) for shape in shapes], targets

    data, targets = drawn(samples)
    owners = []
    for number in (clients,) * silos if isinstance(clients, int) else clients:
        cuts = np.sort(random.choice(np.arange(1, samples), number - 1, replace=False))
        parts = np.split(random.permutation(samples), cuts)
        owners.append([np.sort(part) for part in parts])
    return Toy(model, data, targets, owners, outputs, drawn(test) if test else None)


@st.composite
def toys(draw, models=DIFFERENTIABLE, most_silos=3):
    """A toy and sample numbers of a minibatch, in any order."""
    samples = draw(st.integers(7, 12), "samples")
    silos = draw(st.integers(1, most_silos), "silos")
    toy = make_toy(
        draw(st.sampled_from(models), "model"),
        silos,
        draw(st.tuples(*[st.integers(1, 4)] * silos), "clients"),
        samples,
        draw(st.sampled_from([1, 2, 3, 7]), "outputs"),
        draw(st.integers(0, 99), "seed"),
    )
    return toy, np.array(draw(st.permutations(range(samples))))[: draw(st.integers(1, samples))]


# ---------------------------------------------------------------------------- the joint model


def network_of(toy: Toy, silo: int, weights: torch.Tensor) -> nn.Module:
    """Silo j's module at flat parameters."""
    module = architectures.architecture(toy.model)(
        toy.data[silo].shape[1:], toy.outputs, **NETWORKS[toy.model][0]
    ).double()
    nn.utils.vector_to_parameters(weights.clone(), module.parameters())
    return module


def inputs_of(toy: Toy, silo: int, samples: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(toy.data[silo][samples])


def embeddings_of(toy: Toy, weights: PerSilo, samples: np.ndarray) -> list[torch.Tensor]:
    with torch.no_grad():
        return [
            network_of(toy, silo, part)(inputs_of(toy, silo, samples))
            for silo, part in enumerate(weights)
        ]


def mean_loss(toy: Toy, outputs: torch.Tensor, samples: np.ndarray) -> torch.Tensor:
    targets = torch.from_numpy(toy.targets[samples])
    if toy.outputs == 1:
        return F.binary_cross_entropy_with_logits(outputs[:, 0], targets.double())
    return F.cross_entropy(outputs, targets)


def joint_gradient(toy: Toy, weights: PerSilo, silo: int, samples: np.ndarray) -> torch.Tensor:
    """Of the mean loss of the summed embeddings, all in one graph, in silo j's parameters."""
    modules = [network_of(toy, j, part) for j, part in enumerate(weights)]
    outputs = sum(module(inputs_of(toy, j, samples)) for j, module in enumerate(modules))
    mean_loss(toy, outputs, samples).backward()
    return torch.cat([parameter.grad.ravel() for parameter in modules[silo].parameters()])


def gradient_beside(
    toy: Toy, silo: int, weights: torch.Tensor, others: torch.Tensor, samples: np.ndarray
) -> torch.Tensor:
    """Of one silo's network beside a fixed share of the sum."""
    module = network_of(toy, silo, weights)
    mean_loss(toy, others + module(inputs_of(toy, silo, samples)), samples).backward()
    return torch.cat([parameter.grad.ravel() for parameter in module.parameters()])


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def at_clients(models: SiloModels, clients: tuple[int, ...]) -> SiloModels:
    return SiloModels(
        *(tuple(p.expand(k, -1) for k, p in zip(clients, ps, strict=True)) for ps in models)
    )


# ---------------------------------------------------------------- embeddings and partial gradients


@quick
@given(toys(), st.sampled_from([None, False, True]))
def test_embeddings_are_in_the_order_of_the_minibatch(drawn, vectorised):
    toy, samples = drawn
    engine = toy.engine(vectorised)
    models = toy.start(engine)
    batch = engine.minibatch_of(samples)
    found = engine.embeddings(models, batch)
    assert len(found) == toy.silos
    for own, expected in zip(found, embeddings_of(toy, models.weights, samples), strict=True):
        close(own, expected)
    expected_sizes = [
        [len(np.intersect1d(samples, own)) for own in clients] for clients in toy.owners
    ]
    assert [sizes.tolist() for sizes in batch.sizes] == expected_sizes
    assert batch.size == len(samples)


@quick
@given(toys(), st.sampled_from([None, False, True]))
def test_partial_gradients_are_those_of_the_joint_model_on_a_clients_samples(drawn, vectorised):
    toy, samples = drawn
    engine = toy.engine(vectorised)
    models = toy.start(engine)
    batch = engine.minibatch_of(samples)
    others = sums_of_others(engine.embeddings(models, batch))
    found, _ = engine.partial_gradients(at_clients(models, toy.clients), others, batch)
    for silo, clients in enumerate(toy.owners):
        assert found[silo].shape == (toy.clients[silo], len(models.weights[silo]))
        for client, owned in enumerate(clients):
            held = samples[np.isin(samples, owned)]
            if len(held) == 0:
                assert (found[silo][client] == 0).all()
            else:
                expected = joint_gradient(toy, models.weights, silo, held)
                close(found[silo][client], expected)


@quick
@given(toys(), st.sampled_from([None, False, True]))
def test_local_steps_see_their_own_weights_beside_stale_embeddings(drawn, vectorised):
    """Every client at weights of its own; what the others sent was of weights that are gone."""
    toy, samples = drawn
    engine = toy.engine(vectorised)
    batch = engine.minibatch_of(samples)
    sent = toy.start(engine, seed=1)
    others = sums_of_others(engine.embeddings(sent, batch))
    noise = torch.Generator().manual_seed(2)
    moved = SiloModels(
        tuple(
            part + 0.2 * _normal((own, len(part)), noise)
            for own, part in zip(toy.clients, sent.weights, strict=True)
        ),
        tuple(part.expand(own, -1) for own, part in zip(toy.clients, sent.statistics, strict=True)),
    )
    found, _ = engine.partial_gradients(moved, others, batch)
    embeddings = embeddings_of(toy, sent.weights, samples)
    for silo, clients in enumerate(toy.owners):
        beside = sum((e for j, e in enumerate(embeddings) if j != silo), torch.zeros(()))
        for client, owned in enumerate(clients):
            rows = np.flatnonzero(np.isin(samples, owned))
            if len(rows):
                here = beside[rows] if toy.silos > 1 else beside
                expected = gradient_beside(
                    toy, silo, moved.weights[silo][client], here, samples[rows]
                )
                close(found[silo][client], expected)


def test_sums_of_others_leave_ones_own_out():
    parts = tuple(torch.tensor([[10.0**n, -(10.0**n)]]) for n in range(3))
    expected = [[110.0, -110.0], [101.0, -101.0], [11.0, -11.0]]
    assert [found[0].tolist() for found in sums_of_others(parts)] == expected
    assert sums_of_others(parts[:1])[0].tolist() == [[0.0, 0.0]]


# ------------------------------------------------------------------------------------ BatchNorm


@dataclass
class Normed:
    """`normed` in float64 with its normalisation written out, by flat parameters and statistics.

    statistics: running means (2,) and variances (2,), one after the other.
    """

    shape: tuple[int, ...]
    outputs: int

    def parts(self, weights: torch.Tensor) -> list[torch.Tensor]:
        channels, height, width = self.shape
        shapes = [(2, channels, 3, 3), (2,), (2,), (2,)]
        shapes += [(self.outputs, 2 * height * width), (self.outputs,)]
        sizes = [int(np.prod(shape)) for shape in shapes]
        split = weights.split(sizes)
        return [part.reshape(shape) for part, shape in zip(split, shapes, strict=True)]

    def __call__(
        self, weights: torch.Tensor, x: torch.Tensor, statistics: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs, by the minibatch's own mean and variance if no statistics are given, and both.

        The variance that is returned is the unbiased one, which the running one is made of.
        """
        kernel, shift, scale, offset, dense, bias = self.parts(weights)
        z = F.conv2d(x, kernel, shift, padding=1)
        values = z.transpose(0, 1).reshape(2, -1)
        mean, variance = values.mean(1), values.var(1, correction=0)
        of_batch = torch.cat([mean, values.var(1, correction=1)]).detach()
        if statistics is not None:
            mean, variance = statistics[:2], statistics[2:]
        z = (z - mean[:, None, None]) / torch.sqrt(variance[:, None, None] + 1e-5)
        z = torch.relu(z * scale[:, None, None] + offset[:, None, None])
        return z.flatten(1) @ dense.T + bias, of_batch


def normed_by_hand(toy: Toy, silo: int) -> Normed:
    return Normed(toy.data[silo].shape[1:], toy.outputs)


def normed_embeddings(toy: Toy, weights: PerSilo, samples: np.ndarray) -> list[torch.Tensor]:
    """As they are exchanged: every client normalises its samples of the minibatch by themselves."""
    found = []
    for silo, clients in enumerate(toy.owners):
        own = torch.full((len(samples), toy.outputs), torch.nan, dtype=torch.float64)
        for owned in clients:
            rows = np.flatnonzero(np.isin(samples, owned))
            if len(rows):
                x = inputs_of(toy, silo, samples[rows])
                own[rows] = normed_by_hand(toy, silo)(weights[silo], x)[0]
        found.append(own)
    return found


@quick
@given(toys(models=("normed",)))
def test_batch_norm_is_of_a_clients_own_samples(drawn):
    toy, samples = drawn
    engine = toy.engine()
    start = toy.start(engine)
    noise = torch.Generator().manual_seed(3)
    statistics = tuple(torch.rand(own, 4, generator=noise).double() for own in toy.clients)
    before = [part.clone() for part in statistics]
    batch = engine.minibatch_of(samples)
    embeddings = engine.embeddings(start, batch)
    expected = normed_embeddings(toy, start.weights, samples)
    for found, by_hand in zip(embeddings, expected, strict=True):
        close(found, by_hand)
    for part in start.statistics:  # what the exchange has left alone
        assert part.tolist() == [0.0, 0.0, 1.0, 1.0]
    others = sums_of_others(embeddings)
    models = SiloModels(at_clients(start, toy.clients).weights, statistics)
    gradients, after = engine.partial_gradients(models, others, batch)
    for silo, clients in enumerate(toy.owners):
        for client, owned in enumerate(clients):
            rows = np.flatnonzero(np.isin(samples, owned))
            if len(rows) == 0:
                assert torch.equal(after[silo][client], before[silo][client])
                assert (gradients[silo][client] == 0).all()
                continue
            weights = start.weights[silo].clone().requires_grad_()
            outputs, of_batch = normed_by_hand(toy, silo)(
                weights, inputs_of(toy, silo, samples[rows])
            )
            mean_loss(toy, others[silo][rows] + outputs, samples[rows]).backward()
            # The bias before a normalisation has no gradient but rounding.
            torch.testing.assert_close(gradients[silo][client], weights.grad, rtol=1e-8, atol=1e-11)
            close(after[silo][client], 0.9 * before[silo][client] + 0.1 * of_batch)
        assert torch.equal(statistics[silo], before[silo])  # what was given is not written to


def test_evaluation_normalises_by_running_statistics():
    toy = make_toy("normed", clients=2, samples=9, outputs=7, test=8)
    engine = toy.engine()
    start = toy.start(engine)
    noise = torch.Generator().manual_seed(4)
    statistics = tuple(0.5 + torch.rand(4, generator=noise).double() for _ in start.weights)
    measured = engine.measure(SiloModels(start.weights, statistics))

    def outputs(data: list[np.ndarray], statistics: PerSilo) -> torch.Tensor:
        return sum(
            normed_by_hand(toy, j)(start.weights[j], torch.from_numpy(x), statistics[j])[0]
            for j, x in enumerate(data)
        )

    expected = mean_loss(toy, outputs(toy.data, statistics), np.arange(9))
    assert measured["objective"] == pytest.approx(float(expected), rel=1e-12)
    right = outputs(toy.test[0], statistics).argmax(1).numpy() == toy.test[1]
    assert measured["test_accuracy"] == pytest.approx(right.mean())
    fresh = engine.measure(start)["objective"]
    assert fresh == pytest.approx(
        float(mean_loss(toy, outputs(toy.data, start.statistics), np.arange(9))), rel=1e-12
    )
    assert fresh != pytest.approx(measured["objective"], rel=1e-3)
    assert engine.measure(start)["objective"] == fresh  # measuring leaves no trace


def test_resnet18_halves_keeps_its_running_statistics():
    """Two samples at one client, against the module itself in training and in evaluation."""
    data = [np.random.default_rng(0).normal(size=(2, 3, 16, 16))]
    toy = Toy("resnet18_halves", data, np.array([0, 1]), [[np.array([0, 1])]], 2)
    engine = toy.engine()
    models, both = engine.start(5), np.array([0, 1])
    module = network_of(toy, 0, models.weights[0])

    def loss_in(training: bool) -> torch.Tensor:
        return mean_loss(toy, module.train(training)(inputs_of(toy, 0, both)), both)

    loss_in(True).backward()
    expected = torch.cat([parameter.grad.ravel() for parameter in module.parameters()])
    others = (torch.zeros(2, 2, dtype=torch.float64),)
    (gradients,), (after,) = engine.partial_gradients(
        at_clients(models, (1,)), others, engine.minibatch_of(both)
    )
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(gradients[0], expected, rtol=1e-6, atol=1e-8)
    kept = [buffer for buffer in module.buffers() if buffer.dim()]  # not the number of batches
    assert len(kept) == 2 * 20
    close(after[0], torch.cat(kept))
    moved = engine.measure(SiloModels(models.weights, (after[0],)))["objective"]
    with torch.no_grad():
        assert moved == pytest.approx(float(loss_in(False)))


# --------------------------------------------------------------------------- starts, draws, counts


def test_silos_start_with_networks_of_their_own_and_their_clients_with_copies():
    toy = make_toy("cnn_strided", silos=2, clients=3)
    same_shape = Toy(
        toy.model, [toy.data[0], toy.data[0]], toy.targets, toy.owners, toy.outputs, None
    )
    engine = same_shape.engine()
    start, again, other = engine.start(1), engine.start(1), engine.start(2)
    assert start.weights[0].shape == start.weights[1].shape
    assert not torch.equal(*start.weights)
    for one, same, else_where in zip(start.weights, again.weights, other.weights, strict=True):
        assert torch.equal(one, same)
        assert not torch.equal(one, else_where)
    assert [part.shape for part in start.statistics] == [(0,), (0,)]
    copies = engine.counting(TieredCounters()).copies(start)
    for part, copied in zip(start.weights, copies.weights, strict=True):
        assert torch.equal(copied, torch.stack([part] * 3))
    assert [part.shape for part in copies.statistics] == [(3, 0), (3, 0)]


@quick
@given(size=st.integers(1, 11), seed=st.integers(0, 99), number=st.integers(0, 5))
def test_minibatches_are_the_same_samples_in_all_silos(size, seed, number):
    toy = make_toy(silos=3)
    engine = toy.engine()
    problem = engine.counting(TieredCounters())
    batch = problem.minibatch(RoundRandom(seed).at(number), size)
    again = problem.minibatch(RoundRandom(seed).at(number), size)
    assert [sizes.sum() for sizes in batch.sizes] == [size] * 3
    samples = RoundRandom(seed).at(number).sample(11, size)
    assert len(set(samples.tolist())) == size
    models = toy.start(engine)
    expected = embeddings_of(toy, models.weights, samples)
    for found, same, by_hand in zip(
        engine.embeddings(models, batch), engine.embeddings(models, again), expected, strict=True
    ):
        assert torch.equal(found, same)
        close(found, by_hand)


# --------------------------------------------------------------------------------- measurements


def test_measurements_of_many_classes():
    toy = make_toy("linear", outputs=7, samples=40, test=30)
    engine = toy.engine()
    models = toy.start(engine)
    measured = engine.measure(models)
    accuracies, top5 = [], []
    for data, targets in ((toy.data, toy.targets), toy.test):
        outputs = np.zeros((len(targets), 7))
        for silo, x in enumerate(data):
            flat = models.weights[silo].numpy()
            width = x.shape[1]
            outputs += x @ flat[: 7 * width].reshape(7, width).T + flat[7 * width :]
        rank = [
            int((row > row[target]).sum()) for row, target in zip(outputs, targets, strict=True)
        ]
        accuracies.append(np.mean(np.array(rank) == 0))
        top5.append(np.mean(np.array(rank) < 5))
        if data is toy.data:
            shares = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
            objective = -np.log(shares[np.arange(len(targets)), targets]).mean()
    assert 0 < accuracies[0] < top5[0] < 1
    assert measured == pytest.approx(
        {
            "objective": objective,
            "gradient_norm": gradient_norm_of(engine, models),
            "train_accuracy": accuracies[0],
            "train_top5_accuracy": top5[0],
            "test_accuracy": accuracies[1],
            "test_top5_accuracy": top5[1],
        }
    )


def test_measurements_of_two_classes_with_one_output():
    toy = make_toy("linear", outputs=1, samples=40, test=30)
    engine = toy.engine()
    models = toy.start(engine)
    measured = engine.measure(models)
    expected = {}
    for name, targets, outputs in (
        ("train", toy.targets, sum(embeddings_of(toy, models.weights, np.arange(40)))),
        ("test", toy.test[1], _outputs_on(toy, models.weights, toy.test[0])),
    ):
        logits = outputs[:, 0].numpy()
        hits = np.sum((logits > 0) & (targets == 1))
        found, real = np.sum(logits > 0), np.sum(targets == 1)
        assert 0 < hits < min(found, real)
        expected[f"{name}_f1"] = 2 / (found / hits + real / hits)  # of precision and recall
        expected[f"{name}_accuracy"] = np.mean((logits > 0) == (targets == 1))
        pairs = [up > down for up in logits[targets == 1] for down in logits[targets == 0]]
        expected[f"{name}_auroc"] = np.mean(pairs)
        if name == "train":
            losses = np.log1p(np.exp(-(2 * targets - 1) * logits))
            expected["objective"] = losses.mean()
    expected["gradient_norm"] = gradient_norm_of(engine, models)
    assert measured == pytest.approx(expected)


def gradient_norm_of(engine: NetworkSilos, models: SiloModels) -> float:
    """By central differences of the objective along every coordinate, 1e-6 apart."""
    slopes = []
    for silo, weights in enumerate(models.weights):
        for place in range(len(weights)):
            ends = []
            for step in (1e-6, -1e-6):
                moved = weights.clone()
                moved[place] += step
                blocks = [*models.weights[:silo], moved, *models.weights[silo + 1 :]]
                point = SiloModels(tuple(blocks), models.statistics)
                ends.append(engine.measure(point)["objective"])
            slopes.append((ends[0] - ends[1]) / 2e-6)
    return pytest.approx(np.linalg.norm(slopes), rel=1e-6)


@pytest.mark.parametrize("model", ["normed", "lstm"])
def test_gradient_norms_are_of_the_model_as_it_is_measured(model):
    """Whose BatchNorm normalises by running statistics, and which is left as it was."""
    toy = make_toy(model, outputs=1, seed=1)
    engine = toy.engine()
    start = toy.start(engine)
    models = SiloModels(start.weights, tuple(1.5 * part for part in start.statistics))
    found = engine.measure(models)["gradient_norm"]
    assert found == gradient_norm_of(engine, models)
    assert found > 0.01


def _outputs_on(toy: Toy, weights: PerSilo, data: list[np.ndarray]) -> torch.Tensor:
    with torch.no_grad():
        return sum(
            network_of(toy, silo, part)(torch.from_numpy(x))
            for silo, (part, x) in enumerate(zip(weights, data, strict=True))
        )


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (1, {"objective", "gradient_norm", "train_accuracy", "train_f1", "train_auroc"}),
        (3, {"objective", "gradient_norm", "train_accuracy"}),
        (5, {"objective", "gradient_norm", "train_accuracy"}),
        (6, {"objective", "gradient_norm", "train_accuracy", "train_top5_accuracy"}),
    ],
)
def test_what_is_measured_goes_by_the_classes_and_the_test_rows(outputs, expected):
    toy = make_toy(outputs=outputs)
    engine = toy.engine()
    assert set(engine.measure(engine.start(0))) == expected


# --------------------------------------------------------------------------------------- errors


def test_minibatches_larger_than_the_data_are_refused():
    problem = make_toy().engine().counting(TieredCounters())
    assert problem.minibatch(RoundRandom(0).at(0), 11).size == 11
    with pytest.raises(FedatlasError, match=r"12 samples cannot be drawn from 11; lower batch_siz"):
        problem.minibatch(RoundRandom(0).at(0), 12)


@pytest.mark.parametrize("labels", [[0.0, 1.0], [1.0, 2.0], [-1.0, 0.5]])
def test_binary_cross_entropy_needs_signs(labels):
    toy = make_toy()
    (first, *rest), place = toy.samples.silos, toy.samples.place
    wrong = np.resize(labels, 11)
    silos = [
        ClientSamples(
            Samples(s.samples.sample_id, wrong[order], s.samples.features), s.offsets, s.metadata
        )
        for s, order in zip([first, *rest], np.argsort(place, axis=1), strict=True)
    ]
    objective = ClassificationObjective(name="binary_cross_entropy", model="linear")
    with pytest.raises(FedatlasError, match="needs labels ±1, but data set 'toy' has others"):
        NetworkSilos(TieredSamples(tuple(silos), place), objective, "cpu")
