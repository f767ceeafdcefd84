"""ResNet-18 (He et al. 2016) in three forms: (n, channels, height, width) → (n, outputs)."""

from collections.abc import Callable

import torch
from torch import nn

from fedatlas.errors import FedatlasError

GROUPS = 32

#: From a number of channels to the layer that normalises them.
Norm = Callable[[int], nn.Module]


def resnet18(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """ResNet-18 with the stem for small images: 3×3, stride 1, no pooling.

    The stem, GroupNorm in place of BatchNorm and torch's default initialisation are our choices. A
    client's running statistics would be a second state beside its parameters, which only tiered
    methods send and average. The FMGDA paper names neither stem nor pre-training; the nearest
    public code takes ImageNet's weights and images of 224 × 224.
    11,169,345 parameters with one output and three channels.
    """
    _check_image("resnet18", shape, 8)
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 3, padding=1, bias=False),
        nn.GroupNorm(GROUPS, 64),
        nn.ReLU(),
        *_stages(lambda channels: nn.GroupNorm(GROUPS, channels)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, outputs),
    )


def resnet18_halves(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """TDCD's ResNet-18 for halves of CIFAR-10's images, as in its public code (rpi-nsl/TDCD).

    The stem for small images, BatchNorm, and an average over 2 × 2 in place of the whole: of
    3 × 32 × 16 it leaves 512 × 2 × 1, 1024 numbers before the last layer.
    11,179,082 parameters with ten outputs and three channels.
    """
    _check_image("resnet18_halves", shape, 16)
    height, width = (side // 16 for side in shape[1:])
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        *_stages(nn.BatchNorm2d),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(512 * height * width, outputs),
    )


def resnet18_views(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """TDCD's ResNet-18 for the views of ModelNet40: the original one, with 7×7 stem and pooling.

    One output per class is ours: the public code (rpi-nsl/TDCD) leaves the 1000 outputs of a
    network made for ImageNet, of which 960 stand for no class.
    11,197,032 parameters with forty outputs and three channels.
    """
    _check_image("resnet18_views", shape, 32)
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        *_stages(nn.BatchNorm2d),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, outputs),
    )


def _stages(norm: Norm) -> list[nn.Module]:
    """Four stages of two basic blocks: from 64 channels to 512, at an eighth of the height."""
    widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    return [
        block
        for inputs, channels, stride in widths
        for block in (_Block(inputs, channels, stride, norm), _Block(channels, channels, 1, norm))
    ]


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


def _check_image(name: str, shape: tuple[int, ...], smallest: int) -> None:
    if len(shape) != 3 or min(shape[1:]) < smallest:
        raise FedatlasError(
            f"network '{name}' takes images (channels, height, width) from {smallest} × {smallest} "
            f"up, not {shape}"
        )
