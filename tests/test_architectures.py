"""Networks by name: sizes, shapes, initialisation, and what pooling first leaves unchanged."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedatlas import architectures
from fedatlas.architectures import architecture, architecture_names
from fedatlas.errors import FedatlasError

SHAPES = {
    "cnn_8x8": (1, 8, 8),
    "cnn_28x28": (1, 28, 28),
    "cnn_32x32": (3, 32, 32),
    "resnet18": (3, 8, 8),
    "sigmoid_unit": (1,),
}

every_network = pytest.mark.parametrize("name", SHAPES)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _own_draws():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# ------------------------------------------------------------------------------ sizes and shapes


def test_every_file_is_a_network_and_has_its_tests_here():
    assert architecture_names() == sorted(SHAPES)


def test_an_unknown_network_is_refused_with_those_there_are():
    with pytest.raises(FedatlasError, match=r"unknown network 'vgg'; there are: cnn_28x28, cnn_3"):
        architecture("vgg")
    with pytest.raises(FedatlasError, match="unknown network"):
        architecture("__init__")


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
    ],
)
def test_sizes(name, shape, outputs, parameters):
    assert size(architecture(name)(shape, outputs)) == parameters


@pytest.mark.parametrize("name", ["cnn_28x28", "cnn_32x32", "resnet18"])
def test_docstrings_state_the_sizes(name):
    text = (Path(architectures.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    shape = (3, 64, 64) if name == "resnet18" else SHAPES[name]
    assert f"{size(architecture(name)(shape, 1)):,} parameters with one" in text


@every_network
def test_outputs_are_a_row_for_each_sample_and_nothing_is_random(name):
    shape = SHAPES[name]
    outputs = 1 if name == "sigmoid_unit" else 4
    network = architecture(name)(shape, outputs)
    assert list(network.buffers()) == []
    samples = torch.randn(3, *shape)
    scores = network(samples)
    assert scores.shape == (3, outputs)
    assert torch.equal(network(samples), scores)
    alone = torch.cat([network(sample[None]) for sample in samples])  # samples do not mix
    torch.testing.assert_close(alone, scores, rtol=1e-4, atol=1e-5)
    assert all(parameter.requires_grad for parameter in network.parameters())


@every_network
def test_networks_are_drawn_by_the_global_generator(name):
    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        network = architecture(name)(SHAPES[name], 1)
        return nn.utils.parameters_to_vector(network.parameters())

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cnn_8x8", (8, 8)),
        ("cnn_8x8", (1, 8, 9)),
        ("cnn_8x8", ()),
        ("cnn_28x28", (3, 28, 28)),
        ("cnn_28x28", (784,)),
        ("cnn_28x28", (1, 32, 32)),
        ("cnn_32x32", (1, 32, 32)),
        ("cnn_32x32", (32, 32, 3)),
        ("cnn_32x32", (3, 64, 64)),
        ("resnet18", (64,)),
        ("resnet18", (3, 7, 8)),
        ("resnet18", (3, 64, 4)),
        ("resnet18", (1, 3, 8, 8)),
        ("resnet18", ()),
        ("sigmoid_unit", (2,)),
        ("sigmoid_unit", (1, 8, 8)),
        ("sigmoid_unit", ()),
    ],
)
def test_other_shapes_are_refused_by_name(name, shape):
    with pytest.raises(FedatlasError, match=f"network '{name}' ") as caught:
        architecture(name)(shape, 1)
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


def resnet_by_hand(parameters: list[torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    """He et al.'s ResNet-18 with a 3×3 stem and 32 groups, from parameters in their order."""
    waiting = iter(parameters)

    def normalised(x: torch.Tensor, stride: int, padding: int) -> torch.Tensor:
        x = F.conv2d(x, next(waiting), stride=stride, padding=padding)
        return F.group_norm(x, 32, next(waiting), next(waiting))

    x = normalised(images, 1, 1).relu()
    for channels in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if block == 0 and channels > 64 else 1
            y = normalised(x, stride, 1).relu()
            y = normalised(y, 1, 1)
            x = (y + (normalised(x, stride, 0) if stride == 2 else x)).relu()
    scores = F.linear(x.mean((2, 3)), next(waiting), next(waiting))
    assert next(waiting, None) is None
    return scores


def test_resnet18_by_hand():
    network = architecture("resnet18")((3, 16, 8), 2)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:  # scales and shifts of their own
                parameter.add_(0.1 * torch.randn_like(parameter))
        images = torch.randn(1, 3, 16, 8)
        expected = resnet_by_hand(list(network.parameters()), images)
        torch.testing.assert_close(network(images), expected, rtol=1e-3, atol=1e-4)
