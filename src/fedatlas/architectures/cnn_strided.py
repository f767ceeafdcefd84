"""A small CNN for images and parts of images, ours; torch's default initialisation.

Strides in place of pooling: a minibatch of 2000 halves of 28 × 28 takes a CPU some 0.03 s.
5,866 parameters with one channel of 28 × 14 and ten outputs.
"""

from torch import nn

from fedatlas.errors import FedatlasError


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Two convolutions, 5×5 and 3×3, and a dense layer; (n, channels, height, width) → (n, k)."""
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
