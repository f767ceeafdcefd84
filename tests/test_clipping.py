"""Clipped gradients against a plain loop over samples, and what privacy needs of them."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedatlas.architectures import architecture
from fedatlas.arithmetic import batched_network, sample_gradients
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.arithmetic.sample_gradients import is_chain
from fedatlas.arithmetic.samples import Clipping

CPU = torch.device("cpu")
ORDERS = {"l1": 1, "l2": 2}

pytestmark = pytest.mark.usefixtures("one_thread")

both_norms = pytest.mark.parametrize("norm", ORDERS)


class Scaled(nn.Module):
    """One weight used twice, and parameters without a dimension and with a single one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.last = nn.Linear(4, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.scale * torch.tanh(self.second(torch.tanh(self.first(x)))))


class Residual(nn.Module):
    """A block as those of ResNet-18, with GroupNorm and a strided shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False),
            nn.GroupNorm(2, 4),
            nn.ReLU(inplace=True),
            nn.Conv2d(4, 4, 3, padding=1, bias=False),
            nn.GroupNorm(4, 4),
        )
        self.shortcut = nn.Sequential(nn.Conv2d(2, 4, 1, stride=2), nn.GroupNorm(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def residual() -> nn.Module:
    return nn.Sequential(Residual(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


class Odd(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).flip(-1)


def with_more() -> nn.Linear:
    layer = nn.Linear(3, 3)
    layer.register_parameter("more", nn.Parameter(torch.ones(3)))
    return layer


def tied() -> nn.Sequential:
    layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    layers[2].weight = layers[0].weight
    return layers


# Almost chains of layers.
OTHERS = {
    "tied": tied,
    "twice": lambda: nn.Sequential(layer := nn.Linear(3, 3), nn.Tanh(), layer),
    "odd": lambda: nn.Sequential(Odd(3, 3), nn.Tanh()),
    "in place": lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 2)),
    "groups": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 1, 1)), nn.Conv2d(3, 3, 1, groups=3), nn.Flatten()
    ),
    "layer norm": lambda: nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)),
    "inside": lambda: nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.Tanh())),
}

# How to build a network, and the shape of its samples.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(3, 2), (3,)),
    "dense": (lambda: nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3)), (3,)),
    "scaled": (Scaled, (4,)),
    "residual": (residual, (2, 6, 6)),
    "cnn_8x8": (lambda: architecture("cnn_8x8")((1, 8, 8), 10), (1, 8, 8)),
    # Dense layers at several places, and all that a convolution may do in a chain.
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(2, 1), bias=False),
            nn.ReLU(),
            nn.Linear(4, 2),
            nn.Tanh(),
            nn.Conv2d(3, 2, 1),
            nn.Flatten(),
            nn.Linear(24, 3, bias=False),
        ),
        (2, 6, 6),
    ),
    # Not a chain, but a sequence of one.
    "cnn_8x8 inside": (
        lambda: nn.Sequential(architecture("cnn_8x8")((1, 8, 8), 10)),
        (1, 8, 8),
    ),
    "cnn_28x28": (lambda: architecture("cnn_28x28")((1, 28, 28), 10), (1, 28, 28)),
}
SMALL = [name for name in NETWORKS if name != "cnn_28x28"]
NETWORKS |= {name: (build, (3,)) for name, build in OTHERS.items()}


class Case:
    """Points and inputs at random; each sample's loss is its weight times Σ sin(outputs)."""

    def __init__(
        self, name: str, clients: int, batch: int, seed: int = 0, dtype: torch.dtype = torch.float64
    ) -> None:
        self.build, shape = NETWORKS[name]
        generator = torch.Generator().manual_seed(seed)
        network = BatchedNetwork(self.build, CPU, dtype)
        noise = torch.randn(clients, network.dimension, generator=generator, dtype=dtype)
        self.points = network.initial(1) + 0.01 * noise
        # Of very different sizes, and so are the gradients.
        sizes = 10 ** torch.rand(clients, batch, generator=generator, dtype=dtype)
        self.inputs = torch.randn(clients, batch, *shape, generator=generator, dtype=dtype)
        self.inputs *= sizes.reshape(clients, batch, *[1 for _ in shape])
        self.weight = torch.randn(clients, batch, generator=generator, dtype=dtype)
        self.share = torch.full((clients, batch), 1 / batch, dtype=dtype)
        self.dtype = dtype

    def pullback(self, outputs: torch.Tensor, clients: slice, samples: slice) -> torch.Tensor:
        """Of each sample's own loss."""
        return self.weight[clients, samples].unsqueeze(-1) * outputs.cos()

    def clipped(self, clipping: Clipping) -> tuple[torch.Tensor, torch.Tensor]:
        network = BatchedNetwork(self.build, CPU, self.dtype)
        return network.clipped_gradients(
            self.points, self.inputs, self.pullback, clipping, self.share
        )

    def plain(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs (S, b, k) and every sample's gradient (S, b, d), by autograd alone."""
        module = self.build().to(self.dtype)
        parameters = list(module.parameters())
        all_outputs, gradients = [], []
        for point, inputs, weights in zip(self.points, self.inputs, self.weight, strict=True):
            nn.utils.vector_to_parameters(point, parameters)
            for sample, weight in zip(inputs, weights, strict=True):
                outputs = module(sample[None])
                parts = torch.autograd.grad(weight * outputs.sin().sum(), parameters)
                all_outputs.append(outputs.detach()[0])
                gradients.append(torch.cat([part.reshape(-1) for part in parts]))
        sizes = self.inputs.shape[:2]
        return (
            torch.stack(all_outputs).unflatten(0, sizes),
            torch.stack(gradients).unflatten(0, sizes),
        )


def norms(gradients: torch.Tensor, norm: str) -> np.ndarray:
    return np.linalg.norm(gradients.double().numpy(), ord=ORDERS[norm], axis=-1)


def clipped_sum(gradients: torch.Tensor, clipping: Clipping, share: torch.Tensor) -> np.ndarray:
    """Σ_j share_j · clip(g_j), sample by sample."""
    total = np.zeros((len(gradients), gradients.shape[-1]))
    for client, own in enumerate(gradients.double().numpy()):
        for gradient, counts in zip(own, share[client].double().numpy(), strict=True):
            size = np.linalg.norm(gradient, ord=ORDERS[clipping.norm])
            total[client] += counts * gradient * (min(1, clipping.bound / size) if size else 1)
    return total


def assert_near(actual: torch.Tensor, expected: object, relative: float) -> None:
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    assert not actual.requires_grad
    np.testing.assert_allclose(actual, expected, rtol=0, atol=relative * np.abs(expected).max())


def assert_agrees(case: Case, norm: str, quantile: float, relative: float) -> None:
    """With a bound at that quantile of the norms, by which some are cut and others are not."""
    outputs, gradients = case.plain()
    bound = float(np.quantile(norms(gradients, norm), quantile))
    clipping = Clipping(norm, bound)
    ours = case.clipped(clipping)
    assert all(part.dtype == case.dtype for part in ours)
    assert_near(ours[0], outputs, relative)
    assert_near(ours[1], clipped_sum(gradients, clipping, case.share), relative)


# ----------------------------------------------------------------------- against a plain loop


@both_norms
@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=4, deadline=None)
@given(
    clients=st.integers(1, 3),
    batch=st.integers(1, 5),
    quantile=st.floats(0, 1),
    seed=st.integers(0, 100),
)
def test_small_networks(name, norm, clients, batch, quantile, seed):
    assert_agrees(Case(name, clients, batch, seed), norm, quantile, 1e-12)


@both_norms
@pytest.mark.parametrize(("dtype", "relative"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_cnn_of_mnist(norm, dtype, relative):
    assert_agrees(Case("cnn_28x28", 2, 4, dtype=dtype), norm, 0.5, relative)


@both_norms
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 100), drawn=st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_shares_count_and_samples_of_share_0_do_not(norm, seed, drawn):
    """Whatever they are, even if no network can take them; a client may be without any samples."""
    case = Case("dense", len(drawn), 4, seed)
    size = torch.tensor(drawn)[:, None]
    case.share = (torch.arange(4) < size) / size.clamp(min=1).double()
    case.share[0] *= 3
    _, gradients = case.plain()
    clipping = Clipping(norm, float(norms(gradients, norm).mean()))
    expected = clipped_sum(gradients, clipping, case.share)
    case.inputs[case.share == 0] = 1e308  # overflows
    outputs, ours = case.clipped(clipping)
    assert_near(ours, expected, 1e-12)
    assert outputs.shape == (len(drawn), 4, 3)


def test_clients_may_share_a_point_as_a_view():
    case = Case("cnn_8x8", 3, 2)
    clipping = Clipping("l2", 1.0)
    case.points = case.points[:1].repeat(3, 1)
    expected = case.clipped(clipping)[1]
    case.points = torch.cat([case.points[0], torch.tensor([7.0, 8.0])]).expand(3, -1)[:, :-2]
    before = case.points.clone(), case.inputs.clone()
    ours = case.clipped(clipping)[1]
    assert torch.equal(ours, expected)
    assert ours.is_contiguous()
    assert torch.equal(case.points, before[0])
    assert torch.equal(case.inputs, before[1])


# --------------------------------------------------------------------------- which way is taken


@both_norms
@pytest.mark.parametrize("name", OTHERS)
def test_what_looks_like_a_chain_has_right_gradients_too(name, norm):
    assert not is_chain(NETWORKS[name][0]())
    assert_agrees(Case(name, 2, 4), norm, 0.5, 1e-12)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 2, 3, groups=2),
        nn.Conv2d(2, 2, 3, padding="same"),
        nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"),
        nn.Conv1d(2, 2, 3),
        nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
        with_more(),
    ],
)
def test_layers_that_chains_may_not_have(layer):
    assert not is_chain(nn.Sequential(layer))


@pytest.mark.parametrize("name", ["cnn_8x8", "cnn_28x28", "images", "dense"])
def test_chains(name):
    assert is_chain(NETWORKS[name][0]())


# ------------------------------------------------------------------------ what clipping means


@both_norms
@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=8, deadline=None)
@given(
    bound=st.floats(1e-6, 1e3),
    seed=st.integers(0, 100),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_no_clipped_gradient_exceeds_the_bound(name, norm, bound, seed, dtype):
    case = Case(name, 3, 1, seed, dtype)
    _, ours = case.clipped(Clipping(norm, bound))
    sizes = norms(ours, norm)
    _, gradients = case.plain()
    expected = np.minimum(norms(gradients[:, 0], norm), bound)
    single = dtype == torch.float32
    np.testing.assert_allclose(sizes, expected, rtol=1e-3 if single else 1e-11)
    assert (sizes <= bound * (1 + (1e-5 if single else 1e-13))).all()


@both_norms
@pytest.mark.parametrize("in_chain", [False, True])
def test_norms_of_many_numbers_are_exact_enough_to_keep_the_bound(norm, in_chain):
    """Two million numbers of float32, of which one sum after the other is wrong by 1e-3."""
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(2000, 1000, bias=False)
    network = BatchedNetwork(lambda: nn.Sequential(layer) if in_chain else layer, CPU)
    inputs = torch.randn(1, 1, 2000, generator=generator)
    slopes = torch.randn(1, 1, 1000, generator=generator)
    _, gradients = network.clipped_gradients(
        torch.zeros(1, network.dimension),
        inputs,
        lambda *_: slopes,
        Clipping(norm, 1.0),
        torch.ones(1, 1),
    )
    np.testing.assert_allclose(norms(gradients, norm), 1, rtol=1e-5)


@both_norms
@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=8, deadline=None)
@given(
    batch=st.integers(1, 5), bound=st.floats(1e-6, 1e3), seed=st.integers(0, 100), data=st.data()
)
def test_replacing_a_sample_moves_the_mean_by_two_bounds_at_most(
    name, norm, batch, bound, seed, data
):
    case, clipping = Case(name, 2, batch, seed), Clipping(norm, bound)
    _, before = case.clipped(clipping)
    row = data.draw(st.integers(0, batch - 1))
    case.inputs[0, row] = data.draw(st.sampled_from([-1.0, 0.0, 1e3])) * case.inputs[1, row]
    case.weight[0, row] *= -3
    _, after = case.clipped(clipping)
    assert torch.equal(before[1], after[1])
    assert norms(after[0] - before[0], norm) <= 2 * bound / batch * (1 + 1e-12)


@both_norms
def test_opposite_gradients_differ_by_two_bounds(norm):
    """The bound is met, so nothing is cut by more than it says."""
    network = BatchedNetwork(lambda: nn.Linear(3, 2), CPU, torch.float64)
    inputs = torch.ones(1, 4, 3, dtype=torch.float64)
    slopes = torch.ones(1, 4, 2, dtype=torch.float64)
    means = []
    for sign in (1, -1):
        slopes[0, 2] = sign * torch.tensor([5.0, -7.0])
        _, mean = network.clipped_gradients(
            torch.zeros(1, 8, dtype=torch.float64),
            inputs,
            lambda outputs, clients, samples: slopes[clients, samples],
            Clipping(norm, 0.25),
            torch.full((1, 4), 0.25, dtype=torch.float64),
        )
        means.append(mean)
    np.testing.assert_allclose(norms(means[0] - means[1], norm), 2 * 0.25 / 4, rtol=1e-12)


@both_norms
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zero_gradients_stay_zero(norm, dtype):
    case = Case("residual", 2, 3, dtype=dtype)
    plain = case.pullback
    case.pullback = lambda *seen: 0 * plain(*seen)
    outputs, ours = case.clipped(Clipping(norm, 1e-3))
    assert outputs.isfinite().all()
    assert torch.equal(ours, torch.zeros_like(case.points))


# ------------------------------------------------------------------------------------- chunks


@both_norms
@settings(max_examples=10, deadline=None)
@given(batch=st.integers(1, 9), chunk=st.integers(0, 10), spare=st.integers(0, 22))
def test_chunks_change_nothing_and_hold_no_more_than_they_may(norm, batch, chunk, spare):
    case, clipping = Case("scaled", 2, batch), Clipping(norm, 0.5)
    case.share[1, 0] = 0
    expected = case.clipped(clipping)
    # Each sample has 4 numbers and a gradient of 33.
    assert case.points.shape[1] == 16 + 4 + 4 + 1 + 8
    held: list[int] = []

    def counted(
        gradients: list[sample_gradients.SampleGradients], clipping: Clipping, share: torch.Tensor
    ) -> torch.Tensor:
        held.append(len(share))
        return sample_gradients.clipped_sum(gradients, clipping, share)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(batched_network._HELD, "cpu", 37 * chunk + spare)
        patch.setattr(batched_network, "clipped_sum", counted)
        ours = case.clipped(clipping)
    for part, whole in zip(ours, expected, strict=True):
        assert_near(part, whole, 1e-12)
    assert sum(held) == 2 * batch - 1
    assert max(held) == min(max(chunk, 1), batch)


def test_methods_name_clippings_without_torch():
    code = "import sys, fedatlas.arithmetic.samples; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
