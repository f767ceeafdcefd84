"""Formulas of linear models: losses, regularisers, rows; float64 in a fixed order.

Sparse rows are CSR (indptr, indices, values).
"""

import math

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.operations import prefetch
from fedatlas.schema.objectives import Loss, Regulariser

ROBUST, LOGISTIC, SQUARE = 0, 1, 2
NONE, NONCONVEX, L2 = 0, 1, 2

LOSS_CODES = {Loss.ROBUST: ROBUST, Loss.LOGISTIC: LOGISTIC, Loss.SQUARE: SQUARE}
REGULARISER_CODES = {
    Regulariser.NONE: NONE,
    Regulariser.NONCONVEX: NONCONVEX,
    Regulariser.L2: L2,
}


@compiled(inline="always")
def loss_value(loss, margin, label):
    """Loss of one margin."""
    if loss == ROBUST:
        residual = margin - label
        return math.log1p(0.5 * residual * residual)
    if loss == LOGISTIC:
        t = -label * margin
        return max(t, 0.0) + math.log1p(math.exp(-abs(t)))
    if loss == SQUARE:
        return (margin - label) ** 2
    return math.nan


@compiled(inline="always")
def loss_derivative(loss, margin, label):
    """Derivative of the loss with respect to the margin."""
    if loss == ROBUST:
        residual = margin - label
        return residual / (1.0 + 0.5 * residual * residual)
    if loss == LOGISTIC:
        return -label / (1.0 + math.exp(min(label * margin, 700.0)))
    if loss == SQUARE:
        return 2.0 * (margin - label)
    return math.nan


@compiled(inline="always")
def regulariser_value(regulariser, weight, coordinate):
    """One coordinate's share of the weighted regulariser."""
    square = coordinate * coordinate
    if regulariser == NONCONVEX:
        return weight * square / (1.0 + square)
    if regulariser == L2:
        return weight * 0.5 * square
    return 0.0


@compiled(inline="always")
def regulariser_derivative(regulariser, weight, coordinate):
    """Derivative of the weighted regulariser in one coordinate."""
    if regulariser == NONCONVEX:
        denominator = 1.0 + coordinate * coordinate
        return weight * 2.0 * coordinate / (denominator * denominator)
    if regulariser == L2:
        return weight * coordinate
    return 0.0


# Unsigned indices cannot be negative, which numba checks at every access otherwise: the loops of
# clients take a third less time.


@compiled(inline="always")
def dot(indptr, indices, values, row, x):
    """Of a row and x."""
    total = 0.0
    for position in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        total += values[position] * x[np.uint32(indices[position])]
    return total


@compiled(inline="always")
def add_row(indptr, indices, values, row, scale, out):
    """Add the row, times `scale`, to `out`."""
    for position in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        out[np.uint32(indices[position])] += scale * values[position]


@compiled(inline="always")
def prefetch_row(indptr, indices, values, row):
    """Ask for the row's first 16 entries; the processor guesses that what follows is next."""
    first = np.uint64(indptr[row])
    prefetch(indices, first)
    prefetch(values, first)
    prefetch(values, first + np.uint64(8))


@compiled
def losses(loss, margins, labels):
    """Sum of the losses and their derivatives (n,)."""
    total = 0.0
    slopes = np.empty(len(margins))
    for row in range(len(margins)):
        total += loss_value(loss, margins[row], labels[row])
        slopes[row] = loss_derivative(loss, margins[row], labels[row])
    return total, slopes


@compiled
def penalties(regulariser, weight, x):
    """The weighted regulariser and its gradient (d,)."""
    value = 0.0
    gradient = np.empty(len(x))
    for j in range(len(x)):
        value += regulariser_value(regulariser, weight, x[j])
        gradient[j] = regulariser_derivative(regulariser, weight, x[j])
    return value, gradient


@compiled
def weighted_rows(features, weights):
    """Σ_i weights_i x_i of dense rows, (d,): like BLAS's, but the same on every machine."""
    total = np.zeros(features.shape[1])
    for row in range(len(features)):
        for j in range(len(total)):
            total[j] += weights[row] * features[row, j]
    return total
