"""ResNet-18 (He et al. 2016) with the stem for small images: 3×3, stride 1, no pooling.

The stem, GroupNorm in place of BatchNorm and torch's default initialisation are our choices. A
client's running statistics would be a second state beside its parameters, which only tiered methods
send and average. The FMGDA paper names neither stem nor pre-training; the nearest public code
takes ImageNet's weights and images of 224 × 224.
11,169,345 parameters with one output and three channels.
"""

from torch import nn

from fedatlas.architectures._resnet import check_image, stages

GROUPS = 32


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Four stages of two basic blocks; (n, channels, height, width) → (n, outputs)."""
    check_image("resnet18", shape, 8)
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 3, padding=1, bias=False),
        nn.GroupNorm(GROUPS, 64),
        nn.ReLU(),
        *stages(lambda channels: nn.GroupNorm(GROUPS, channels)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, outputs),
    )
