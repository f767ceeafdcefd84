"""A torch module's outputs as a function of its parameters, and every sample's own gradient.

`torch.func.functional_call` walks over the module at every call to exchange its tensors, which
takes longer than a small layer's arithmetic. Plain chains of known layers do without: their layers
have functions of their own, which give the same bits.

Gradients of samples come in two ways with the same numbers, up to rounding: one call of
`torch.func` for any module; for chains one pass for all samples and each layer's closed form, in a
third to two thirds of that call's time (benchmarks/clipping.py). In a chain the gradient of a dense
layer is an outer product, whose norm needs none of its entries.

`parameters` are a module's by name; slopes (n, k) are those of the samples' losses with respect to
their outputs. Samples must not influence each other in the module's forward pass.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import torch
from torch import nn
from torch.func import functional_call, vjp, vmap
from torch.nn import functional
from torch.nn.functional import unfold

from fedatlas.arithmetic.samples import Clipping

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

    Without gradients nobody asks where they stood: two maxima on a CPU take a third of the time.
    """
    if torch.is_grad_enabled() or values.is_cuda:
        return functional.max_pool2d(values, 2)
    height, width = (size // 2 * 2 for size in values.shape[-2:])
    rows = torch.maximum(values[..., 0:height:2, :width], values[..., 1:height:2, :width])
    return torch.maximum(rows[..., 0::2], rows[..., 1::2])


@dataclass(frozen=True)
class Stacked:
    """Gradients of n samples with respect to one parameter, values: (n, *shape)."""

    values: torch.Tensor

    def norms(self, order: int) -> torch.Tensor:
        """The norm of each sample's gradient, (n,)."""
        # A CPU adds a norm's terms one after the other: of two million float32 numbers the l1 norm
        # came out 0.3 % short, by which a clipped gradient would exceed its bound. So: row by row.
        rows = _norm(self.values.reshape(*self.values.shape[:2], -1), order)
        return _norm(rows.reshape(len(rows), -1), order)

    def weighted_sum(self, weights: torch.Tensor) -> torch.Tensor:
        """Σ_j weights_j g_j, flat."""
        return weights @ self.values.reshape(len(self.values), -1)


@dataclass(frozen=True)
class Outer:
    """Likewise, as outer products of the rows of left, (n, a), and right, (n, b)."""

    left: torch.Tensor
    right: torch.Tensor

    def norms(self, order: int) -> torch.Tensor:
        """The norm of each sample's gradient, (n,)."""
        return _norm(self.left, order) * _norm(self.right, order)

    def weighted_sum(self, weights: torch.Tensor) -> torch.Tensor:
        """Σ_j weights_j g_j, (a b,)."""
        return ((weights.unsqueeze(1) * self.left).T @ self.right).reshape(-1)


#: Of all samples with respect to one parameter.
SampleGradients: TypeAlias = Stacked | Outer


def clipped_sum(
    gradients: Sequence[SampleGradients], clipping: Clipping, share: torch.Tensor
) -> torch.Tensor:
    """Σ_j share_j · clip(g_j), (d,), of gradients by parameter; share: (n,).

    A clipped gradient is within the bound up to the rounding of the dtype.
    """
    order = clipping.order
    by_parameter = torch.stack([gradient.norms(order) for gradient in gradients], dim=1)
    # A gradient of zero is kept as it is: bound / 0 is infinite, and cut to 1.
    kept = (clipping.bound / _norm(by_parameter, order)).clamp(max=1)
    return torch.cat([gradient.weighted_sum(kept * share) for gradient in gradients])


def leaves(parameters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies that autograd differentiates; through views of a flat vector it would add zeros."""
    return {name: part.detach().requires_grad_() for name, part in parameters.items()}


def pulled_back(
    outputs: torch.Tensor, of: Sequence[torch.Tensor], slopes: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The gradients of ⟨slopes, outputs⟩ with respect to some tensors."""
    # Slopes as `grad_outputs` give the same bits, but torch then loads sympy: half a second a job.
    return torch.autograd.grad((slopes * outputs).sum(), of)


class AllAtOnce:
    """Gradients by one call of `torch.func` for all samples."""

    def __init__(
        self, forward: Forward, parameters: dict[str, torch.Tensor], inputs: torch.Tensor
    ) -> None:
        self._forward, self._parameters, self._inputs = forward, parameters, inputs

    def of(self, slopes: torch.Tensor) -> list[SampleGradients]:
        """The gradients, by parameter."""

        def of_sample(sample: torch.Tensor, slope: torch.Tensor) -> dict[str, torch.Tensor]:
            def alone(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
                return self._forward(parameters, sample[None])[0]

            _, backward, *_ = vjp(alone, self._parameters)
            gradients: dict[str, torch.Tensor] = backward(slope)[0]
            return gradients

        gradients = vmap(of_sample)(self._inputs, slopes)
        return [Stacked(gradients[name]) for name in self._parameters]


class ByLayers:
    """Gradients by one pass of all samples through a chain, and each layer's closed form."""

    def __init__(
        self, chain: Chain, parameters: dict[str, torch.Tensor], inputs: torch.Tensor
    ) -> None:
        own = leaves(parameters)
        self._layers: list[tuple[nn.Module, torch.Tensor, torch.Tensor]] = []
        values = inputs
        for layer, apply, names in chain.steps:
            made = apply(values, *(own[name] for name in names))
            if names:
                self._layers.append((layer, values.detach(), made))
            values = made
        self._outputs = values

    @property
    def outputs(self) -> torch.Tensor:
        """(n, k)."""
        return self._outputs.detach()

    def of(self, slopes: torch.Tensor) -> list[SampleGradients]:
        """The gradients, by parameter; to be asked for once."""
        of_outputs = pulled_back(self._outputs, [made for *_, made in self._layers], slopes)
        return [
            gradient
            for (layer, given, _), slope in zip(self._layers, of_outputs, strict=True)
            for gradient in _of_layer(layer, given, slope)
        ]


def _of_layer(
    layer: nn.Module, given: torch.Tensor, slope: torch.Tensor
) -> Iterator[SampleGradients]:
    """Yield those of weight and bias; slope: with respect to the layer's outputs."""
    if isinstance(layer, nn.Conv2d):
        padding = layer.padding
        assert not isinstance(padding, str)
        patches = unfold(given, layer.kernel_size, layer.dilation, padding, layer.stride)
        slope = slope.flatten(2)  # (n, channels, places)
        yield Stacked(torch.bmm(slope, patches.transpose(1, 2)))
        of_bias = slope.sum(2)
    elif given.dim() == 2:
        yield Outer(slope, given)
        of_bias = slope
    else:  # dense along the last axis at several places
        slope, given = slope.flatten(1, -2), given.flatten(1, -2)
        yield Stacked(torch.bmm(slope.transpose(1, 2), given))
        of_bias = slope.sum(1)
    if layer.bias is not None:
        yield Stacked(of_bias)


def _norm(values: torch.Tensor, order: int) -> torch.Tensor:
    """Over the last axis."""
    norm: torch.Tensor = torch.linalg.vector_norm(values, order, dim=-1)
    return norm
