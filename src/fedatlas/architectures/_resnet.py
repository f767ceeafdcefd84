"""What the ResNet-18 of this folder share (He et al. 2016): four stages of two basic blocks."""

from collections.abc import Callable

import torch
from torch import nn

from fedatlas.errors import FedatlasError

#: From a number of channels to the layer that normalises them.
Norm = Callable[[int], nn.Module]


def stages(norm: Norm) -> list[nn.Module]:
    """From 64 channels to 512, at an eighth of the height and width."""
    widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    return [
        block
        for inputs, channels, stride in widths
        for block in (_Block(inputs, channels, stride, norm), _Block(channels, channels, 1, norm))
    ]


def check_image(name: str, shape: tuple[int, ...], smallest: int) -> None:
    """Refuse, with a FedatlasError, samples that are no images of at least that size."""
    if len(shape) != 3 or min(shape[1:]) < smallest:
        raise FedatlasError(
            f"network '{name}' takes images (channels, height, width) from {smallest} × {smallest} "
            f"up, not {shape}"
        )


class _Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut, which is a 1×1 convolution where shapes differ."""

    def __init__(self, inputs: int, channels: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, channels, 3, stride=stride, padding=1, bias=False),
            norm(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            norm(channels),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, channels, 1, stride=stride, bias=False),
                norm(channels),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))
