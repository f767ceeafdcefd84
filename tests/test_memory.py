"""Batches beyond the declared size are computed in blocks: the same numbers up to rounding.

And a lack of memory, which really happens in a process whose address space is limited, is one line.
"""

import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import nn

from fedatlas.architectures import architecture
from fedatlas.arithmetic import batched_network, torch_device
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.samples import Clipping, Samples
from fedatlas.arithmetic.torch_device import DeviceSamples, Minibatch, in_blocks
from fedatlas.errors import RunFailedError, is_shortage
from fedatlas.federations.decentralised.torch_engine import ClassifyingAgents
from fedatlas.federations.horizontal.torch_engine import TorchEngine
from fedatlas.federations.min_max.engine import AucEngine
from fedatlas.federations.shards import ClientSamples, TieredSamples
from fedatlas.federations.tiered.hubs import sums_of_others
from fedatlas.federations.tiered.torch_engine import NetworkSilos
from fedatlas.schema.objectives import AucObjective, ClassificationObjective, LinearObjective
from fedatlas.training.steps import naming_run

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
SIZES = (9, 6)  # samples of both clients


def clients(features, label, **metadata):
    samples = Samples(np.arange(len(label)), label.astype(float), features)
    return ClientSamples(samples, np.cumsum([0, *SIZES]), {"dataset": "random"} | metadata)


def images(classes):
    """Two clients' images of 28 × 28; two classes are ±1."""
    values = np.random.default_rng(0).integers(0, 256, (sum(SIZES), 784), dtype=np.uint8)
    label = np.arange(sum(SIZES)) % classes
    return clients(
        values,
        2 * label - 1 if classes == 2 else label,
        shape=(1, 28, 28),
        positive_rate=0.5,
        normalisation={"mean": [127.0], "deviation": [74.0]},
    )


def everything(data):
    return Minibatches.of_first_rows(data.offsets[:-1], np.diff(data.offsets))


def moved(point):
    """Another point for each of two clients."""
    noise = torch.randn(2, point.shape[-1], generator=torch.Generator().manual_seed(1))
    return point + 0.01 * noise.to(point.dtype)


def auc(dtype, vectorised):
    objective, data = AucObjective(name="auc_min_max", model="cnn_28x28"), images(2)
    engine = AucEngine(data, objective, "cpu", dtype, vectorised)
    theta = moved(engine.start(0).theta)
    found = engine.gradients(theta, theta[:, :1].clone(), everything(data))
    return torch.cat([found.theta, found.w], dim=1)


def agents(dtype, vectorised, clipping=None):
    objective = ClassificationObjective(name="cross_entropy", model="cnn_28x28")
    data = images(10)
    engine = ClassifyingAgents(data, objective, "cpu", dtype, vectorised)
    return engine.gradients(moved(engine.start(0)[0]), everything(data), clipping)


def clipped(dtype, vectorised):
    return agents(dtype, vectorised, Clipping("l1", 0.3))


def silos(dtype, vectorised):
    """Gradients of both clients of two silos."""
    random, label = np.random.default_rng(0), np.arange(sum(SIZES)) % 3 * 1.0
    own, place = [], []
    for shape in [(48, 19), (48, 7)]:
        order = random.permutation(len(label))
        values = random.normal(size=(len(label), *shape)).reshape(len(label), -1)
        own.append(clients(values, label[order], shape=shape))
        place.append(np.argsort(order))
    objective = ClassificationObjective(name="cross_entropy", model="linear")
    samples = TieredSamples(tuple(own), np.stack(place))
    engine = NetworkSilos(samples, objective, "cpu", dtype, vectorised)
    batch, start = engine.minibatch_of(random.permutation(len(label))), engine.start(0)
    weights = tuple(moved(part) for part in start.weights)
    models = type(start)(weights, engine.copies(start).statistics)
    others = sums_of_others(engine.embeddings(start, batch))
    gradients, _ = engine.partial_gradients(models, others, batch)
    return torch.cat([part.reshape(-1) for part in gradients])


def linear(dtype, vectorised):
    features = sparse.csr_array(np.random.default_rng(0).normal(size=(sum(SIZES), 100)))
    data = clients(features, np.where(np.arange(sum(SIZES)) % 3, 1.0, -1.0))
    objective = LinearObjective(name="logistic_nonconvex", weight=0.1)
    engine = TorchEngine(data, objective, "cpu")
    return engine.client_gradients(moved(engine.zeros(100)), everything(data))


def assert_near(ours, expected, relative):
    assert ours.shape == expected.shape
    assert 0 < np.abs(expected).max() < np.inf
    assert np.abs(ours - expected).max() <= relative * np.abs(expected).max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("vectorised", [False, True])
@pytest.mark.parametrize("compute", [auc, agents, clipped, silos, linear])
@settings(max_examples=4, deadline=None)
@given(numbers=st.integers(1, 20 * 784))
def test_blocks_of_any_size_add_up_to_the_whole(compute, vectorised, dtype, numbers):
    expected = compute(dtype, vectorised).numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_device, "AT_ONCE", numbers)
        patch.setattr(batched_network, "_HELD", {"cpu": 10 * numbers})
        ours = compute(dtype, vectorised).numpy()
    assert_near(ours, expected, 1e-6 if dtype == torch.float32 else 1e-12)


@given(st.integers(1, 9), st.integers(1, 20), st.integers(1, 200), st.booleans())
def test_blocks_hold_every_sample_once_and_no_more_than_they_may(
    clients, samples, at_once, together
):
    numbers = torch.arange(clients * samples).reshape(clients, samples)
    seen = torch.zeros_like(numbers)

    def compute(of_clients, of_samples):
        block = seen[of_clients, of_samples]
        assert 1 <= block.numel() <= at_once
        assert together or len(block) == 1
        block += 1
        part = numbers[of_clients, of_samples]
        return part, part.sum(1, keepdim=True)

    outputs, gradients = in_blocks(compute, clients, samples, at_once, together)
    assert (seen == 1).all()
    assert torch.equal(outputs, numbers)
    assert torch.equal(gradients, numbers.sum(1, keepdim=True))


def test_fewer_samples_pass_through_wider_networks(monkeypatch):
    """A hundred numbers for each number of a sample: a fifth of the samples at once."""
    seen = []

    class Watched(nn.Linear):
        def forward(self, x):
            seen.append(x.shape[-2])
            return super().forward(x)

    network = BatchedNetwork(
        lambda: nn.Sequential(Watched(4, 398), nn.Linear(398, 2)), CPU, vectorised=False
    )
    inputs, point = torch.linspace(-1, 1, 4 * 60).reshape(1, -1, 4), network.initial(0)[None]
    whole = network.gradients(point, inputs, lambda outputs, *_: outputs)[1]
    monkeypatch.setattr(torch_device, "AT_ONCE", 4 * 50)
    seen.clear()
    in_parts = network.gradients(point, inputs, lambda outputs, *_: outputs)[1]
    assert set(seen) == {10}
    assert_near(in_parts.numpy(), whole.numpy(), 1e-6)


def test_samples_that_influence_each_other_are_not_taken_apart(monkeypatch):
    network = BatchedNetwork(
        lambda: nn.Sequential(nn.Linear(4, 20), nn.BatchNorm1d(20), nn.Linear(20, 1)), CPU
    )
    inputs = torch.linspace(-1, 1, 4 * 30).reshape(1, -1, 4)

    def gradient():
        statistics = network.initial_statistics()[None]
        point = network.initial(0)[None]
        return network.gradients(point, inputs, lambda outputs, *_: outputs, statistics)[1]

    expected = gradient()
    monkeypatch.setattr(torch_device, "AT_ONCE", 8)
    assert torch.equal(gradient(), expected)


def test_many_samples_pass_by_the_rule_of_gpus(monkeypatch):
    """What a sample weighs there goes by the layers, also of networks that take images only."""
    network = BatchedNetwork(lambda: architecture("cnn_8x8")((1, 8, 8), 2), CPU)
    inputs, point = torch.linspace(-1, 1, 30 * 64).view(30, 1, 8, 8), network.initial(0)
    expected = network.outputs(point, inputs.__getitem__, 30)
    network._kind = "other"
    monkeypatch.setattr(batched_network, "_CHUNK", {"other": 20 * 64})
    seen = []

    def taken(part):
        seen.append(part)
        return inputs[part]

    assert_near(network.outputs(point, taken, 30).numpy(), expected.numpy(), 1e-6)
    assert len(seen) > 2


def test_batch_norm_finds_its_numbers_at_even_places():
    """CuDNN's fails elsewhere; a second client's parameters begin anywhere in the array of all."""
    addresses = []

    class Watched(nn.BatchNorm1d):
        def forward(self, x):
            addresses.extend(
                part.data_ptr() % 16
                for part in (self.weight, self.bias, self.running_mean, self.running_var)
            )
            return super().forward(x)

    network = BatchedNetwork(
        lambda: nn.Sequential(nn.Linear(3, 5), Watched(5), nn.Linear(5, 2)), CPU
    )
    points = torch.stack([network.initial(0)] * 2)
    statistics = torch.stack([network.initial_statistics()] * 2)
    assert points[1].data_ptr() % 16 != 0
    inputs = torch.linspace(-1, 1, 2 * 4 * 3).view(2, 4, 3)
    network.gradients(points, inputs, lambda outputs, *_: outputs, statistics)
    network.outputs(points[1], inputs[1].__getitem__, 4, statistics[1])
    network.training_outputs(points[1], inputs[1])
    assert len(addresses) >= 16
    assert set(addresses) == {0}


def test_a_batch_that_is_asked_for_in_parts_is_not_kept_whole():
    data = images(2)
    samples = DeviceSamples(data.samples, data.metadata, CPU, torch.float32)
    batch = Minibatch(samples, torch.tensor([[0, 3, 2], [7, 6, 6]]))
    kept = weakref.ref(batch[...])
    assert batch[...] is kept()  # for another gradient at the same samples
    assert torch.equal(batch[1:, :2], batch[...][1:, :2])
    part = batch[0:1, 1:3]
    assert kept() is None
    assert torch.equal(part, samples.at(torch.tensor([[3, 2]])))
    assert batch.shape == tuple(batch[...].shape) == (2, 3, 1, 28, 28)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), True),
        (RuntimeError("mmap: Cannot allocate memory"), True),
        (RuntimeError("size mismatch"), False),
    ],
)
def test_what_is_about_memory(error, expected):
    assert is_shortage(error) is expected
    try:
        try:
            raise error
        except Exception:
            raise OSError("Could not find/load shared object file") from None
    except OSError as after:  # as of a library that could not be loaded
        assert is_shortage(after) is expected


LACKING = """
import resource, numpy, torch
from fedatlas.training.steps import naming_run
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
with naming_run("e/r/p", "cpu"):
    {allocate}
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="the limit is Linux's")
@pytest.mark.parametrize("allocate", ["torch.ones(1 << 32)", "numpy.ones(1 << 32)"])
def test_a_lack_of_memory_says_what_to_do(allocate):
    code = LACKING.format(allocate=allocate)
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    last = outcome.stderr.splitlines()[-1]
    assert last.startswith(
        "fedatlas.errors.FedatlasError: e/r/p: ran out of memory on device 'cpu'"
    )
    assert "batch_size" in last


def test_other_failures_are_left_as_they_are():
    with pytest.raises(RunFailedError, match="mat1"), naming_run("e/r/p", "cpu"):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
