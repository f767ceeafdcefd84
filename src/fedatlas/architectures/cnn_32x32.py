"""The CNN for CIFAR-10 of the FMGDA experiments, as far as it is known (see `cnn_28x28`).

torch's default initialisation, as in that code; Huang et al. state Xavier-normal weights. One
output in place of ten is ours. 581,281 parameters with one output.
"""

from torch import nn

from fedatlas.errors import FedatlasError


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Three padded 3×3 convolutions and three dense layers; (n, 3, 32, 32) → (n, outputs)."""
    if shape != (3, 32, 32):
        raise FedatlasError(f"network 'cnn_32x32' takes samples of shape (3, 32, 32), not {shape}")
    return nn.Sequential(
        *_block(3, 16),
        *_block(16, 32),
        *_block(32, 64),
        nn.Flatten(),
        nn.Linear(1024, 512),
        nn.ReLU(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, outputs),
    )


def _block(inputs: int, outputs: int) -> list[nn.Module]:
    # Pooling before ReLU gives the same outputs as after it, for a quarter of the work.
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
