"""ResNet-18 (He et al. 2016) with the stem for small images: 3×3, stride 1, no pooling.

The stem, GroupNorm in place of BatchNorm and torch's default initialisation are our choices. A
client's running statistics would be a second state beside its parameters, which no method here
sends or averages. The FMGDA paper names neither stem nor pre-training; the nearest public code
takes ImageNet's weights and images of 224 × 224.
11,169,345 parameters with one output and three channels.
"""

import torch
from torch import nn

from fedatlas.errors import FedatlasError

GROUPS = 32


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Four stages of two basic blocks; (n, channels, height, width) → (n, outputs)."""
    if len(shape) != 3 or min(shape[1:]) < 8:
        raise FedatlasError(
            f"network 'resnet18' takes images (channels, height, width) from 8 × 8 up, not {shape}"
        )
    stages = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [
        block
        for inputs, channels, stride in stages
        for block in (_Block(inputs, channels, stride), _Block(channels, channels, 1))
    ]
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 3, padding=1, bias=False),
        nn.GroupNorm(GROUPS, 64),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, outputs),
    )


class _Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut, which is a 1×1 convolution where shapes differ."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, channels, 3, stride=stride, padding=1, bias=False),
            nn.GroupNorm(GROUPS, channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.GroupNorm(GROUPS, channels),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, channels, 1, stride=stride, bias=False),
                nn.GroupNorm(GROUPS, channels),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))
