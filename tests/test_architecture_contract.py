"""What a network's file must keep to: faults are named by the trial, before torch trips over them.

Every network here is written to a folder of its own as a user would add it.
"""

import sys

import pytest
import torch

from fedatlas import architectures
from fedatlas.architectures import architecture, architecture_names, checked_build
from fedatlas.arithmetic.batched_network import BatchedNetwork
from fedatlas.errors import FedatlasError

SHAPE = (1, 4, 4)
HEADER = """
import torch
from torch import nn


def build(shape, outputs):
    wide = nn.Linear(16, 8)
    last = nn.Linear(8, outputs)
"""

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Writes a network's file; what `build` returns is written after two layers of its own."""
    monkeypatch.setattr(architectures, "__path__", [*architectures.__path__])
    added = []

    def write(name: str, result: str, header: str = HEADER) -> str:
        folder = tmp_path / name  # names in a folder are listed once
        folder.mkdir()
        (folder / f"{name}.py").write_text(f"{header}    {result}\n")
        architectures.__path__.append(str(folder))
        added.append(f"{architectures.__name__}.{name}")
        return name

    yield write
    for module in added:
        sys.modules.pop(module, None)
        vars(architectures).pop(module.rsplit(".", 1)[1], None)


def chain(*layers: str) -> str:
    return f"return nn.Sequential(nn.Flatten(), {', '.join(layers)})"


# ------------------------------------------------------------------------------ without fault


@pytest.mark.parametrize(
    "result",
    [
        chain("wide", "nn.ReLU()", "last"),
        chain("wide", "nn.LayerNorm(8)", "last"),
        chain("nn.Linear(16, 16)", "nn.Unflatten(1, (4, 4))", "nn.GroupNorm(2, 4)", "nn.Flatten()",
              "nn.Linear(16, outputs)"),
        chain("wide", "nn.Dropout(0.0)", "last"),
        chain("wide", "nn.Softmax(1)", "last"),
        chain("wide", "nn.Sigmoid()", "last"),
        chain("wide", "last", "nn.Softplus()"),
        chain("wide", "last", "nn.Tanh()"),
        chain("wide", "last", "nn.ReLU()"),
        f"nn.init.zeros_(last.weight); nn.init.zeros_(last.bias); {chain('wide', 'last')}",
        chain("nn.utils.parametrizations.weight_norm(wide)", "last"),
        f"{chain('wide', 'last')}.double()",
    ],
)  # fmt: skip
def test_networks_that_keep_to_the_rules_pass(add, result):
    name = add("fine", result)
    for outputs in (1, 3):
        assert isinstance(checked_build(name, SHAPE, outputs)(), torch.nn.Module)


def test_the_trial_leaves_no_trace(add):
    name = add("plain", chain("wide", "nn.Tanh()", "last"))
    torch.manual_seed(3)
    expected = [parameter.clone() for parameter in architecture(name)(SHAPE, 2).parameters()]
    torch.manual_seed(3)
    build = checked_build(name, SHAPE, 2)
    found = build()
    assert all(map(torch.equal, expected, found.parameters()))
    assert all(parameter.grad is None for parameter in found.parameters())
    assert build() is not found


# ------------------------------------------------------------------------------ faulty ones

MODULE = """
import random

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.last = nn.Linear(16, outputs)
        {constant}

    def forward(self, x):
        {forward}


def build(shape, outputs):
    return Network(outputs)
"""
MASKED = "return self.last(x.flatten(1) * self.mask)"


def module(forward: str, constant: str = "") -> str:
    return MODULE.format(forward=forward, constant=constant)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("return nn.Sequential(nn.Flatten(), nn.Linear(16, 10))",
         r"gives outputs of shape \(2, 10\) for samples .* \(2, 1, 4, 4\), expected \(2, 3\)$"),
        (chain("wide", "nn.Linear(8, 1)", "nn.Flatten(0)"), r"shape \(2,\) .* expected \(2, 3\)"),
        (chain("nn.Linear(64, outputs)"), r"not take float32 samples.* \(2, 1, 4, 4\): mat1"),
        ("return nn.Conv2d(3, 3, 3)", r"does not take float32 samples of shape \(2, 1, 4, 4\): "),
        (chain("wide", "nn.Dropout(0.5)", "last"), "draws random numbers in its forward pass"),
        (chain("wide", "nn.ReLU()", "nn.Dropout(0.01)", "last"), "draws random numbers"),
        (chain("wide", "nn.RReLU()", "last"), "draws random numbers in its forward pass"),
        (chain("wide", "nn.AlphaDropout(0.1)", "last"), "draws random numbers"),
        (chain("wide", "nn.BatchNorm1d(8, track_running_stats=False)", "last"), "not take .*1 val"),
        ("return nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), wide, last)",
         "has running statistics, as BatchNorm keeps them"),
        ("return nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten(), wide, "
         "last)", "gives a sample other outputs alone than beside another"),
        (chain("wide", "last", "nn.Softmax(0)"), "other outputs alone than beside another"),
        ("return nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(outputs))", "has no parameters"),
        ("network = nn.Sequential(nn.Flatten(), wide, last); wide.spare = nn.Linear(2, 2); "
         "return network", r"no output depends on its parameter '1\.spare\.weight'"),
        ("wide.weight.requires_grad = False; return nn.Sequential(nn.Flatten(), wide, last)",
         r"'1\.weight' is frozen"),
        ("return 'a network'", "build must return a torch.nn.Module, not str"),
        ("return nn.LSTM(4, outputs)", "not take float32 samples"),
        (chain("wide", "last", "nn.Softmax(1)"), "ends in a softmax: remove it, as objectives"),
        (chain("wide", "last", "nn.Softmin(-1)"), "ends in a softmax"),
        (chain("wide", "last", "nn.LogSoftmax(1)"), "ends in a log-softmax"),
        (chain("wide", "last", "nn.Sigmoid()"), "ends in a sigmoid"),
        (f"nn.init.zeros_(last.weight); {chain('wide', 'last', 'nn.Softmax(1)')}", "in a softmax"),
        (f"{chain('wide', 'last')}.half()", r"'1\.weight' is torch\.float16, but .* in float32"),
        (chain("wide", "last.bfloat16()"), r"'2\.weight' is torch\.bfloat16, but .* in float32"),
        (chain("wide", "nn.Dropout(0.5).eval()", "last"), r"layer '2' is in evaluation mode.*eval"),
        (f"{chain('wide', 'last')}.eval()", "it is in evaluation mode"),
        (f"nn.init.constant_(wide.bias, torch.nan); {chain('wide', 'last')}", r"'1\.bias' is NaN"),
    ],
)  # fmt: skip
def test_a_fault_is_one_clear_error(add, result, expected):
    with pytest.raises(FedatlasError, match=f"^network 'faulty'.*{expected}"):
        checked_build(add("faulty", result), SHAPE, 3)


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("return random.random() * self.last(x.flatten(1))", "draws random numbers"),
        ("return self.last(x.flatten(1) * torch.randint(0, 2, ()))", "draws random numbers"),
        ("return self.last(x.flatten(1)) - self.last(x.flatten(1)).mean(0)", "alone than beside"),
        ("return self.last(x.flatten(1)).round().long()", r"depends on .*'last\.weight'"),
        ("return self.last(x.flatten(1)).detach()", r"depends on .*'last\.weight'"),
        ("return self.last(x.flatten(1)), None", "must give a tensor, not tuple"),
        ("return self.last(x.flatten(1)).softmax(-1)", "ends in a softmax"),
        ("return nn.functional.log_softmax(self.last(x.flatten(1)), 1)", "ends in a log-softmax"),
        ("return torch.sigmoid(self.last(x.flatten(1)))", "ends in a sigmoid"),
        ("return self.last(x.flatten(1).double())", "not take float32 samples .* dtype"),
        (
            "return self.last(x.flatten(1)).half()",
            r"outputs that are torch\.float16: remove \.half",
        ),
        ("return self.last(x.flatten(1)) / 0", "gives outputs that are NaN or infinite"),
        ("return self.last(x.flatten(1)) + (x - x).log().sum()", "that are NaN or infinite"),
        ("raise NotImplementedError('not yet')", "does not take float32 samples .*: not yet"),
        ("return self.lost(x)", None),  # an error of the programmer's own keeps its traceback
    ],
)
def test_a_faulty_forward_pass_is_one_clear_error(add, forward, expected):
    name = add("faulty", "", module(forward))
    error, start = (FedatlasError, "^network 'faulty'.*") if expected else (AttributeError, "lost")
    with pytest.raises(error, match=f"{start}{expected or ''}"):
        checked_build(name, SHAPE, 2)


def test_a_network_may_take_positive_samples_only(add):
    assert checked_build(
        add("roots", "", module("return self.last(x.flatten(1).sqrt())")), SHAPE, 2
    )


def test_a_constant_buffer_is_part_of_the_network_and_not_of_its_parameters(add):
    for persistent in (True, False):
        constant = f"self.register_buffer('mask', torch.arange(16.0), persistent={persistent})"
        name = add(f"masked{persistent}", "", module(MASKED, constant))
        build = checked_build(name, SHAPE, 2)
        for vectorised in (True, False):
            network = BatchedNetwork(build, torch.device("cpu"), vectorised=vectorised)
            assert network.dimension == 16 * 2 + 2 and network.statistics == 0
            x, points = torch.randn(3, 4, 1, 4, 4), torch.randn(3, network.dimension)
            slopes = torch.randn(3, 4, 2)
            outputs, gradients = network.gradients(
                points, x, lambda _, clients, of, slopes=slopes: slopes[clients, of]
            )
            masked = x.flatten(2) * torch.arange(16.0)
            weight, bias = points[:, :32].view(3, 2, 16), points[:, None, 32:]
            torch.testing.assert_close(outputs, masked @ weight.mT + bias)
            expected = torch.cat([(slopes.mT @ masked).flatten(1), slopes.sum(1)], 1)
            torch.testing.assert_close(gradients, expected)


@pytest.mark.parametrize(
    ("constant", "forward", "expected"),
    [
        ("self.mask = torch.ones(16)", MASKED, r"attribute 'mask', which no GPU .*register_buffer"),
        ("self.mask = [torch.ones(16)] * 2", MASKED.replace("mask", "mask[1]"), "attribute 'mask'"),
        (
            "self.mask = torch.ones(16, requires_grad=True)",
            *(MASKED, r"self\.mask = nn\.Parameter\(…\) if it is to be trained"),
        ),
        (
            "self.register_buffer('seen', torch.zeros(1))",
            *("self.seen += 1; return self.last(x.flatten(1))", "changes its buffer 'seen'"),
        ),
    ],
)
def test_other_tensors_are_refused(add, constant, forward, expected):
    name = add("faulty", "", module(forward, constant))
    with pytest.raises(FedatlasError, match=f"^network 'faulty'.*{expected}"):
        checked_build(name, SHAPE, 2)


def test_a_file_without_build_is_named(add):
    name = add("empty", "pass", "def other():\n")
    assert name in architecture_names()
    with pytest.raises(FedatlasError, match=r"empty\.py: must define build\(shape, outputs\)$"):
        checked_build(name, SHAPE, 1)
    with pytest.raises(FedatlasError, match=r"unknown network '__init__'; there are: cnn_2.*empty"):
        checked_build("__init__", SHAPE, 1)
