"""Columns of features brought to a common scale."""

import numpy as np

#: Mean and scale of each column, as metadata keep them.
Scaling = dict[str, list[float]]


def scaling_of(features: np.ndarray, centre: bool = True) -> Scaling:
    """Mean and deviation of each column (n, d) → (d,), or 0 and root mean square without `centre`.

    The scale of a constant column is 0: rounding would leave it a tiny deviation, and blow it up.
    """
    constant = features.min(axis=0) == features.max(axis=0)
    mean = features.mean(axis=0) if centre else np.zeros(features.shape[1])
    scale = np.sqrt(((features - mean) ** 2).mean(axis=0))
    return {"mean": mean.tolist(), "scale": np.where(constant, 0.0, scale).tolist()}


def scaled(features: np.ndarray, scaling: Scaling) -> np.ndarray:
    """(features − mean) / scale by column; columns of scale 0 become 0."""
    mean, scale = np.array(scaling["mean"]), np.array(scaling["scale"])
    centred = features - mean
    return np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
