"""Models without hidden layers: (n, *shape) → (n, outputs)."""

from math import prod

import torch
from torch import nn

from fedatlas.errors import FedatlasError


def linear(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """A linear model with intercepts; starts at zero, as convex ones may."""
    layer = nn.Linear(prod(shape), outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)


def sigmoid_unit(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """FMGDA's "simplest neural network", eq. (12): h(m, x) = m_1 · sigmoid(m_2 x), without biases.

    Its two parameters start standard normal, our choice: the paper trains nothing with it.
    """
    if shape != (1,) or outputs != 1:
        raise FedatlasError(
            f"network 'sigmoid_unit' maps one number to one, not {shape} to {outputs}"
        )
    return _SigmoidUnit()


class _SigmoidUnit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.m = nn.Parameter(torch.randn(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.m[0] * torch.sigmoid(self.m[1] * x)
