"""The CNN for Fashion-MNIST of the FMGDA experiments, as far as it is known.

The paper names Huang et al. 2021, whose code is not public, and defers its layers to a supplement
that the text at hand lacks. These are the layers and the initialisation of the nearest public code
(a repository of Huang et al.'s second author, for a federated minimax paper of 2023); that they are
FMGDA's is inferred. One output in place of ten is ours, and by the same rule makes the last bias 1
where ten outputs would have 0.1, so that scores start high. 25,711 parameters with one output.
"""

import torch
from torch import nn

from fedatlas.errors import FedatlasError


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Two 3×3 convolutions and two dense layers; (n, 1, 28, 28) → (n, outputs)."""
    if shape != (1, 28, 28):
        raise FedatlasError(f"network 'cnn_28x28' takes samples of shape (1, 28, 28), not {shape}")
    # Pooling before the rising tanh gives the same outputs as after it, for a quarter of the work.
    network = nn.Sequential(
        nn.Conv2d(1, 5, 3),
        nn.MaxPool2d(2),
        nn.Tanh(),
        nn.Conv2d(5, 10, 3),
        nn.MaxPool2d(2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(250, 100),
        nn.Tanh(),
        nn.Linear(100, outputs),
    )
    for layer in network:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_normal_(layer.weight)
            assert layer.bias is not None
            with torch.no_grad():
                layer.bias.fill_(1 / layer.bias.numel())
    return network
