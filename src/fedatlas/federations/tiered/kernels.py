"""Compiled gradients of clients within silos; float64 in a fixed order."""

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.formulas import (
    NONE,
    add_row,
    dot,
    loss_derivative,
    regulariser_derivative,
)


@compiled
def silo_gradients(
    indptr, indices, values, labels, rows, bounds, others, loss, regulariser, weight, points
):
    """Gradients (clients, d) of minibatches, at a point each, of margins that others add to.

    rows: (B,), client by client; bounds: (clients + 1,) where each one's begin. others: (B,) what
    is added to each row's margin. A client without rows has gradient 0.
    """
    gradients = np.zeros_like(points)
    for s in range(len(bounds) - 1):
        size = bounds[s + 1] - bounds[s]
        for t in range(bounds[s], bounds[s + 1]):
            row = rows[t]
            margin = dot(indptr, indices, values, row, points[s]) + others[t]
            slope = loss_derivative(loss, margin, labels[row])
            add_row(indptr, indices, values, row, slope / size, gradients[s])
        if regulariser != NONE and size > 0:
            for j in range(points.shape[1]):
                gradients[s, j] += regulariser_derivative(regulariser, weight, points[s, j])
    return gradients
