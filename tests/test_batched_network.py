"""Networks as batched oracles: both ways against plain autograd, starts, chunks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedatlas.architectures import architecture
from fedatlas.arithmetic import batched_network
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.sample_gradients import forward_of
from test_clipping import Scaled, residual

CPU = torch.device("cpu")


pytestmark = pytest.mark.usefixtures("one_thread")


def grouped() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.GroupNorm(4, 4),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LayerNorm(16),
        nn.Linear(16, 3),
    )


def by_name(name: str, shape: tuple[int, ...]) -> Callable[[], nn.Module]:
    return lambda: architecture(name)(shape, 1)


# How to build a network, and the shape of its samples.
SMALL: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(3, 2), (3,)),
    "without bias": (lambda: nn.Sequential(nn.Linear(3, 3, bias=False), nn.Tanh()), (3,)),
    "scaled": (Scaled, (4,)),
    "residual": (residual, (2, 6, 6)),
    "grouped": (grouped, (2, 4, 4)),
    "sigmoid_unit": (by_name("sigmoid_unit", (1,)), (1,)),
    "cnn_8x8": (by_name("cnn_8x8", (1, 8, 8)), (1, 8, 8)),
}
LARGE = {
    "cnn_28x28": (by_name("cnn_28x28", (1, 28, 28)), (1, 28, 28)),
    "cnn_32x32": (by_name("cnn_32x32", (3, 32, 32)), (3, 32, 32)),
}
ALL = SMALL | LARGE


def points_and_inputs(
    network: BatchedNetwork, shape: tuple[int, ...], clients: int, batch: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Every client at a point of its own, near a start."""
    generator = torch.Generator().manual_seed(clients + 10 * batch)
    start = network.initial(1)
    noise = 0.01 * torch.randn(clients, network.dimension, generator=generator, dtype=dtype)
    return start + noise, torch.randn(clients, batch, *shape, generator=generator, dtype=dtype)


def pullback(outputs: torch.Tensor, clients: slice, samples: slice) -> torch.Tensor:
    """Of Σ (client + 1) · sin(outputs)."""
    weights = torch.arange(1, 100, dtype=outputs.dtype)[clients]
    return weights[:, None, None] * outputs.cos()


def plain(
    build: Callable[[], nn.Module], points: torch.Tensor, inputs: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Autograd on one module after the other, whose parameters are set to the client's point."""
    module = build().to(points.dtype)
    all_outputs, gradients = [], []
    for client, (point, samples) in enumerate(zip(points, inputs, strict=True)):
        module.zero_grad()
        nn.utils.vector_to_parameters(point, module.parameters())
        outputs = module(samples)
        ((client + 1) * outputs.sin().sum()).backward()
        slopes = [parameter.grad.reshape(-1) for parameter in module.parameters()]
        all_outputs.append(outputs.detach())
        gradients.append(torch.cat(slopes))
    return torch.stack(all_outputs), torch.stack(gradients)


def assert_near(
    actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...], relative: float
) -> None:
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        assert not ours.requires_grad
        assert (ours - theirs).abs().max() <= relative * theirs.abs().max()


def both_ways(build: Callable[[], nn.Module], dtype: torch.dtype) -> list[BatchedNetwork]:
    return [BatchedNetwork(build, CPU, dtype, vectorised) for vectorised in (False, True)]


def assert_both_agree_with_autograd(
    name: str, clients: int, batch: int, dtype: torch.dtype
) -> None:
    build, shape = ALL[name]
    relative = 1e-12 if dtype == torch.float64 else 1e-5
    networks = both_ways(build, dtype)
    points, inputs = points_and_inputs(networks[0], shape, clients, batch, dtype)
    expected = plain(build, points, inputs)
    assert expected[1].abs().max() > 0
    for network in networks:
        assert_near(network.gradients(points, inputs, pullback), expected, relative)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["cnn_28x28", "cnn_32x32"])
def test_large_networks_both_ways(name, dtype):
    assert_both_agree_with_autograd(name, 2, 2, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=8, deadline=None)
@given(clients=st.integers(1, 5), batch=st.integers(1, 6))
def test_small_networks_both_ways(name, dtype, clients, batch):
    assert_both_agree_with_autograd(name, clients, batch, dtype)


@pytest.mark.parametrize("vectorised", [False, True])
def test_clients_may_share_a_point_as_a_view(vectorised):
    """As `expand` and slices make them: rows that overlap, or with other entries between."""
    build, shape = SMALL["cnn_8x8"]
    network = BatchedNetwork(build, CPU, torch.float64, vectorised)
    _, inputs = points_and_inputs(network, shape, 3, 2, torch.float64)
    start = network.initial(4)
    expected = plain(build, start.repeat(3, 1), inputs)
    assert_near(
        network.gradients(start.expand(3, network.dimension), inputs, pullback), expected, 1e-12
    )
    wider = torch.cat([start, torch.tensor([7.0, 8.0], dtype=torch.float64)]).expand(3, -1)
    assert_near(network.gradients(wider[:, :-2], inputs, pullback), expected, 1e-12)


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_gradient_changes_nothing(vectorised):
    network = BatchedNetwork(SMALL["grouped"][0], CPU, torch.float64, vectorised)
    points, inputs = points_and_inputs(network, (2, 4, 4), 3, 2, torch.float64)
    before = points.clone(), inputs.clone(), network.initial(1)
    first = network.gradients(points, inputs, pullback)
    second = network.gradients(points, inputs, pullback)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert torch.equal(points, before[0])
    assert torch.equal(inputs, before[1])
    assert torch.equal(network.initial(1), before[2])


def test_sizes_decide_which_way_unless_it_is_said():
    few = BatchedNetwork(SMALL["cnn_8x8"][0], CPU)
    assert few.is_vectorised(249, (1, 8, 8))
    assert not few.is_vectorised(250, (1, 8, 8))
    many = BatchedNetwork(LARGE["cnn_32x32"][0], CPU)
    assert not many.is_vectorised(1, (3, 32, 32))
    many._kind = "other"  # a GPU, which few samples leave idle
    assert many.is_vectorised(50, (3, 32, 32))
    assert not many.is_vectorised(5000, (3, 32, 32))
    for said in (False, True):
        network = BatchedNetwork(SMALL["cnn_8x8"][0], CPU, vectorised=said)
        assert network.is_vectorised(1, (1, 8, 8)) is said
        assert network.is_vectorised(10**6, (1, 8, 8)) is said


# ------------------------------------------------------------------------------------ starts


@pytest.mark.parametrize("name", SMALL)
def test_a_start_is_a_function_of_its_seed(name):
    network = BatchedNetwork(SMALL[name][0], CPU)
    first = network.initial(5)
    torch.manual_seed(123)
    torch.rand(7)
    before = torch.random.get_rng_state()
    again = BatchedNetwork(SMALL[name][0], CPU, torch.float64)
    assert torch.equal(again.initial(5), first.double())  # drawn in float32 whatever the dtype
    assert torch.equal(network.initial(5), first)
    assert torch.equal(torch.random.get_rng_state(), before)
    others = [network.initial(seed) for seed in range(4)]
    for number, one in enumerate(others):
        assert not any(torch.equal(one, other) for other in [first, *others[:number]])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_start_is_what_torch_makes_under_that_seed():
    network = BatchedNetwork(SMALL["grouped"][0], CPU)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(9)
        expected = nn.utils.parameters_to_vector(grouped().parameters()).detach()
    start = network.initial(9)
    assert torch.equal(start, expected)
    assert start.shape == (network.dimension,)
    assert start.dtype == torch.float32
    assert not start.requires_grad


# ------------------------------------------------------------------------------------ outputs


class Asked:
    """Samples of a slice; remembers which were asked for."""

    def __init__(self, samples: torch.Tensor) -> None:
        self.samples = samples
        self.slices: list[Any] = []

    def __call__(self, part: slice) -> torch.Tensor:
        self.slices.append((part.start, part.stop))
        return self.samples[part]


@settings(max_examples=30, deadline=None)
@given(samples=st.integers(1, 12), chunk=st.integers(0, 14), spare=st.integers(0, 63))
def test_outputs_in_chunks_are_those_of_one_pass(samples, chunk, spare):
    build, shape = SMALL["cnn_8x8"]
    network = BatchedNetwork(build, CPU, torch.float64)
    point = network.initial(0)
    inputs = torch.randn(
        samples, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(samples)
    )
    module = build().double()
    nn.utils.vector_to_parameters(point, module.parameters())
    asked = Asked(inputs)
    with pytest.MonkeyPatch.context() as patch:
        # An image has 64 numbers.
        patch.setitem(batched_network._CHUNK, "cpu", 64 * chunk + spare)
        outputs = network.outputs(point, asked, samples)
    assert_near((outputs,), (module(inputs).detach(),), 1e-12)
    covered = [row for start, stop in asked.slices[1:] for row in range(start, stop)]
    assert covered == list(range(samples))
    sizes = [stop - start for start, stop in asked.slices[1:]]
    at_once = max(chunk, 1)  # samples larger than a chunk go one by one
    assert sizes[:-1] == [at_once] * ((samples - 1) // at_once)


def test_outputs_are_those_that_gradients_come_with():
    build, shape = SMALL["grouped"]
    for network in both_ways(build, torch.float64):
        points, inputs = points_and_inputs(network, shape, 3, 5, torch.float64)
        outputs, _ = network.gradients(points, inputs, pullback)
        for client in range(3):
            alone = network.outputs(points[client], inputs[client].__getitem__, 5)
            np.testing.assert_allclose(outputs[client], alone, rtol=0, atol=1e-14)


@given(
    height=st.integers(2, 7),
    width=st.integers(2, 7),
    options=st.sampled_from([{}, {"stride": 1}, {"padding": 1}, {"ceil_mode": True}]),
    last=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_pooling_without_gradients_is_torchs(height, width, options, last, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(-3, 3, (2, 3, height, width), generator=generator).float()
    images[images == 2] = torch.nan
    if last:
        images = images.to(memory_format=torch.channels_last)
    pool = nn.MaxPool2d(2, **options)
    with torch.no_grad():
        found = forward_of(nn.Sequential(pool))({}, images)
    torch.testing.assert_close(found, pool(images), rtol=0, atol=0, equal_nan=True)
