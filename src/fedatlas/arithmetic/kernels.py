"""Compiled loops: formulas of linear models; local steps over clients; the events of parties.

Horizontal loops. Rows are CSR (indptr, indices, values), ordered by client;
`offsets[i]:offsets[i+1]` are client i's rows. A minibatch is an array of row numbers (clients,
steps, size); an empty one means every client's whole local data set at every step.

Vertical loops. Parties hold blocks of columns; `simulation.parties` states the model of time.

All arithmetic is float64 in a fixed order: results do not depend on threads.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from fedatlas.schema.objectives import Loss, Regulariser

# Compiled code is cached by this file's time stamp alone: nothing here may call what is compiled in
# another file, or an edit there would run old code. Hence one file for all that share formulas.
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


# Indices without a sign cannot be negative, which numba looks after at every access otherwise: the
# loops of clients take a third less time.


@njit(cache=True, inline="always")
def _dot(indptr, indices, values, row, x):
    total = 0.0
    for position in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        total += values[position] * x[np.uint32(indices[position])]
    return total


@njit(cache=True, inline="always")
def _add_row(indptr, indices, values, row, scale, out):
    for position in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        out[np.uint32(indices[position])] += scale * values[position]


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
            margin = _dot(indptr, indices, values, row, points[s]) + others[t]
            slope = loss_derivative(loss, margin, labels[row])
            _add_row(indptr, indices, values, row, slope / size, gradients[s])
        if regulariser != _NONE and size > 0:
            for j in range(points.shape[1]):
                gradients[s, j] += regulariser_derivative(regulariser, weight, points[s, j])
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
            if corrected and regulariser == _NONE:  # apart, as the compiler vectorises it then
                for j in range(dimension):
                    y[j] -= step_size * corrections[s, j]
            elif corrected:
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


# ------------------------------------------------------------------------------- vertical loops

_PLAIN, _SNAPSHOT, _TABLE = 0, 1, 2
_CHUNK = 256
TABULATED = 256  # of more missed updates than this the shrinkage is computed
REFERENCE_CODES = {"none": _PLAIN, "snapshot": _SNAPSHOT, "table": _TABLE}


class Blocks(NamedTuple):
    """Samples cut by columns; party ℓ owns columns starts[ℓ]:starts[ℓ+1].

    dense: (n, d), or (0, 0) for sparse rows: bounds (n, q + 1) into columns, values; labels (n,).
    """

    starts: np.ndarray
    dense: np.ndarray
    bounds: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    labels: np.ndarray


class Timing(NamedTuple):
    """Whole nanoseconds: work (q,) of each party for a share or an update; slowest, the most of
    these; latency of a message; aggregation, of the messages up a tree.

    As float64, whose sums are then exact (up to 100 days): times that ought to be equal are equal.
    """

    work: np.ndarray
    slowest: float
    latency: float
    aggregation: float


class Rule(NamedTuple):
    """What an update computes: codes, weights and whether others take part in it."""

    loss: int
    regulariser: int
    weight: float
    step_size: float
    reference: int
    backward: bool  # whether collaborators update, too
    barrier: bool


class Queues(NamedTuple):
    """Decided updates that wait for their time, and all clocks; see `simulation.parties`.

    Per party a ring of collaborative updates in order of their time: time, theta (q, capacity);
    origin (q, capacity, 3): the sample, the number of the dominated update, and how many updates
    the block had when it was read. position (q, 3): where the ring starts, how many wait in it, and
    how many updates the block has had. The one update that a dominator makes itself: own_time, inf
    if there is none, and own_theta (m,), own_origin (m, 3). threads (q, k): when each is free;
    begin (m,): when each dominator began its iteration, inf while it waits at a barrier. touched
    (d,): how many updates of its block a sparse coordinate has seen; (0,) if rows are dense.
    """

    time: np.ndarray
    theta: np.ndarray
    origin: np.ndarray
    position: np.ndarray
    own_time: np.ndarray
    own_theta: np.ndarray
    own_origin: np.ndarray
    threads: np.ndarray
    begin: np.ndarray
    touched: np.ndarray


SAMPLE, ORDER, READ = 0, 1, 2  # of an origin
HEAD, WAITING, APPLIED = 0, 1, 2  # of a position


class Tally(NamedTuple):
    """Numbers so far, by the constants below: counts (3,) int64, values (7,) float64."""

    counts: np.ndarray
    values: np.ndarray


DECIDED, BLOCK_UPDATES, READS = 0, 1, 2  # of counts
READ_DELAYS, LARGEST_READ_DELAY, UPDATE_DELAYS, LARGEST_UPDATE_DELAY = 0, 1, 2, 3  # of values
LAST_SUM, LAST_APPLICATION, MASK_ERROR = 4, 5, 6


@njit(cache=True, inline="always")
def _catch_up(regulariser, weight, step_size, decay, missed, w, mean):
    """A coordinate after `missed` updates in whose rows it was zero: w ← w − γ(mean + ∇g(w)).

    decay: log(1 − γλ).
    """
    if missed == 0 or (w == 0.0 and mean == 0.0):
        return w
    if regulariser == _L2:
        # ρ = 1 − γλ: ρᵏ w − γ mean (1 − ρᵏ)/(1 − ρ), written with ρᵏ − 1 to lose no digits.
        return w + math.expm1(missed * decay) * (w + mean / weight)
    if regulariser == _NONE:
        return w - missed * step_size * mean
    # No closed form: every missed update is made.
    for _ in range(missed):
        w -= step_size * (mean + regulariser_derivative(regulariser, weight, w))
    return w


@njit(cache=True, inline="always")
def _apply_due(
    party, until, samples, starts, dense, bounds, columns,
    values, regulariser, weight, step_size, decay, estimator,
    w, mean, reference, time, theta, origin, position, own_time, own_theta, own_origin,
    touched, counts, numbers,
):  # fmt: skip
    """Apply to a party's block, in order of time, every waiting update due at `until` or before.

    An update: w_ℓ ← w_ℓ − γ((ϑ − ϑ_ref) x_{i,ℓ} + mean_ℓ + ∇g(w_ℓ)), and the table's new entry.
    Arrays are arguments one by one: to look one up in a tuple costs more than an update.
    """
    start, stop = starts[party], starts[party + 1]
    own = own_time[party] if party < len(own_time) else math.inf
    place, waiting = position[party, HEAD], position[party, WAITING]
    while True:
        queued = time[party, place] if waiting else math.inf
        due = min(own, queued)
        if due > until or due == math.inf:
            break
        if own < queued or (
            own == queued and own_origin[party, ORDER] < origin[party, place, ORDER]
        ):
            slope, row = own_theta[party], own_origin[party, SAMPLE]
            seen = own_origin[party, READ]
            own = math.inf
            own_time[party] = own
        else:
            slope, row = theta[party, place], origin[party, place, SAMPLE]
            seen = origin[party, place, READ]
            place = place + 1 if place + 1 < time.shape[1] else 0
            waiting -= 1
        now = position[party, APPLIED]
        counts[BLOCK_UPDATES] += 1
        numbers[UPDATE_DELAYS] += now - seen
        numbers[LARGEST_UPDATE_DELAY] = max(numbers[LARGEST_UPDATE_DELAY], now - seen)
        numbers[LAST_APPLICATION] = max(numbers[LAST_APPLICATION], due)

        difference = slope
        if estimator == _SNAPSHOT:
            difference -= reference[0, row]
        elif estimator == _TABLE:
            difference -= reference[party, row]
            reference[party, row] = slope
        if dense.shape[0]:
            for j in range(start, stop):
                x = dense[row, j]
                penalty = regulariser_derivative(regulariser, weight, w[j])
                w[j] -= step_size * (difference * x + mean[j] + penalty)
                if estimator == _TABLE:
                    mean[j] += difference / samples * x
        else:
            for entry in range(bounds[row, party], bounds[row, party + 1]):
                j, x = columns[entry], values[entry]
                missed = now - touched[j]
                here = _catch_up(regulariser, weight, step_size, decay, missed, w[j], mean[j])
                penalty = regulariser_derivative(regulariser, weight, here)
                w[j] = here - step_size * (difference * x + mean[j] + penalty)
                touched[j] = now + 1
                if estimator == _TABLE:
                    mean[j] += difference / samples * x
        position[party, APPLIED] = now + 1
    position[party, HEAD] = place
    position[party, WAITING] = waiting


@njit(cache=True)
def apply_until(blocks, rule, until, w, mean, reference, queues, tally):
    """Apply what is due at `until` or before on all parties; inf leaves nothing waiting."""
    starts, dense, bounds, columns, values, labels = blocks
    regulariser, weight, step_size, estimator = (
        rule.regulariser, rule.weight, rule.step_size, rule.reference
    )  # fmt: skip
    time, theta, origin, position, own_time, own_theta, own_origin, _, _, touched = queues
    counts, numbers = tally
    decay = math.log1p(-step_size * weight)
    for party in range(len(position)):
        _apply_due(
            party, until, len(labels), starts, dense, bounds, columns,
            values, regulariser, weight, step_size, decay, estimator,
            w, mean, reference, time, theta, origin, position, own_time, own_theta, own_origin,
            touched, counts, numbers,
        )  # fmt: skip
    if dense.shape[0] == 0:
        catch_up_all(blocks, rule, w, mean, queues)


@njit(cache=True)
def catch_up_all(blocks, rule, w, mean, queues):
    """Give every sparse coordinate the updates of its block that it has missed."""
    starts, touched = blocks.starts, queues.touched
    regulariser, weight, step_size = rule.regulariser, rule.weight, rule.step_size
    decay = math.log1p(-step_size * weight)
    # Without a closed form, coordinates wait here until there are enough to update many at a time.
    waiting, who, missed = 0, np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64)
    for party in range(len(starts) - 1):
        now = queues.position[party, APPLIED]
        for j in range(starts[party], starts[party + 1]):
            late = now - touched[j]
            touched[j] = now
            if late == 0 or (w[j] == 0.0 and mean[j] == 0.0):
                continue
            if regulariser != _NONCONVEX:
                w[j] = _catch_up(regulariser, weight, step_size, decay, late, w[j], mean[j])
                continue
            who[waiting], missed[waiting] = j, late
            waiting += 1
            if waiting == _CHUNK:
                _update_many(who, missed, waiting, weight, step_size, w, mean)
                waiting = 0
    _update_many(who, missed, waiting, weight, step_size, w, mean)


@njit(cache=True)
def _update_many(who, missed, size, weight, step_size, w, mean):
    """w_j ← w_j − γ(mean_j + ∇g(w_j)), missed[k] times for each j = who[k], nonconvex g.

    In a form that becomes vector instructions: numbers side by side, and a step of 0 for those that
    have missed no more.
    """
    here, slope = np.empty(size), np.empty(size)
    most = 0
    for k in range(size):
        here[k], slope[k] = w[who[k]], mean[who[k]]
        most = max(most, missed[k])
    for update in range(most):
        for k in range(size):
            square = 1.0 + here[k] * here[k]
            step = step_size if update < missed[k] else 0.0
            here[k] -= step * (slope[k] + weight * 2.0 * here[k] / (square * square))
    for k in range(size):
        w[who[k]] = here[k]


@njit(cache=True, inline="always")
def _mask(key, number):
    """A pseudo-random number in [−1, 1) of a counter (SplitMix64, Steele et al. 2014)."""
    z = key + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (2.0 / 9007199254740992.0) - 1.0


@njit(cache=True, inline="always")
def _unmasked_sum(trees, masked, masks):
    """Algorithm 1, steps 4 to 6: both sums along their trees, and their difference."""
    steps = trees.shape[1]
    for step in range(steps):
        masked[trees[0, step, 0]] += masked[trees[0, step, 1]]
        masks[trees[1, step, 0]] += masks[trees[1, step, 1]]
    if steps == 0:
        return masked[0] - masks[0]
    return masked[trees[0, steps - 1, 0]] - masks[trees[1, steps - 1, 0]]


@njit(cache=True)
def secure_margins(blocks, trees, mask_key, first_mask, mask_scale, w):
    """Algorithm 1 for every sample at w: margins (n,) and the largest error that masks left.

    trees: (2, q − 1, 2) aggregation steps (receiver, sender). first_mask: number of the first mask,
    so that no two sums of a run share one.
    """
    parties = len(blocks.starts) - 1
    margins = np.empty(len(blocks.labels))
    masked, masks = np.empty(parties), np.empty(parties)
    error = 0.0
    for row in range(len(margins)):
        plain = 0.0
        for party in range(parties):
            share = 0.0
            if blocks.dense.shape[0]:
                for j in range(blocks.starts[party], blocks.starts[party + 1]):
                    share += blocks.dense[row, j] * w[j]
            else:
                for entry in range(blocks.bounds[row, party], blocks.bounds[row, party + 1]):
                    share += blocks.values[entry] * w[blocks.columns[entry]]
            plain += share
            number = first_mask + row * parties + party
            masks[party] = mask_scale * _mask(mask_key, number)
            masked[party] = share + masks[party]
        margins[row] = _unmasked_sum(trees, masked, masks)
        error = max(error, abs(margins[row] - plain))
    return margins, error


@njit(cache=True)
def losses(loss, margins, labels):
    """Sum of the losses and their derivatives (n,)."""
    total = 0.0
    slopes = np.empty(len(margins))
    for row in range(len(margins)):
        total += loss_value(loss, margins[row], labels[row])
        slopes[row] = loss_derivative(loss, margins[row], labels[row])
    return total, slopes


@njit(cache=True)
def party_bounds(indptr, columns, starts):
    """(n, q + 1) positions in sorted CSR rows where each party's columns begin, and the end."""
    parties = len(starts) - 1
    bounds = np.empty((len(indptr) - 1, parties + 1), dtype=np.int64)
    for row in range(len(bounds)):
        entry = indptr[row]
        for party in range(parties):
            while entry < indptr[row + 1] and columns[entry] < starts[party]:
                entry += 1
            bounds[row, party] = entry
        bounds[row, parties] = indptr[row + 1]
    return bounds


@njit(cache=True)
def weighted_rows(features, weights):
    """Σ_i weights_i x_i of dense rows, (d,): like BLAS's, but the same on every machine."""
    total = np.zeros(features.shape[1])
    for row in range(len(features)):
        for j in range(len(total)):
            total[j] += weights[row] * features[row, j]
    return total


@njit(cache=True)
def penalties(regulariser, weight, x):
    """The weighted regulariser and its gradient (d,)."""
    value = 0.0
    gradient = np.empty(len(x))
    for j in range(len(x)):
        value += regulariser_value(regulariser, weight, x[j])
        gradient[j] = regulariser_derivative(regulariser, weight, x[j])
    return value, gradient


@njit(cache=True, inline="always")
def _entries(bounds, row):
    """Where a row of one party begins and ends."""
    return np.uint64(bounds[row, 0]), np.uint64(bounds[row, 1])


@njit(cache=True)
def decide_alone(blocks, rule, timing, draws, w, mean, reference, queues, tally):
    """`decide_updates` where there is one party: it has everything it needs when it decides, so
    that nothing waits but its own last update, and hides nothing from itself.
    """
    dense, columns, values, labels = blocks.dense, blocks.columns, blocks.values, blocks.labels
    bounds = blocks.bounds
    regulariser, weight, step_size, estimator = (
        rule.regulariser, rule.weight, rule.step_size, rule.reference
    )  # fmt: skip
    touched, loss = queues.touched, rule.loss
    samples = len(labels)
    decay = math.log1p(-step_size * weight)
    shrinkage = np.empty(TABULATED if regulariser == _L2 else 0)
    for missed in range(len(shrinkage)):
        shrinkage[missed] = math.expm1(missed * decay)
    if len(draws) == 0:
        return
    applied = queues.position[0, APPLIED]
    row, slope = queues.own_origin[0, SAMPLE], queues.own_theta[0]
    first, last = np.uint64(0), np.uint64(0)
    if dense.shape[0] == 0:
        first, last = _entries(bounds, row)
    for event in range(len(draws)):
        if event > 0 or queues.own_time[0] < math.inf:
            difference = slope
            if estimator != _PLAIN:
                difference -= reference[0, row]
            if estimator == _TABLE:
                reference[0, row] = slope
            if dense.shape[0]:
                for j in range(len(w)):
                    penalty = regulariser_derivative(regulariser, weight, w[j])
                    w[j] -= step_size * (difference * dense[row, j] + mean[j] + penalty)
                if estimator == _TABLE:
                    for j in range(len(w)):
                        mean[j] += difference / samples * dense[row, j]
            else:
                for entry in range(first, last):
                    # It was brought up to date when it was read, and nothing came between.
                    at, x = np.uint32(columns[entry]), values[entry]
                    penalty = regulariser_derivative(regulariser, weight, w[at])
                    w[at] -= step_size * (difference * x + mean[at] + penalty)
                    touched[at] = applied + 1
                    if estimator == _TABLE:
                        mean[at] += difference / samples * x
            applied += 1
        row = draws[event]
        margin = 0.0
        if dense.shape[0]:
            for j in range(len(w)):
                margin += dense[row, j] * w[j]
        else:
            first, last = _entries(bounds, row)
            for entry in range(first, last):
                at = np.uint32(columns[entry])
                missed = applied - touched[at]
                if 0 < missed < len(shrinkage):
                    w[at] += shrinkage[np.uint32(missed)] * (w[at] + mean[at] / weight)
                else:
                    w[at] = _catch_up(
                        regulariser, weight, step_size, decay, missed, w[at], mean[at]
                    )
                touched[at] = applied
                margin += values[entry] * w[at]
        slope = loss_derivative(loss, margin, labels[row])
    # Times are whole numbers, so that their sums are those of one iteration after the other.
    took = timing.slowest + timing.work[0]
    began = queues.begin[0] + (len(draws) - 1) * took
    counts, numbers = tally
    counts[DECIDED] += len(draws)
    counts[READS] += len(draws)
    counts[BLOCK_UPDATES] += applied - queues.position[0, APPLIED]
    numbers[LAST_SUM] = began + timing.slowest
    if applied > queues.position[0, APPLIED]:
        numbers[LAST_APPLICATION] = max(numbers[LAST_APPLICATION], began)
    queues.position[0, APPLIED] = applied
    queues.begin[0] = began + took
    queues.own_time[0] = began + took
    queues.own_theta[0] = slope
    queues.own_origin[0, SAMPLE] = row
    queues.own_origin[0, ORDER] = counts[DECIDED] - 1
    queues.own_origin[0, READ] = applied


@njit(cache=True)
def decide_updates(
    blocks, rule, timing, draws, trees, mask_key, mask_scale, w, mean, reference, queues, tally
):
    """Run until `len(draws)` more dominated updates have been decided, on those samples; changes w,
    mean, reference, queues and tally.

    trees: (m, 2, q − 1, 2) aggregation steps (receiver, sender) of Algorithm 1's two trees, for
    each dominator. Returns False if a queue overflowed.
    """
    starts, dense, bounds, columns, values, labels = blocks
    regulariser, weight, step_size, estimator = (
        rule.regulariser, rule.weight, rule.step_size, rule.reference
    )  # fmt: skip
    work = timing.work
    time, theta, origin, position, own_time, own_theta, own_origin = queues[:7]
    threads, begin, touched = queues[7:]
    counts, numbers = tally
    decay = math.log1p(-step_size * weight)
    parties, capacity = time.shape
    masked, masks = np.empty(parties), np.empty(parties)
    for event in range(len(draws)):
        row = draws[event]
        # All sums take equally long: who began first has the next one.
        dominator = 0
        for other in range(1, len(begin)):
            if begin[other] < begin[dominator]:
                dominator = other
        asked = begin[dominator] + timing.latency
        sum_time = asked + timing.slowest + timing.aggregation
        number = counts[DECIDED]
        plain = 0.0
        for party in range(parties):
            # What is due before this read may be applied only now: nobody else saw the block.
            _apply_due(
                party, asked + work[party], len(labels), starts, dense, bounds, columns,
                values, regulariser, weight, step_size, decay, estimator,
                w, mean, reference, time, theta, origin, position, own_time, own_theta, own_origin,
                touched, counts, numbers,
            )  # fmt: skip
            now = position[party, APPLIED]
            share = 0.0
            if dense.shape[0]:
                for j in range(starts[party], starts[party + 1]):
                    share += dense[row, j] * w[j]
            else:
                for entry in range(bounds[row, party], bounds[row, party + 1]):
                    j = columns[entry]
                    missed = now - touched[j]
                    w[j] = _catch_up(regulariser, weight, step_size, decay, missed, w[j], mean[j])
                    touched[j] = now
                    share += values[entry] * w[j]
            plain += share
            masks[party] = mask_scale * _mask(mask_key, number * parties + party)
            masked[party] = share + masks[party]
            lacking = position[party, WAITING]
            if party < len(own_time) and own_time[party] < math.inf:
                lacking += 1
            counts[READS] += 1
            numbers[READ_DELAYS] += lacking
            numbers[LARGEST_READ_DELAY] = max(numbers[LARGEST_READ_DELAY], lacking)
        margin = _unmasked_sum(trees[dominator], masked, masks)
        numbers[MASK_ERROR] = max(numbers[MASK_ERROR], abs(margin - plain))
        slope = loss_derivative(rule.loss, margin, labels[row])

        own_time[dominator] = sum_time + work[dominator]
        own_theta[dominator] = slope
        own_origin[dominator, SAMPLE] = row
        own_origin[dominator, ORDER] = number
        # Nothing was applied to any block since it was read.
        own_origin[dominator, READ] = position[dominator, APPLIED]
        if rule.backward:
            arrival = sum_time + timing.latency
            for party in range(parties):
                if party == dominator:
                    continue
                thread = 0
                for other in range(1, threads.shape[1]):
                    if threads[party, other] < threads[party, thread]:
                        thread = other
                due = max(arrival, threads[party, thread]) + work[party]
                threads[party, thread] = due
                if position[party, WAITING] == capacity:
                    return False
                place = (position[party, HEAD] + position[party, WAITING]) % capacity
                time[party, place] = due
                theta[party, place] = slope
                origin[party, place, SAMPLE] = row
                origin[party, place, ORDER] = number
                origin[party, place, READ] = position[party, APPLIED]
                position[party, WAITING] += 1
        counts[DECIDED] += 1
        numbers[LAST_SUM] = sum_time
        if not rule.barrier:
            begin[dominator] = own_time[dominator]
            continue
        begin[dominator] = math.inf
        if begin.min() == math.inf:
            # The barrier: all begin when the last update of all will have been applied.
            latest = own_time.max()
            for party in range(parties):
                if position[party, WAITING]:
                    last = (position[party, HEAD] + position[party, WAITING] - 1) % capacity
                    latest = max(latest, time[party, last])
            begin[:] = latest
    return True
