"""Dominated updates in order of time; `vertical.network` states the model of time."""

import math

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.formulas import L2, loss_derivative, regulariser_derivative
from fedatlas.federations.vertical.kernels import state as at
from fedatlas.federations.vertical.kernels.state import PLAIN, TABLE
from fedatlas.federations.vertical.kernels.sums import mask, unmasked_sum
from fedatlas.federations.vertical.kernels.updates import apply_due, catch_up

TABULATED = 256  # shrinkage after fewer missed updates is looked up


@compiled(inline="always")
def _entries(bounds, row):
    """Where a row of one party begins and ends."""
    return np.uint64(bounds[row, 0]), np.uint64(bounds[row, 1])


@compiled
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
    shrinkage = np.empty(TABULATED if regulariser == L2 else 0)
    for missed in range(len(shrinkage)):
        shrinkage[missed] = math.expm1(missed * decay)
    if len(draws) == 0:
        return
    applied = queues.position[0, at.APPLIED]
    row, slope = queues.own_origin[0, at.SAMPLE], queues.own_theta[0]
    first, last = np.uint64(0), np.uint64(0)
    if dense.shape[0] == 0:
        first, last = _entries(bounds, row)
    for event in range(len(draws)):
        if event > 0 or queues.own_time[0] < math.inf:
            difference = slope
            if estimator != PLAIN:
                difference -= reference[0, row]
            if estimator == TABLE:
                reference[0, row] = slope
            if dense.shape[0]:
                for j in range(len(w)):
                    penalty = regulariser_derivative(regulariser, weight, w[j])
                    w[j] -= step_size * (difference * dense[row, j] + mean[j] + penalty)
                if estimator == TABLE:
                    for j in range(len(w)):
                        mean[j] += difference / samples * dense[row, j]
            else:
                for entry in range(first, last):
                    # It was brought up to date when it was read, and nothing came between.
                    column, x = np.uint32(columns[entry]), values[entry]
                    penalty = regulariser_derivative(regulariser, weight, w[column])
                    w[column] -= step_size * (difference * x + mean[column] + penalty)
                    touched[column] = applied + 1
                    if estimator == TABLE:
                        mean[column] += difference / samples * x
            applied += 1
        row = draws[event]
        margin = 0.0
        if dense.shape[0]:
            for j in range(len(w)):
                margin += dense[row, j] * w[j]
        else:
            first, last = _entries(bounds, row)
            for entry in range(first, last):
                column = np.uint32(columns[entry])
                missed = applied - touched[column]
                if 0 < missed < len(shrinkage):
                    w[column] += shrinkage[np.uint32(missed)] * (w[column] + mean[column] / weight)
                else:
                    w[column] = catch_up(
                        regulariser, weight, step_size, decay, missed, w[column], mean[column]
                    )
                touched[column] = applied
                margin += values[entry] * w[column]
        slope = loss_derivative(loss, margin, labels[row])
    # Times are whole numbers: one product equals the sum over iterations, exactly.
    took = timing.slowest + timing.work[0]
    began = queues.begin[0] + (len(draws) - 1) * took
    counts, numbers = tally
    counts[at.DECIDED] += len(draws)
    counts[at.READS] += len(draws)
    counts[at.BLOCK_UPDATES] += applied - queues.position[0, at.APPLIED]
    numbers[at.LAST_SUM] = began + timing.slowest
    if applied > queues.position[0, at.APPLIED]:
        numbers[at.LAST_APPLICATION] = max(numbers[at.LAST_APPLICATION], began)
    queues.position[0, at.APPLIED] = applied
    queues.begin[0] = began + took
    queues.own_time[0] = began + took
    queues.own_theta[0] = slope
    queues.own_origin[0, at.SAMPLE] = row
    queues.own_origin[0, at.ORDER] = counts[at.DECIDED] - 1
    queues.own_origin[0, at.READ] = applied


@compiled
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
        number = counts[at.DECIDED]
        plain = 0.0
        for party in range(parties):
            # What is due before this read may be applied only now: nobody else saw the block.
            apply_due(
                party, asked + work[party], len(labels), starts, dense, bounds, columns,
                values, regulariser, weight, step_size, decay, estimator,
                w, mean, reference, time, theta, origin, position, own_time, own_theta, own_origin,
                touched, counts, numbers,
            )  # fmt: skip
            now = position[party, at.APPLIED]
            share = 0.0
            if dense.shape[0]:
                for j in range(starts[party], starts[party + 1]):
                    share += dense[row, j] * w[j]
            else:
                for entry in range(bounds[row, party], bounds[row, party + 1]):
                    j = columns[entry]
                    missed = now - touched[j]
                    w[j] = catch_up(regulariser, weight, step_size, decay, missed, w[j], mean[j])
                    touched[j] = now
                    share += values[entry] * w[j]
            plain += share
            masks[party] = mask_scale * mask(mask_key, number * parties + party)
            masked[party] = share + masks[party]
            lacking = position[party, at.WAITING]
            if party < len(own_time) and own_time[party] < math.inf:
                lacking += 1
            counts[at.READS] += 1
            numbers[at.READ_DELAYS] += lacking
            numbers[at.LARGEST_READ_DELAY] = max(numbers[at.LARGEST_READ_DELAY], lacking)
        margin = unmasked_sum(trees[dominator], masked, masks)
        numbers[at.MASK_ERROR] = max(numbers[at.MASK_ERROR], abs(margin - plain))
        slope = loss_derivative(rule.loss, margin, labels[row])

        own_time[dominator] = sum_time + work[dominator]
        own_theta[dominator] = slope
        own_origin[dominator, at.SAMPLE] = row
        own_origin[dominator, at.ORDER] = number
        # Nothing was applied to any block since it was read.
        own_origin[dominator, at.READ] = position[dominator, at.APPLIED]
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
                if position[party, at.WAITING] == capacity:
                    return False
                place = (position[party, at.HEAD] + position[party, at.WAITING]) % capacity
                time[party, place] = due
                theta[party, place] = slope
                origin[party, place, at.SAMPLE] = row
                origin[party, place, at.ORDER] = number
                origin[party, place, at.READ] = position[party, at.APPLIED]
                position[party, at.WAITING] += 1
        counts[at.DECIDED] += 1
        numbers[at.LAST_SUM] = sum_time
        if not rule.barrier:
            begin[dominator] = own_time[dominator]
            continue
        begin[dominator] = math.inf
        # By loops: NumPy's `min` and `max` take as long to compile as all of an update.
        first, latest = math.inf, own_time[0]
        for other in range(len(begin)):
            first, latest = min(first, begin[other]), max(latest, own_time[other])
        if first == math.inf:
            # The barrier: all begin when the last update of all will have been applied.
            for party in range(parties):
                if position[party, at.WAITING]:
                    last = (position[party, at.HEAD] + position[party, at.WAITING] - 1) % capacity
                    latest = max(latest, time[party, last])
            begin[:] = latest
    return True
