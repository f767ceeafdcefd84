"""Updates of parties' blocks in order of time; of sparse rows, lazily."""

import math

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.formulas import L2, NONCONVEX, NONE, regulariser_derivative
from fedatlas.federations.vertical.kernels import state as at
from fedatlas.federations.vertical.kernels.state import SNAPSHOT, TABLE

_CHUNK = 256


@compiled(inline="always")
def catch_up(regulariser, weight, step_size, decay, missed, w, mean):
    """A coordinate after `missed` updates in whose rows it was zero: w ← w − γ(mean + ∇g(w)).

    decay: log(1 − γλ).
    """
    if missed == 0 or (w == 0.0 and mean == 0.0):
        return w
    if regulariser == L2:
        # ρ = 1 − γλ: ρᵏ w − γ mean (1 − ρᵏ)/(1 − ρ), written with ρᵏ − 1 to lose no digits.
        return w + math.expm1(missed * decay) * (w + mean / weight)
    if regulariser == NONE:
        return w - missed * step_size * mean
    # No closed form: every missed update is made.
    for _ in range(missed):
        w -= step_size * (mean + regulariser_derivative(regulariser, weight, w))
    return w


@compiled(inline="always")
def apply_due(
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
    place, waiting = position[party, at.HEAD], position[party, at.WAITING]
    while True:
        queued = time[party, place] if waiting else math.inf
        due = min(own, queued)
        if due > until or due == math.inf:
            break
        if own < queued or (
            own == queued and own_origin[party, at.ORDER] < origin[party, place, at.ORDER]
        ):
            slope, row = own_theta[party], own_origin[party, at.SAMPLE]
            seen = own_origin[party, at.READ]
            own = math.inf
            own_time[party] = own
        else:
            slope, row = theta[party, place], origin[party, place, at.SAMPLE]
            seen = origin[party, place, at.READ]
            place = place + 1 if place + 1 < time.shape[1] else 0
            waiting -= 1
        now = position[party, at.APPLIED]
        counts[at.BLOCK_UPDATES] += 1
        numbers[at.UPDATE_DELAYS] += now - seen
        numbers[at.LARGEST_UPDATE_DELAY] = max(numbers[at.LARGEST_UPDATE_DELAY], now - seen)
        numbers[at.LAST_APPLICATION] = max(numbers[at.LAST_APPLICATION], due)

        difference = slope
        if estimator == SNAPSHOT:
            difference -= reference[0, row]
        elif estimator == TABLE:
            difference -= reference[party, row]
            reference[party, row] = slope
        if dense.shape[0]:
            for j in range(start, stop):
                x = dense[row, j]
                penalty = regulariser_derivative(regulariser, weight, w[j])
                w[j] -= step_size * (difference * x + mean[j] + penalty)
                if estimator == TABLE:
                    mean[j] += difference / samples * x
        else:
            for entry in range(bounds[row, party], bounds[row, party + 1]):
                j, x = columns[entry], values[entry]
                missed = now - touched[j]
                here = catch_up(regulariser, weight, step_size, decay, missed, w[j], mean[j])
                penalty = regulariser_derivative(regulariser, weight, here)
                w[j] = here - step_size * (difference * x + mean[j] + penalty)
                touched[j] = now + 1
                if estimator == TABLE:
                    mean[j] += difference / samples * x
        position[party, at.APPLIED] = now + 1
    position[party, at.HEAD] = place
    position[party, at.WAITING] = waiting


@compiled
def apply_until(blocks, rule, until, w, mean, reference, queues, tally):
    """Apply all updates that are due by `until`, on all parties; inf applies every one."""
    starts, dense, bounds, columns, values, labels = blocks
    regulariser, weight, step_size, estimator = (
        rule.regulariser, rule.weight, rule.step_size, rule.reference
    )  # fmt: skip
    time, theta, origin, position, own_time, own_theta, own_origin, _, _, touched = queues
    counts, numbers = tally
    decay = math.log1p(-step_size * weight)
    for party in range(len(position)):
        apply_due(
            party, until, len(labels), starts, dense, bounds, columns,
            values, regulariser, weight, step_size, decay, estimator,
            w, mean, reference, time, theta, origin, position, own_time, own_theta, own_origin,
            touched, counts, numbers,
        )  # fmt: skip
    if dense.shape[0] == 0:
        catch_up_all(blocks, rule, w, mean, queues)


@compiled
def catch_up_all(blocks, rule, w, mean, queues):
    """Give every sparse coordinate the updates of its block that it has missed."""
    starts, touched = blocks.starts, queues.touched
    regulariser, weight, step_size = rule.regulariser, rule.weight, rule.step_size
    decay = math.log1p(-step_size * weight)
    # Without a closed form, coordinates wait here until there are enough to update many at a time.
    who, missed = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64)
    waiting = int(np.int64(0))  # no literal 0, for which `_update_many` would be compiled again
    for party in range(len(starts) - 1):
        now = queues.position[party, at.APPLIED]
        for j in range(starts[party], starts[party + 1]):
            late = now - touched[j]
            touched[j] = now
            if late == 0 or (w[j] == 0.0 and mean[j] == 0.0):
                continue
            if regulariser != NONCONVEX:
                w[j] = catch_up(regulariser, weight, step_size, decay, late, w[j], mean[j])
                continue
            who[waiting], missed[waiting] = j, late
            waiting += 1
            if waiting == _CHUNK:
                _update_many(who, missed, waiting, weight, step_size, w, mean)
                waiting = 0
    _update_many(who, missed, waiting, weight, step_size, w, mean)


@compiled
def _update_many(who, missed, size, weight, step_size, w, mean):
    """w_j ← w_j − γ(mean_j + ∇g(w_j)), missed[k] times for each j = who[k], nonconvex g.

    Written so that it compiles to vector instructions: numbers side by side, and a step of 0 once
    an entry has caught up.
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
