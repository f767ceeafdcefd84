"""Compiled loops over clients, of a star or within silos: gradients, local steps, measurements.

Rows are CSR (indptr, indices, values), ordered by client. A minibatch is an array of row numbers
(clients, steps, size); an empty one means every client's whole local data set at every step.
counts: (clients, steps) of samples at every step, 0 of clients that have finished, or empty where
`batch_sizes` says it of all steps. All arithmetic is float64 in a fixed order: results do not
depend on threads. While a client computes, the rows that the next one has drawn are asked for:
memory's answers took a fifth of a round. Loops fill arrays of numpy's: those that numba returns
take 1 µs each to become numpy's.
"""

import math
from typing import Any

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.kernels.compilation import compiled, frozen
from fedatlas.arithmetic.kernels.formulas import (
    NONE,
    REGULARISER_CODES,
    add_row,
    dot,
    loss_code,
    loss_derivative,
    loss_value,
    prefetch_row,
    regulariser_derivative,
    regulariser_value,
)
from fedatlas.arithmetic.samples import Samples
from fedatlas.schema.objectives import LinearObjective


def rows_and_codes(
    samples: Samples, objective: LinearObjective
) -> tuple[sparse.csr_array, tuple[Any, ...], tuple[Any, ...]]:
    """The rows, and as loops take them: rows with labels, and loss, regulariser and weight."""
    rows = sparse.csr_array(samples.features)
    arrays = (
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
        rows.data.astype(np.float64),
        frozen(samples.label),
    )
    codes = loss_code(objective.loss), REGULARISER_CODES[objective.regulariser]
    return rows, arrays, (*codes, objective.regularisation_weight)


@compiled
def client_gradients(
    indptr, indices, values, labels, starts, batch_sizes, rows, loss, regulariser, weight, points,
    gradients,
):  # fmt: skip
    """Minibatch gradients (clients, d) at `points` (clients, d), or (1, d) for a common point.

    gradients: zeros, which they are added to.
    """
    clients = len(starts)
    dimension = points.shape[1]
    whole = rows.shape[0] == 0
    for s in range(clients):
        x = points[s] if points.shape[0] > 1 else points[0]
        if s + 1 < rows.shape[0]:
            for t in range(batch_sizes[s + 1]):
                prefetch_row(indptr, indices, values, rows[s + 1, 0, t])
        for t in range(batch_sizes[s]):
            row = starts[s] + t if whole else rows[s, 0, t]
            slope = loss_derivative(loss, dot(indptr, indices, values, row, x), labels[row])
            add_row(indptr, indices, values, row, slope / batch_sizes[s], gradients[s])
        if regulariser != NONE:
            for j in range(dimension):
                gradients[s, j] += regulariser_derivative(regulariser, weight, x[j])


@compiled
def local_sgd(
    indptr, indices, values, labels, starts, batch_sizes, rows, counts, loss, regulariser, weight,
    points, steps, step_size, corrections, proximal_weight, result,
):  # fmt: skip
    """K SGD steps y ← y − η(∇f_B(y) + correction + μ(y − x)) on every client.

    corrections: (clients, d), or empty (0, 0) for none. proximal_weight: μ. result: (clients, d),
    for the final y.
    """
    clients = len(starts)
    dimension = points.shape[1]
    whole, counted = rows.shape[0] == 0, counts.shape[0] > 0
    corrected = corrections.shape[0] > 0
    largest = 0  # by a loop: NumPy's `max` takes longer to compile than all of this
    for s in range(clients):
        largest = max(largest, batch_sizes[s])
    slopes = np.empty(largest)
    for s in range(clients):
        y, begin = result[s], points[s] if points.shape[0] > 1 else points[0]
        for j in range(dimension):
            y[j] = begin[j]
        size = batch_sizes[s]
        for k in range(steps):
            if counted:
                size = counts[s, k]
                if size == 0:
                    continue
            if s + 1 < rows.shape[0]:
                for t in range(batch_sizes[s + 1]):
                    prefetch_row(indptr, indices, values, rows[s + 1, k, t])
            for t in range(size):
                row = starts[s] + t if whole else rows[s, k, t]
                margin = dot(indptr, indices, values, row, y)
                slopes[t] = loss_derivative(loss, margin, labels[row])
            if proximal_weight != 0.0:
                for j in range(dimension):
                    other = proximal_weight * (y[j] - begin[j])
                    if corrected:
                        other += corrections[s, j]
                    if regulariser != NONE:
                        other += regulariser_derivative(regulariser, weight, y[j])
                    y[j] -= step_size * other
            elif corrected and regulariser == NONE:  # apart, as the compiler vectorises it then
                for j in range(dimension):
                    y[j] -= step_size * corrections[s, j]
            elif corrected:
                for j in range(dimension):
                    penalty = regulariser_derivative(regulariser, weight, y[j])
                    y[j] -= step_size * (corrections[s, j] + penalty)
            elif regulariser != NONE:
                for j in range(dimension):
                    y[j] -= step_size * regulariser_derivative(regulariser, weight, y[j])
            for t in range(size):
                row = starts[s] + t if whole else rows[s, k, t]
                scale = -step_size * slopes[t] / size
                add_row(indptr, indices, values, row, scale, y)


@compiled
def local_recursive_steps(
    indptr, indices, values, labels, starts, batch_sizes, rows, counts, loss, regulariser, weight,
    points, previous, estimates, steps, step_size,
):  # fmt: skip
    """K steps g ← ∇f_B(y) − ∇f_B(y₋) + g, y₋ ← y, y ← y − ηg on every client.

    points, estimates: (clients, d) y, which becomes the final one, and g at the start; previous:
        (clients, d) or (1, d) y₋.
    """
    clients = len(starts)
    dimension = points.shape[1]
    whole, counted = rows.shape[0] == 0, counts.shape[0] > 0
    y_previous = np.empty(dimension)
    g = np.empty(dimension)
    for s in range(clients):
        y = points[s]
        before = previous[s] if previous.shape[0] > 1 else previous[0]
        for j in range(dimension):
            y_previous[j], g[j] = before[j], estimates[s, j]
        size = batch_sizes[s]
        for k in range(steps):
            if counted:
                size = counts[s, k]
                if size == 0:
                    continue
            if s + 1 < rows.shape[0]:
                for t in range(batch_sizes[s + 1]):
                    prefetch_row(indptr, indices, values, rows[s + 1, k, t])
            for t in range(size):
                row = starts[s] + t if whole else rows[s, k, t]
                new = loss_derivative(loss, dot(indptr, indices, values, row, y), labels[row])
                margin = dot(indptr, indices, values, row, y_previous)
                old = loss_derivative(loss, margin, labels[row])
                add_row(indptr, indices, values, row, (new - old) / size, g)
            if regulariser != NONE:
                for j in range(dimension):
                    g[j] += regulariser_derivative(
                        regulariser, weight, y[j]
                    ) - regulariser_derivative(regulariser, weight, y_previous[j])
            for j in range(dimension):
                y_previous[j] = y[j]
                y[j] -= step_size * g[j]


@compiled
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
        margin = dot(indptr, indices, values, row, x)
        objective += weights[row] * loss_value(loss, margin, labels[row])
        slope = weights[row] * loss_derivative(loss, margin, labels[row])
        add_row(indptr, indices, values, row, slope, gradient)
        correct += (margin > 0.0) == (labels[row] > 0.0)
    square = 0.0
    for j in range(len(x)):
        square += gradient[j] * gradient[j]
    return objective, math.sqrt(square), correct


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
