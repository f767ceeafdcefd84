"""Compiled loops over sparse rows: margins, gradients and local steps of linear models.

Rows are CSR (indptr, indices, values), ordered by client; `offsets[i]:offsets[i+1]` are client i's
rows. A minibatch is an array of row numbers (clients, steps, size); an empty one means every
client's whole local data set at every step. All arithmetic is float64 in a fixed order: results
do not depend on threads.
"""

import math

import numpy as np
from numba import njit

from fedatlas.objectives import Loss, Regulariser

# Compiled code is cached by this file's time stamp alone: no constant of it may come from another
# file, or an edit there would run old code.
_ROBUST, _LOGISTIC, _SQUARE = 0, 1, 2
_NONE, _NONCONVEX, _L2 = 0, 1, 2

LOSS_CODES = {Loss.ROBUST: _ROBUST, Loss.LOGISTIC: _LOGISTIC, Loss.SQUARE: _SQUARE}
REGULARISER_CODES = {
    Regulariser.NONE: _NONE,
    Regulariser.NONCONVEX: _NONCONVEX,
    Regulariser.L2: _L2,
}


@njit(cache=True, inline="always")
def loss_value(loss, margin, label):
    """Loss of one margin."""
    if loss == _ROBUST:
        residual = margin - label
        return math.log1p(0.5 * residual * residual)
    if loss == _LOGISTIC:
        t = -label * margin
        return max(t, 0.0) + math.log1p(math.exp(-abs(t)))
    if loss == _SQUARE:
        return (margin - label) ** 2
    return math.nan


@njit(cache=True, inline="always")
def loss_derivative(loss, margin, label):
    """Derivative of the loss with respect to the margin."""
    if loss == _ROBUST:
        residual = margin - label
        return residual / (1.0 + 0.5 * residual * residual)
    if loss == _LOGISTIC:
        return -label / (1.0 + math.exp(min(label * margin, 700.0)))
    if loss == _SQUARE:
        return 2.0 * (margin - label)
    return math.nan


@njit(cache=True, inline="always")
def regulariser_value(regulariser, weight, coordinate):
    """One coordinate's share of the weighted regulariser."""
    square = coordinate * coordinate
    if regulariser == _NONCONVEX:
        return weight * square / (1.0 + square)
    if regulariser == _L2:
        return weight * 0.5 * square
    return 0.0


@njit(cache=True, inline="always")
def regulariser_derivative(regulariser, weight, coordinate):
    """Derivative of the weighted regulariser in one coordinate."""
    if regulariser == _NONCONVEX:
        denominator = 1.0 + coordinate * coordinate
        return weight * 2.0 * coordinate / (denominator * denominator)
    if regulariser == _L2:
        return weight * coordinate
    return 0.0


@njit(cache=True, inline="always")
def _dot(indptr, indices, values, row, x):
    total = 0.0
    for position in range(indptr[row], indptr[row + 1]):
        total += values[position] * x[indices[position]]
    return total


@njit(cache=True, inline="always")
def _add_row(indptr, indices, values, row, scale, out):
    for position in range(indptr[row], indptr[row + 1]):
        out[indices[position]] += scale * values[position]


@njit(cache=True)
def draw_minibatches(uniform, starts, sizes, batch_sizes):
    """Row numbers of minibatches drawn uniformly without replacement.

    uniform: (clients, steps, size) in [0, 1); starts, sizes: (clients,) first row and row count;
    batch_sizes: (clients,), at most `size`; entries beyond it are left at 0.
    """
    clients, steps, size = uniform.shape
    rows = np.zeros((clients, steps, size), dtype=np.int64)
    deck = np.arange(sizes.max())
    swapped = np.empty(size, dtype=np.int64)
    for s in range(clients):
        for k in range(steps):
            # A partial Fisher–Yates shuffle, undone afterwards so that the deck is never rebuilt.
            for t in range(batch_sizes[s]):
                j = t + int(uniform[s, k, t] * (sizes[s] - t))
                deck[t], deck[j] = deck[j], deck[t]
                swapped[t] = j
                rows[s, k, t] = starts[s] + deck[t]
            for t in range(batch_sizes[s] - 1, -1, -1):
                j = swapped[t]
                deck[t], deck[j] = deck[j], deck[t]
    return rows


@njit(cache=True)
def client_gradients(
    indptr, indices, values, labels, starts, batch_sizes, rows, loss, regulariser, weight, points
):
    """Minibatch gradients (clients, d) at `points` (clients, d), or (1, d) for a common point."""
    clients = len(starts)
    dimension = points.shape[1]
    gradients = np.zeros((clients, dimension))
    whole = rows.shape[0] == 0
    for s in range(clients):
        x = points[s] if points.shape[0] > 1 else points[0]
        for t in range(batch_sizes[s]):
            row = starts[s] + t if whole else rows[s, 0, t]
            slope = loss_derivative(loss, _dot(indptr, indices, values, row, x), labels[row])
            _add_row(indptr, indices, values, row, slope / batch_sizes[s], gradients[s])
        if regulariser != _NONE:
            for j in range(dimension):
                gradients[s, j] += regulariser_derivative(regulariser, weight, x[j])
    return gradients


@njit(cache=True)
def local_sgd(
    indptr, indices, values, labels, starts, batch_sizes, rows, loss, regulariser, weight,
    points, steps, step_size, corrections,
):  # fmt: skip
    """K corrected SGD steps y ← y − η(∇f_B(y) + correction) on every client; final y (clients, d).

    corrections: (clients, d), or empty (0, 0) for none.
    """
    clients = len(starts)
    dimension = points.shape[1]
    whole = rows.shape[0] == 0
    corrected = corrections.shape[0] > 0
    result = np.empty((clients, dimension))
    slopes = np.empty(batch_sizes.max())
    for s in range(clients):
        y = result[s]
        y[:] = points[s] if points.shape[0] > 1 else points[0]
        for k in range(steps):
            for t in range(batch_sizes[s]):
                row = starts[s] + t if whole else rows[s, k, t]
                margin = _dot(indptr, indices, values, row, y)
                slopes[t] = loss_derivative(loss, margin, labels[row])
            if corrected:
                for j in range(dimension):
                    penalty = regulariser_derivative(regulariser, weight, y[j])
                    y[j] -= step_size * (corrections[s, j] + penalty)
            elif regulariser != _NONE:
                for j in range(dimension):
                    y[j] -= step_size * regulariser_derivative(regulariser, weight, y[j])
            for t in range(batch_sizes[s]):
                row = starts[s] + t if whole else rows[s, k, t]
                scale = -step_size * slopes[t] / batch_sizes[s]
                _add_row(indptr, indices, values, row, scale, y)
    return result


@njit(cache=True)
def local_recursive_steps(
    indptr, indices, values, labels, starts, batch_sizes, rows, loss, regulariser, weight,
    points, previous, estimates, steps, step_size,
):  # fmt: skip
    """K steps g ← ∇f_B(y) − ∇f_B(y₋) + g, y₋ ← y, y ← y − ηg on every client; final y.

    points, estimates: (clients, d) y and g at the start; previous: (clients, d) or (1, d) y₋.
    """
    clients = len(starts)
    dimension = points.shape[1]
    whole = rows.shape[0] == 0
    result = points.copy()
    y_previous = np.empty(dimension)
    g = np.empty(dimension)
    for s in range(clients):
        y = result[s]
        y_previous[:] = previous[s] if previous.shape[0] > 1 else previous[0]
        g[:] = estimates[s]
        for k in range(steps):
            for t in range(batch_sizes[s]):
                row = starts[s] + t if whole else rows[s, k, t]
                new = loss_derivative(loss, _dot(indptr, indices, values, row, y), labels[row])
                margin = _dot(indptr, indices, values, row, y_previous)
                old = loss_derivative(loss, margin, labels[row])
                _add_row(indptr, indices, values, row, (new - old) / batch_sizes[s], g)
            if regulariser != _NONE:
                for j in range(dimension):
                    g[j] += regulariser_derivative(
                        regulariser, weight, y[j]
                    ) - regulariser_derivative(regulariser, weight, y_previous[j])
            for j in range(dimension):
                y_previous[j] = y[j]
                y[j] -= step_size * g[j]
    return result


@njit(cache=True)
def measure(indptr, indices, values, labels, weights, loss, regulariser, weight, x):
    """Objective Σ_r w_r loss_r(x) + weight · regulariser(x), the norm of its gradient, and how
    many labels are told by their margin (above 0: +1, otherwise −1).
    """
    gradient = np.empty(len(x))
    objective = 0.0
    for j in range(len(x)):
        objective += regulariser_value(regulariser, weight, x[j])
        gradient[j] = regulariser_derivative(regulariser, weight, x[j])
    correct = 0
    for row in range(len(labels)):
        margin = _dot(indptr, indices, values, row, x)
        objective += weights[row] * loss_value(loss, margin, labels[row])
        slope = weights[row] * loss_derivative(loss, margin, labels[row])
        _add_row(indptr, indices, values, row, slope, gradient)
        correct += (margin > 0.0) == (labels[row] > 0.0)
    square = 0.0
    for j in range(len(x)):
        square += gradient[j] * gradient[j]
    return objective, math.sqrt(square), correct
