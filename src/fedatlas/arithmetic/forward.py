"""A torch module's outputs as a function of its parameters.

`torch.func.functional_call` walks over the module at every call to exchange its tensors, which
takes longer than a small layer's arithmetic. Plain chains of known layers do without: their layers
have functions of their own, which give the same bits.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

#: From parameters and running statistics by name, and samples (n, *shape), outputs (n, k).
Forward: TypeAlias = Callable[[Mapping[str, torch.Tensor], torch.Tensor], torch.Tensor]


class Step(NamedTuple):
    """A layer of a chain. apply: from inputs and the parameters of these names, its outputs."""

    layer: nn.Module
    apply: Callable[..., torch.Tensor]
    names: tuple[str, ...]


class Chain:
    """A module for which `is_chain` holds."""

    def __init__(self, module: nn.Module) -> None:
        assert isinstance(module, nn.Sequential)
        self.steps = [_step(name, layer) for name, layer in module.named_children()]

    def __call__(
        self, parameters: Mapping[str, torch.Tensor], inputs: torch.Tensor
    ) -> torch.Tensor:
        values = inputs
        for _, apply, names in self.steps:
            values = apply(values, *(parameters[name] for name in names))
        return values


def forward_of(module: nn.Module) -> Forward:
    """The function that suits the module."""
    if is_chain(module):
        return Chain(module)
    # Looking for parameters that have several names is half of a call's walk.
    tied = len(list(module.parameters())) < len(
        list(module.named_parameters(remove_duplicate=False))
    )

    def forward(state: Mapping[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = functional_call(module, dict(state), (inputs,), tie_weights=tied)
        return outputs

    return forward


def is_chain(module: nn.Module) -> bool:
    """Whether it is a sequence of layers that are known here, nothing shared."""
    if type(module) is not nn.Sequential:
        return False
    counted = sum(len(list(layer.parameters())) for layer in module)
    return counted == len(list(module.parameters())) and all(map(_is_known, module))


def _is_known(layer: nn.Module) -> bool:
    # Types themselves: a subclass may do anything.
    if type(layer) is nn.Conv2d:
        plain = layer.groups == 1 and layer.padding_mode == "zeros"
        known = plain and not isinstance(layer.padding, str)
    elif type(layer) is nn.ReLU:
        known = not layer.inplace  # which would overwrite what the layer before it made
    else:
        known = type(layer) in (nn.Linear, nn.Tanh, nn.MaxPool2d, nn.Flatten)
    names = [name for name, _ in layer.named_parameters()]
    return known and names == ["weight", "bias"][: len(names)]


def _step(name: str, layer: nn.Module) -> Step:
    names = tuple(f"{name}.{own}" for own, _ in layer.named_parameters())
    if isinstance(layer, nn.Conv2d):
        geometry = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}
        return Step(layer, partial(functional.conv2d, **geometry), names)
    if isinstance(layer, nn.MaxPool2d) and _halves(layer):
        return Step(layer, _halved, names)
    return Step(layer, functional.linear if isinstance(layer, nn.Linear) else layer, names)


def _halves(layer: nn.MaxPool2d) -> bool:
    geometry = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode)
    return geometry == (2, 2, 0, 1, False)


def _halved(values: torch.Tensor) -> torch.Tensor:
    """The largest of every 2 × 2 values, as `MaxPool2d(2)`: (…, h, w) → (…, h // 2, w // 2).

    Without gradients nobody asks where they stood: two maxima on a CPU take two thirds of the time.
    """
    if torch.is_grad_enabled() or values.is_cuda:
        return functional.max_pool2d(values, 2)
    height, width = (size // 2 * 2 for size in values.shape[-2:])
    rows = torch.maximum(values[..., 0:height:2, :width], values[..., 1:height:2, :width])
    return torch.maximum(rows[..., 0::2], rows[..., 1::2])
