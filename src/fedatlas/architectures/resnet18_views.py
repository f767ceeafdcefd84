"""TDCD's ResNet-18 for the views of ModelNet40: the original one, with its 7×7 stem and pooling.

One output per class is ours: the public code (rpi-nsl/TDCD) leaves the 1000 outputs of a network
made for ImageNet, of which 960 stand for no class.
11,197,032 parameters with forty outputs and three channels.
"""

from torch import nn

from fedatlas.architectures._resnet import check_image, stages


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Four stages of two basic blocks; (n, channels, height, width) → (n, outputs)."""
    check_image("resnet18_views", shape, 32)
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        *stages(nn.BatchNorm2d),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, outputs),
    )
