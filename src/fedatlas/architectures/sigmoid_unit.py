"""FMGDA's "simplest neural network", eq. (12): h(m, x) = m_1 · sigmoid(m_2 x), without biases.

Its two parameters start standard normal, our choice: the paper trains nothing with it.
"""

import torch
from torch import nn

from fedatlas.errors import FedatlasError


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """(n, 1) → (n, 1)."""
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
