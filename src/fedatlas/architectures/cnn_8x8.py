"""A small CNN for the 8 × 8 digits of the demo, ours; torch's default initialisation."""

from torch import nn

from fedatlas.errors import FedatlasError


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """One padded 3×3 convolution and two dense layers; (n, 1, 8, 8) → (n, outputs)."""
    if shape != (1, 8, 8):
        raise FedatlasError(f"network 'cnn_8x8' takes samples of shape (1, 8, 8), not {shape}")
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 32),
        nn.ReLU(),
        nn.Linear(32, outputs),
    )
