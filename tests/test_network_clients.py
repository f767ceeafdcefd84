"""Networks around a server: the methods' own files against plain loops with autograd, float64.

The loops are those of tests/certificates; only the gradient of a client's minibatch is another.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from torch.nn import functional

from certified import beside
from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedprox import FedProx
from fedatlas.arithmetic.client_rows import ChunkedRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal.network_engine import NetworkEngine
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import Objective
from fedatlas.training.loop import train
from fedatlas.training.rehearsal import rehearse
from small_federations import CLASSES, LOCAL, images, share_out, small
from small_federations import CLIENTS as TWELVE
from test_methods import Run

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

SIZES, FEATURES, HIDDEN = (5, 3, 9, 1, 4, 6, 2), 3, 2
N, RNG = len(SIZES), np.random.default_rng(4)
OFFSETS = np.cumsum([0, *SIZES])
A, TEST_A = RNG.normal(size=(OFFSETS[-1], FEATURES)), RNG.normal(size=(8, FEATURES))
LABELS = {
    "cross_entropy": RNG.integers(3, size=len(A)) + 4.0,
    "binary_cross_entropy": RNG.choice([-1.0, 1.0], size=len(A)),
    "squared_error": RNG.normal(size=len(A)),
}
every_loss = pytest.mark.parametrize("name", LABELS)
either_way = pytest.mark.parametrize("vectorised", [True, False])


def engine_of(name: str, vectorised: bool | None = None, dtype: Any = torch.float64, **changes):
    objective = TypeAdapter(Objective).validate_python({"name": name, "model": "two_layers"})
    label = LABELS[name]
    data = ClientSamples(
        Samples(np.arange(len(A)), label, changes.get("features", A)),
        changes.get("offsets", OFFSETS),
        {"dataset": "toy", "shape": None, "features": FEATURES},
        Samples(np.arange(len(TEST_A)), label[: len(TEST_A)], TEST_A),
    )
    return NetworkEngine(data, objective, "cpu", dtype, vectorised)


@dataclass
class Plain:
    """The reference's problem: one client's mean loss after the other, by autograd."""

    name: str

    @property
    def clients(self) -> list[slice]:
        return [slice(*OFFSETS[i : i + 2]) for i in range(N)]

    def loss(self, x: torch.Tensor, rows: Any, a: np.ndarray = A) -> torch.Tensor:
        """The mean over these rows at flat parameters: W by rows, c, V by rows, e."""
        label = torch.as_tensor(LABELS[self.name][rows])
        k = 3 if self.name == "cross_entropy" else 1
        w, c, v, e = x.split([HIDDEN * FEATURES, HIDDEN, k * HIDDEN, k])
        hidden = torch.tanh(torch.as_tensor(a[rows]) @ w.view(HIDDEN, FEATURES).T + c)
        z = hidden @ v.view(k, HIDDEN).T + e
        if self.name == "cross_entropy":
            return functional.cross_entropy(z, label.long() - 4)
        if self.name == "squared_error":
            return functional.mse_loss(z[:, 0], label)
        return torch.log1p(torch.exp(-label * z[:, 0])).mean()

    def client_gradient(self, i: int, x: np.ndarray, rows: Any = None) -> np.ndarray:
        point = torch.tensor(x, requires_grad=True)
        own = np.arange(SIZES[i]) if rows is None else np.asarray(rows)
        (gradient,) = torch.autograd.grad(self.loss(point, OFFSETS[i] + own), point)
        return gradient.numpy()


def view_of(name: str) -> Any:
    """The problem as certificates take it."""
    plain = Plain(name)
    return SimpleNamespace(
        clients=N, sizes=SIZES, weights=np.full(N, 1 / N), states=None, trackers=None,
        gradient=plain.client_gradient,
        client_value=lambda i, x: float(plain.loss(torch.as_tensor(x), plain.clients[i])),
        sample_gradients=lambda i, x, rows: [plain.client_gradient(i, x, [j]) for j in rows],
        penalty_gradient=lambda x: 0.0,
    )  # fmt: skip


SAMPLED = {"clients_per_round": 3, "local_steps": 4, "batch_size": 2}
PAGE = {
    "clients_per_round": 3, "local_steps": 4, "global_step_size": 0.3, "local_batch_size": 2,
}  # fmt: skip


@every_loss
@either_way
def test_local_and_recursive_steps_are_the_certificates(name: str, vectorised: bool) -> None:
    for method, hyper in (("fedavg", SAMPLED | {"local_step_size": 0.3}), ("fedpage", PAGE)):
        found = beside(method, hyper, engine_of(name, vectorised), view_of(name), 6)
        assert not found.first, str(found)


def test_fedprox_without_its_weight_is_fedavg_bit_for_bit() -> None:
    engine = engine_of("cross_entropy", dtype=torch.float32)
    start = engine.numpy(engine.start(1))
    shared = SAMPLED | {"local_step_size": 0.3}
    runs = [
        Run(method, engine, x0=start)
        for method in (FedAvg(**shared), FedProx(**shared, proximal_weight=0))
    ]
    np.testing.assert_array_equal(*(run.trajectory() for run in runs))


@every_loss
@either_way
def test_measurements_are_those_of_all_rows(name: str, vectorised: bool) -> None:
    """The mean of clients' means, whatever their sizes, and its gradient."""
    plain, engine = Plain(name), engine_of(name, vectorised)
    x = RNG.normal(size=engine.dimension)
    measured = engine.measure(torch.as_tensor(x))
    losses = [float(plain.loss(torch.as_tensor(x), own)) for own in plain.clients]
    gradient = np.mean([plain.client_gradient(i, x) for i in range(N)], axis=0)
    assert measured["objective"] == pytest.approx(np.mean(losses), rel=1e-12)
    assert measured["gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-12)
    if name == "squared_error":
        every = slice(0, len(A))
        squared = float(plain.loss(torch.as_tensor(x), every))
        assert measured["train_rmse"] == pytest.approx(squared**0.5, rel=1e-12)
        tested = float(plain.loss(torch.as_tensor(x), slice(0, len(TEST_A)), TEST_A))
        assert measured["test_rmse"] == pytest.approx(tested**0.5, rel=1e-12)
    else:
        assert 0 <= measured["test_accuracy"] <= 1


def test_softmax_regression_is_the_linear_network() -> None:
    """The gradient at 0 of softmax regression: mean of (1/k − 1[class]) a."""
    objective = TypeAdapter(Objective).validate_python({"name": "cross_entropy", "model": "linear"})
    data = ClientSamples(
        Samples(np.arange(len(A)), LABELS["cross_entropy"], A), OFFSETS,
        {"dataset": "toy", "shape": None, "features": FEATURES},
    )  # fmt: skip
    engine = NetworkEngine(data, objective, "cpu", torch.float64)
    batch = engine.minibatches(RoundRandom(0), np.array([2]), None)
    own = slice(OFFSETS[2], OFFSETS[3])
    off = 1 / 3 - (LABELS["cross_entropy"][own, None] == [4, 5, 6])
    expected = np.concatenate([(off.T @ A[own]).ravel(), off.sum(0)]) / SIZES[2]
    gradient = engine.gradient(engine.start(0), batch)[0]
    np.testing.assert_allclose(gradient, expected, atol=1e-15)


@either_way
def test_clients_without_samples_stand_still(vectorised: bool) -> None:
    offsets = np.array([0, 4, 4, len(A)])
    engine = engine_of("cross_entropy", vectorised, offsets=offsets)
    x = engine.start(0)
    for size in (2, None):
        batch = engine.minibatches(RoundRandom(0), np.arange(3), size)
        gradients = engine.gradient(x, batch)
        assert (gradients[1] == 0).all() and (gradients[[0, 2]] != 0).any(1).all()
    empty = engine.minibatches(RoundRandom(0), np.array([1]), 2)
    assert (engine.gradient(x, empty) == 0).all()
    nobody = engine.minibatches(RoundRandom(0), np.arange(0), 2, 3)
    assert engine.local_sgd(x, nobody, 0.1).shape == (0, engine.dimension)


def test_rows_in_chunks_weigh_what_their_numbers_weigh() -> None:
    """A model of float32 takes four bytes a number, whole or chunk by chunk."""
    method = FedAvg(**SAMPLED | {"clients_per_round": 5}, local_step_size=0.3)
    for dtype, itemsize in ((torch.float32, 4), (torch.float64, 8)):
        engine = engine_of("cross_entropy", dtype=dtype)
        start = engine.numpy(engine.start(1))
        whole = Run(method, engine, x0=start)
        chunked = Run(method, engine, x0=start, numbers_at_once=2 * engine.dimension)
        paths = [run.trajectory(4) for run in (whole, chunked)]
        np.testing.assert_allclose(*paths, rtol=0, atol=1e-6)
        assert chunked.counters == whole.counters
        assert whole.counters.bytes_up == 4 * 5 * itemsize * engine.dimension
        batch = chunked.problem.minibatches(RoundRandom(0), np.arange(N), None)
        rows = chunked.problem.gradient(engine.start(1), batch)
        assert isinstance(rows - 1.0, ChunkedRows)
        assert (rows - 1.0).nbytes == N * itemsize * engine.dimension


# ------------------------------------------------------------------------------- as runs


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "scaffold", "fedpage"])
def test_runs_of_networks_are_rehearsed_and_learn(algorithm: str, tmp_path) -> None:
    partition = TWELVE.model_copy(update={"test": 0.2, "assignment": "shuffled", "clients": 6})
    spec = small(algorithm, objective=CLASSES, partition=partition)
    shards = share_out(
        tmp_path, partition, images(), (1, 8, 8),
        normalisation={"mean": [4.0], "deviation": [4.0]},
    )  # fmt: skip
    assert rehearse(spec, shards) == "does what a method promises"
    trace = train(spec, shards, tmp_path / "trace.nc")
    for name in ("objective", "gradient_norm", "test_accuracy", "train_top5_accuracy"):
        assert np.isfinite(trace[name]).all()
    assert (trace["objective"][:, -1] < trace["objective"][:, 0]).all()


def test_what_a_server_does_not_average_is_refused(tmp_path) -> None:
    spec = small("fedavg", hyper=LOCAL, objective={"name": "cross_entropy", "model": "normed"})
    share_out(
        tmp_path, TWELVE, images(), (1, 8, 8), normalisation={"mean": [4.0], "deviation": [4.0]}
    )
    with pytest.raises(FedatlasError, match=r"'normed': has running statistics.*use GroupNorm"):
        train(spec, tmp_path, tmp_path / "trace.nc")
