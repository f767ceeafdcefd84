"""A linear model with intercepts, of samples of any shape; starts at zero, as convex ones may."""

from math import prod

from torch import nn


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """(n, *shape) → (n, outputs)."""
    layer = nn.Linear(prod(shape), outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)
