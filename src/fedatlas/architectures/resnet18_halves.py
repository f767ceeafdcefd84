"""TDCD's ResNet-18 for halves of CIFAR-10's images, as in its public code (rpi-nsl/TDCD).

The stem for small images (3×3, stride 1, no pooling), BatchNorm, and an average over 2 × 2 in place
of the whole: of 3 × 32 × 16 it leaves 512 × 2 × 1, 1024 numbers before the last layer.
11,179,082 parameters with ten outputs and three channels.
"""

from torch import nn

from fedatlas.architectures._resnet import check_image, stages


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Four stages of two basic blocks; (n, channels, height, width) → (n, outputs)."""
    check_image("resnet18_halves", shape, 16)
    height, width = (side // 16 for side in shape[1:])
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        *stages(nn.BatchNorm2d),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(512 * height * width, outputs),
    )
