"""Recurrent networks for time series: (n, time, features) → (n, outputs)."""

import torch
from torch import nn

from fedatlas.errors import FedatlasError


def lstm(shape: tuple[int, ...], outputs: int, hidden: int) -> nn.Module:
    """TDCD's network, as in its public code (rpi-nsl/TDCD): one LSTM layer and a dense one.

    The dense layer sees the last hidden state. The paper's hidden size is 64 / N for N silos.
    torch's default initialisation. 2,385 parameters with 19 features, 16 hidden units and one
    output.
    """
    if len(shape) != 2:
        raise FedatlasError(f"network 'lstm' takes samples of shape (time, features), not {shape}")
    return _Lstm(shape[1], hidden, outputs)


class _Lstm(nn.Module):
    def __init__(self, features: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(features, hidden, batch_first=True)
        self.dense = nn.Linear(hidden, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.recurrent(x)
        outputs: torch.Tensor = self.dense(states[:, -1])
        return outputs
