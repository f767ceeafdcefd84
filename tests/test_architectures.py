"""Networks by name: sizes, shapes, initialisation, and what pooling first leaves unchanged."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedatlas import architectures
from fedatlas.architectures import (
    architecture,
    architecture_names,
    checked_build,
    running_statistics,
)
from fedatlas.errors import FedatlasError

SHAPES = {
    "cnn_8x8": (1, 8, 8),
    "cnn_28x28": (1, 28, 28),
    "cnn_32x32": (3, 32, 32),
    "cnn_strided": (2, 7, 10),
    "linear": (2, 3),
    "lstm": (5, 3),
    "resnet18": (3, 16, 8),
    "resnet18_halves": (3, 32, 16),
    "resnet18_views": (3, 32, 48),
    "sigmoid_unit": (1,),
}
OPTIONS: dict[str, dict[str, Any]] = {"lstm": {"hidden": 4}}
NORMED = ("resnet18_halves", "resnet18_views")  # by BatchNorm, with running statistics

every_network = pytest.mark.parametrize("name", SHAPES)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _own_draws():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def built(name: str, outputs: int) -> nn.Module:
    return architecture(name)(SHAPES[name], outputs, **OPTIONS.get(name, {}))


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# ------------------------------------------------------------------------------ sizes and shapes


def test_every_file_is_a_network_and_has_its_tests_here():
    assert architecture_names() == sorted(SHAPES)


@pytest.mark.parametrize(
    ("name", "shape", "outputs", "parameters"),
    [
        ("cnn_28x28", (1, 28, 28), 1, 25_711),
        ("cnn_28x28", (1, 28, 28), 10, 26_620),
        ("cnn_32x32", (3, 32, 32), 1, 581_281),
        ("cnn_32x32", (3, 32, 32), 10, 581_866),
        ("cnn_8x8", (1, 8, 8), 1, 80 + 128 * 32 + 32 + 33),
        ("resnet18", (3, 64, 64), 1, 11_169_345),
        ("resnet18", (3, 32, 32), 10, 11_173_962),  # as with BatchNorm, known from elsewhere
        ("resnet18", (1, 28, 28), 1, 11_169_345 - 2 * 64 * 9),
        ("sigmoid_unit", (1,), 1, 2),
        ("cnn_strided", (1, 28, 14), 10, 5_866),
        ("cnn_strided", (1, 8, 4), 10, 8 * 26 + 16 * 73 + 10 * 33),
        ("cnn_strided", (3, 9, 5), 1, 8 * 76 + 16 * 73 + 16 * 3 * 2 + 1),
        ("linear", (48, 19), 1, 48 * 19 + 1),
        ("linear", (64,), 10, 650),
        # 11,173,962 with a global average before 512 inputs; here there are 1024.
        ("resnet18_halves", (3, 32, 16), 10, 11_179_082),
        ("resnet18_halves", (3, 32, 32), 10, 11_173_962 + 10 * 3 * 512),
        # torchvision's 11,689,512 with 1000 outputs, each of 512 weights and an intercept.
        ("resnet18_views", (3, 64, 64), 1000, 11_689_512),
        ("resnet18_views", (3, 224, 224), 40, 11_197_032),
        ("resnet18_views", (3, 64, 64), 40, 11_197_032),
    ],
)
def test_sizes(name, shape, outputs, parameters):
    assert size(architecture(name)(shape, outputs)) == parameters


@pytest.mark.parametrize("steps", [7, 48])
def test_sizes_of_recurrent_networks(steps):
    # TDCD's, that of one of sixteen silos, and that of a single one.
    sizes = {(19, 16): 2_385, (5, 4): 16 * (5 + 4 + 2) + 5, (76, 64): 256 * (76 + 64 + 2) + 65}
    for (features, hidden), parameters in sizes.items():
        assert size(architecture("lstm")((steps, features), 1, hidden=hidden)) == parameters


@every_network
def test_outputs_are_a_row_for_each_sample_and_nothing_is_random(name):
    shape = SHAPES[name]
    outputs = 1 if name == "sigmoid_unit" else 4
    options = {"batch_statistics": name in NORMED, **OPTIONS.get(name, {})}
    network = checked_build(name, shape, outputs, **options)()
    assert bool(list(network.buffers())) == (name in NORMED)
    samples = torch.randn(3, *shape)
    network.eval()  # which changes what BatchNorm does, and nothing else
    scores = network(samples)
    assert scores.shape == (3, outputs)
    assert torch.equal(network(samples), scores)
    alone = torch.cat([network(sample[None]) for sample in samples])  # samples do not mix
    torch.testing.assert_close(alone, scores, rtol=1e-4, atol=1e-5)
    assert all(parameter.requires_grad for parameter in network.parameters())
    together = network.train()(samples)
    assert torch.equal(network(samples), together)
    assert torch.equal(together, scores) == (name not in NORMED or name == "linear")


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "linear"])
def test_networks_are_drawn_by_the_global_generator(name):
    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return nn.utils.parameters_to_vector(built(name, 1).parameters())

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_linear_models_start_at_zero():
    network = built("linear", 3)
    assert all((parameter == 0).all() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cnn_8x8", (8, 8)),
        ("cnn_8x8", (1, 8, 9)),
        ("cnn_28x28", (3, 28, 28)),
        ("cnn_32x32", (32, 32, 3)),
        ("resnet18", (64,)),
        ("resnet18", (3, 7, 8)),
        ("cnn_strided", (28, 28)),
        ("lstm", (76,)),
        ("lstm", (1, 48, 76)),
        ("resnet18_halves", (3, 32, 15)),
        ("resnet18_views", (3, 31, 64)),
        ("sigmoid_unit", (2,)),
        ("sigmoid_unit", ()),
    ],
)
def test_other_shapes_are_refused_by_name(name, shape):
    with pytest.raises(FedatlasError, match=f"network '{name}' ") as caught:
        architecture(name)(shape, 1, **OPTIONS.get(name, {}))
    assert str(shape) in str(caught.value)


def test_the_sigmoid_unit_has_one_output():
    with pytest.raises(FedatlasError, match=r"'sigmoid_unit' maps one number to one, not .* to 2"):
        architecture("sigmoid_unit")((1,), 2)


# ------------------------------------------------------------------------------ pooling first


def in_the_papers_order(name: str) -> nn.Module:
    """Convolution, activation, pooling; parameters in the same order."""
    if name == "cnn_28x28":
        return nn.Sequential(
            nn.Conv2d(1, 5, 3), nn.Tanh(), nn.MaxPool2d(2),
            nn.Conv2d(5, 10, 3), nn.Tanh(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(250, 100), nn.Tanh(), nn.Linear(100, 1),
        )  # fmt: skip
    if name == "cnn_32x32":
        return nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 64), nn.ReLU(),
            nn.Linear(64, 1),
        )  # fmt: skip
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 1),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["cnn_8x8", "cnn_28x28", "cnn_32x32"])
def test_pooling_before_the_activation_is_pooling_after_it(name):
    ours = architecture(name)(SHAPES[name], 1).double()
    papers = in_the_papers_order(name).double()
    flat = nn.utils.parameters_to_vector(ours.parameters()).detach()
    nn.utils.vector_to_parameters(flat, papers.parameters())
    samples = torch.randn(4, *SHAPES[name], dtype=torch.float64)
    results = []
    for network in (ours, papers):
        scores = network(samples)
        scores.sin().sum().backward()
        gradient = [parameter.grad.reshape(-1) for parameter in network.parameters()]
        results.append((scores.detach(), torch.cat(gradient)))
    assert results[0][1].abs().max() > 1e-3
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


# ------------------------------------------------------------------------------ initialisation


def test_cnn_28x28_starts_xavier_normal_with_constant_biases():
    networks = [architecture("cnn_28x28")((1, 28, 28), 1) for _ in range(80)]
    fans = {0: (9, 45), 3: (45, 90), 7: (250, 100), 9: (100, 1)}
    layers = [i for i, layer in enumerate(networks[0]) if list(layer.parameters())]
    assert layers == list(fans)
    for layer, (fan_in, fan_out) in fans.items():
        weights = torch.cat([network[layer].weight.detach().ravel() for network in networks])
        deviation = (2 / (fan_in + fan_out)) ** 0.5
        error = deviation / len(weights) ** 0.5
        assert abs(weights.mean()) < 4 * error
        assert abs(weights.std() / deviation - 1) < 4 / (2 * len(weights)) ** 0.5
        kurtosis = float((weights / deviation).pow(4).mean())
        assert abs(kurtosis - 3) < 4 * (96 / len(weights)) ** 0.5  # 1.8 if it were uniform
        bias = networks[0][layer].bias.detach()
        assert torch.equal(bias, torch.full((len(bias),), 1 / len(bias)))


@pytest.mark.parametrize("name", ["cnn_8x8", "cnn_32x32"])
def test_other_networks_start_as_torch_has_it(name):
    torch.manual_seed(7)
    ours = nn.utils.parameters_to_vector(architecture(name)(SHAPES[name], 1).parameters())
    torch.manual_seed(7)
    plain = nn.utils.parameters_to_vector(in_the_papers_order(name).parameters())
    assert torch.equal(ours, plain)


def test_the_sigmoid_unit_starts_standard_normal():
    build = architecture("sigmoid_unit")
    starts = torch.stack([nn.utils.parameters_to_vector(build((1,), 1).parameters()).detach()
                          for _ in range(2000)])  # fmt: skip
    assert (starts.mean(0).abs() < 0.1).all()
    assert ((starts.std(0) - 1).abs() < 0.07).all()
    assert abs(starts.prod(1).mean()) < 0.1  # independent


# ------------------------------------------------------------------------- what they compute


def test_the_sigmoid_unit_is_equation_12():
    network = architecture("sigmoid_unit")((1,), 1)
    with torch.no_grad():
        network.m.copy_(torch.tensor([-1.5, 2.0]))
    scores = network(torch.tensor([[0.0], [1.0], [-3.0]]))
    expected = [-1.5 / (1 + 2.718281828**-z) for z in (0.0, 2.0, -6.0)]
    torch.testing.assert_close(scores.ravel(), torch.tensor(expected))


def residual_blocks(x: torch.Tensor, normalised: Any) -> torch.Tensor:
    """Eight blocks; normalised: a convolution by stride and padding with what follows it."""
    for channels in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if block == 0 and channels > 64 else 1
            y = normalised(x, stride, 1).relu()
            y = normalised(y, 1, 1)
            x = (y + (normalised(x, stride, 0) if stride == 2 else x)).relu()
    return x


def resnet_by_hand(name: str, parameters: list[torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    """He et al.'s ResNet-18 by name, from parameters in their order.

    Normalised by 32 groups, or by the minibatch for halves and views.
    """
    waiting = iter(parameters)

    def normalised(x: torch.Tensor, stride: int, padding: int) -> torch.Tensor:
        x = F.conv2d(x, next(waiting), stride=stride, padding=padding)
        scale, shift = next(waiting), next(waiting)
        if name not in NORMED:
            return F.group_norm(x, 32, scale, shift)
        mean = x.mean((0, 2, 3), keepdim=True)
        variance = ((x - mean) ** 2).mean((0, 2, 3), keepdim=True)
        return (x - mean) / (variance + 1e-5).sqrt() * scale[:, None, None] + shift[:, None, None]

    if name == "resnet18_views":
        x = F.max_pool2d(normalised(images, 2, 3).relu(), 3, stride=2, padding=1)
    else:
        x = normalised(images, 1, 1).relu()
    x = residual_blocks(x, normalised)
    if name != "resnet18_halves":
        x = x.mean((2, 3))
    else:  # an average over 2 × 2
        x = (x[..., ::2, ::2] + x[..., 1::2, ::2] + x[..., ::2, 1::2] + x[..., 1::2, 1::2]) / 4
        x = x.flatten(1)
    outputs = F.linear(x, next(waiting), next(waiting))
    assert next(waiting, None) is None
    return outputs


@pytest.mark.parametrize("name", ["resnet18", *NORMED])
def test_resnets_by_hand(name):
    network = built(name, 2).double()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:  # scales and shifts of their own
                parameter.add_(0.1 * torch.randn_like(parameter))
        images = torch.randn(2, *SHAPES[name], dtype=torch.float64)
        expected = resnet_by_hand(name, list(network.parameters()), images)
        torch.testing.assert_close(network(images), expected, rtol=1e-6, atol=1e-8)


def test_lstm_by_hand():
    """One layer from early to late with torch's order of gates; the dense layer sees the last."""
    network = built("lstm", 2).double()
    w_x, w_h, b_x, b_h, dense, intercept = (part.detach() for part in network.parameters())
    series = torch.randn(3, 5, 3, dtype=torch.float64)
    expected = []
    for steps in series:
        h, c = torch.zeros(4).double(), torch.zeros(4).double()
        for x in steps:
            take, forget, new, out = (w_x @ x + b_x + w_h @ h + b_h).split(4)
            c = torch.sigmoid(forget) * c + torch.sigmoid(take) * torch.tanh(new)
            h = torch.sigmoid(out) * torch.tanh(c)
        expected.append(dense @ h + intercept)
    torch.testing.assert_close(network(series).detach(), torch.stack(expected))


def test_cnn_strided_by_hand():
    """Strides are convolutions at every place of which every second is kept."""
    network = built("cnn_strided", 3).double()
    first, a, second, b, dense, c = (part.detach() for part in network.parameters())
    images = torch.randn(4, 2, 7, 10, dtype=torch.float64)
    x = F.conv2d(images, first, a, padding=2)[..., ::2, ::2].relu()
    x = F.conv2d(x, second, b, padding=1)[..., ::2, ::2].relu()
    assert x.shape[1:] == (16, 2, 3)
    torch.testing.assert_close(network(images).detach(), x.flatten(1) @ dense.T + c)


# ---------------------------------------------------- running statistics and hidden units


def register(monkeypatch, build) -> str:
    """The function as the network `own`."""
    monkeypatch.setattr(architectures, "architecture", lambda name: build)
    return "own"


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.seen += 1
        return x


def normalised_by(layer: nn.Module):
    """Networks in which the layer normalises two channels, in two places of every sample."""
    return lambda shape, outputs: nn.Sequential(
        nn.Sequential(nn.Unflatten(1, (1, *shape)), nn.Conv1d(1, 2, 2)),
        layer,
        nn.Flatten(),
        nn.Linear(2 * (shape[0] - 1), outputs),
    )


@pytest.mark.parametrize("name", NORMED)
def test_running_statistics_are_a_mean_and_a_variance_of_each_layer(name):
    network = built(name, 2)
    found = running_statistics(network)
    assert len(found) == 2 * 20  # a stem, sixteen convolutions and three shortcuts
    assert sum(part.numel() for part in found.values()) == 9_600
    layers = [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]
    assert all(layer.momentum == 0.1 for layer in layers)
    for own, kind in ((0, "running_mean"), (1, "running_var")):
        parts = [part for key, part in found.items() if key.endswith(f".{kind}")]
        assert len(parts) == 20
        assert all((part == own).all() for part in parts)


def test_networks_with_running_statistics_are_for_methods_that_carry_them(monkeypatch):
    name = register(monkeypatch, normalised_by(nn.BatchNorm1d(2)))
    with pytest.raises(FedatlasError, match=r"^network 'own': has running statistics.*GroupNorm"):
        checked_build(name, (3,), 4)
    network = checked_build(name, (3,), 4, batch_statistics=True)()
    assert network.training
    assert network(torch.zeros(2, 3)).shape == (2, 4)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda: nn.BatchNorm1d(2, track_running_stats=False), "other outputs alone than beside"),
        (lambda: nn.BatchNorm1d(2, momentum=None), r"the buffer '1\.running_mean' of a Batch"),
        (
            lambda: nn.InstanceNorm1d(2, track_running_stats=True),
            r"changes its buffer '1\.running_mean'",
        ),
        (lambda: nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5)), "draws random numbers"),
        (Counting, r"changes its buffer '1\.seen' in its forward pass"),
    ],
)
def test_other_states_are_refused_wherever_batch_statistics_are_allowed(
    layer, message, monkeypatch
):
    name = register(monkeypatch, normalised_by(layer()))
    with pytest.raises(FedatlasError, match=message):
        checked_build(name, (3,), 1, batch_statistics=True)


def test_hidden_units_go_to_networks_that_take_them_and_to_no_other(monkeypatch):
    assert size(checked_build("lstm", (5, 3), 2, hidden=6)()) == 4 * 6 * (3 + 6 + 2) + 2 * 7
    with pytest.raises(FedatlasError, match=r"'lstm' needs 'hidden', the number of hidden units$"):
        checked_build("lstm", (5, 3), 2)
    with pytest.raises(FedatlasError, match="'linear' takes no 'hidden', the number of hidden"):
        checked_build("linear", (5, 3), 2, hidden=6)

    def build(shape, outputs, hidden):
        return nn.Sequential(nn.Linear(*shape, hidden), nn.Tanh(), nn.Linear(hidden, outputs))

    assert size(checked_build(register(monkeypatch, build), (3,), 1, hidden=5)()) == 26


def test_a_single_sample_must_do_where_batches_are_normalised():
    # A map of 1 × 1 leaves one number per channel, of which there is no variance.
    with pytest.raises(
        FedatlasError, match=r"not take float32 samples of shape \(1, 3, 32, 32\): .*1 val"
    ):
        checked_build("resnet18_views", (3, 32, 32), 4, batch_statistics=True)
    checked_build("resnet18_views", (3, 33, 33), 4, batch_statistics=True)
