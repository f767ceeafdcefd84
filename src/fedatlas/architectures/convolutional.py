"""Small convolutional networks: (n, channels, height, width) → (n, outputs).

Pooling before the rising tanh or ReLU gives the same outputs as after it, for a quarter
of the work.
"""

from itertools import pairwise

import torch
from torch import nn

from fedatlas.errors import FedatlasError


def cnn_8x8(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """A small CNN of our own for the demo's 8 × 8 digits; torch's default initialisation."""
    _require("cnn_8x8", shape, (1, 8, 8))
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 32),
        nn.ReLU(),
        nn.Linear(32, outputs),
    )


def cnn_28x28(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """The CNN for Fashion-MNIST of the FMGDA experiments, as far as it is known.

    The paper names Huang et al. 2021, whose code is not public, and defers its layers to a
    supplement that the text at hand lacks. These are the layers and the initialisation of the
    nearest public code (a repository of Huang et al.'s second author, for a federated minimax paper
    of 2023); that they are FMGDA's is inferred. One output in place of ten is ours, and by the same
    rule makes the last bias 1 where ten outputs would have 0.1, so that scores start high.
    25,711 parameters with one output.
    """
    _require("cnn_28x28", shape, (1, 28, 28))
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


def cnn_32x32(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """The CNN for CIFAR-10 of the FMGDA experiments, as far as it is known (see `cnn_28x28`).

    torch's default initialisation, as in that code; Huang et al. state Xavier-normal weights. One
    output in place of ten is ours. 581,281 parameters with one output.
    """
    _require("cnn_32x32", shape, (3, 32, 32))
    widths = (3, 16, 32, 64)
    convolutions = [
        layer
        for inputs, channels in pairwise(widths)
        for layer in (nn.Conv2d(inputs, channels, 3, padding=1), nn.MaxPool2d(2), nn.ReLU())
    ]
    return nn.Sequential(
        *convolutions,
        nn.Flatten(),
        nn.Linear(1024, 512),
        nn.ReLU(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, outputs),
    )


def cnn_strided(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """A small CNN for parts of images, our own design; torch's default initialisation.

    Strides in place of pooling: a minibatch of 2000 halves of 28 × 28 takes a CPU some 0.03 s.
    5,866 parameters with one channel of 28 × 14 and ten outputs.
    """
    if len(shape) != 3:
        raise FedatlasError(
            f"network 'cnn_strided' takes images (channels, height, width), not {shape}"
        )
    height, width = ((side + 3) // 4 for side in shape[1:])
    return nn.Sequential(
        nn.Conv2d(shape[0], 8, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * height * width, outputs),
    )


def _require(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise FedatlasError(f"network '{name}' takes samples of shape {expected}, not {shape}")
