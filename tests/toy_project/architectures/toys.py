"""Networks of tests, of a project that the fixture `toy_project` opens."""

import numpy as np
from torch import nn


def two_layers(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Flat parameters: W of two rows, c, V by rows, e."""
    return nn.Sequential(nn.Linear(*shape, 2), nn.Tanh(), nn.Linear(2, outputs))


def identity(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Weight · x + bias."""
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), outputs))


def normed(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """The smallest network with BatchNorm."""
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 2, 3, padding=1),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * height * width, outputs),
    )
