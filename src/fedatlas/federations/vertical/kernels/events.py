"""Dominated updates in order of time; `vertical.network` states the model of time."""

import math

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.formulas import loss_derivative
from fedatlas.federations.vertical.kernels import state as at
from fedatlas.federations.vertical.kernels.state import PLAIN, TABLE
from fedatlas.federations.vertical.kernels.sums import hide, revealed_sum
from fedatlas.federations.vertical.kernels.updates import settle_block, share, update


@compiled(inline="always")
def _difference(rule, party, row, slope, reference):
    """ϑ − ϑ_ref; a table then has the new ϑ. reference: (n, 0, 1 or q)."""
    if rule.reference == PLAIN:
        return slope
    column = party if rule.reference == TABLE else 0
    difference = slope - reference[row, column]
    if rule.reference == TABLE:
        reference[row, column] = slope
    return difference


@compiled(allocates=False)
def decide_alone(blocks, rule, timing, scratch, draws, w, mean, reference, queues, tally):
    """`advance` where there is one party: it has everything it needs when it decides, so that
    nothing waits but its own last update, and hides nothing from itself.
    """
    starts, dense, bounds, columns, values, labels = blocks
    own, position, begin = queues.own, queues.position, queues.begin
    counts, numbers = tally
    scale, drift, touched = scratch.scale, scratch.drift, scratch.touched
    applied = position[0, at.APPLIED]
    row, slope = np.int64(own[0, at.SAMPLE]), own[0, at.SLOPE]
    for event in range(len(draws)):
        if event > 0 or own[0, at.TIME] < math.inf:
            difference = _difference(rule, 0, row, slope, reference)
            update(
                0, row, difference, starts, dense, bounds, columns, values, rule, len(labels),
                scale, drift, touched, applied, w, mean,
            )  # fmt: skip
            applied += 1
        row = draws[event]
        margin = share(
            0, row, starts, dense, bounds, columns, values, rule,
            scale, drift, touched, applied, w, mean,
        )  # fmt: skip
        slope = loss_derivative(rule.loss, margin, labels[row])
    # Times are whole numbers: one product equals the sum over iterations, exactly.
    took = timing.slowest + timing.work[0]
    began = begin[0] + (len(draws) - 1) * took
    counts[at.DECIDED] += len(draws)
    counts[at.READS] += len(draws)
    counts[at.BLOCK_UPDATES] += applied - position[0, at.APPLIED]
    numbers[at.LAST_SUM] = began + timing.slowest
    if applied > position[0, at.APPLIED]:
        numbers[at.LAST_APPLICATION] = max(numbers[at.LAST_APPLICATION], began)
    position[0, at.APPLIED] = applied
    begin[0] = began + took
    own[0, at.TIME] = began + took
    own[0, at.SLOPE] = slope
    own[0, at.SAMPLE] = row
    own[0, at.ORDER] = counts[at.DECIDED] - 1
    own[0, at.READ] = applied
    if dense.shape[0] == 0:
        settle_block(starts[0], starts[1], applied, rule, scale[0], drift[0], touched, w, mean)


@compiled(allocates=False)
def advance(
    blocks, rule, timing, scratch, draws, until, trees, law,
    w, mean, reference, queues, tally,
):  # fmt: skip
    """Run until `len(draws)` more dominated updates have been decided, on those samples, and then
    apply every update that is due at `until` or before; changes w, mean, reference, queues, tally.

    trees: (m, 2, q − 1, 2) aggregation steps (receiver, sender) of Algorithm 1's two trees, for
    each dominator. reference: (n, 0, 1 or q). Returns False if a queue overflowed.
    """
    # Arrays out of their tuples, once: to look one up costs more than an update.
    starts, dense, bounds, columns, values, labels = blocks
    ring, own, position, threads, begin = queues
    counts, numbers = tally
    work = timing.work
    parties, capacity = len(position), ring.shape[1]
    scale, drift, touched, masked, masks, ring_masked, ring_masks = scratch
    for event in range(len(draws) + 1):
        deciding = event < len(draws)
        row, dominator, asked, plain, fits = 0, 0, 0.0, 0.0, True
        number = counts[at.DECIDED]
        if deciding:
            row = draws[event]
            # All sums take equally long: who began first has the next one.
            for other in range(1, len(begin)):
                if begin[other] < begin[dominator]:
                    dominator = other
            asked = begin[dominator] + timing.latency
        for party in range(parties):
            # What is due before this read may be applied only now: nobody else saw the block.
            limit = asked + work[party] if deciding else until
            now = position[party, at.APPLIED]
            place, waiting = position[party, at.HEAD], position[party, at.WAITING]
            alone = own[party, at.TIME] if party < len(own) else math.inf
            while True:
                queued = ring[party, place, at.TIME] if waiting else math.inf
                due = min(alone, queued)
                if due > limit or due == math.inf:
                    break
                if alone < queued or (
                    alone == queued and own[party, at.ORDER] < ring[party, place, at.ORDER]
                ):
                    slope, sample = own[party, at.SLOPE], np.int64(own[party, at.SAMPLE])
                    seen = own[party, at.READ]
                    own[party, at.TIME] = alone = math.inf
                else:
                    slope, sample = (
                        ring[party, place, at.SLOPE],
                        np.int64(ring[party, place, at.SAMPLE]),
                    )
                    seen = ring[party, place, at.READ]
                    place = place + 1 if place + 1 < capacity else 0
                    waiting -= 1
                counts[at.BLOCK_UPDATES] += 1
                numbers[at.UPDATE_DELAYS] += now - seen
                numbers[at.LARGEST_UPDATE_DELAY] = max(numbers[at.LARGEST_UPDATE_DELAY], now - seen)
                numbers[at.LAST_APPLICATION] = max(numbers[at.LAST_APPLICATION], due)
                difference = _difference(rule, party, sample, slope, reference)
                update(
                    party, sample, difference, starts, dense, bounds, columns, values, rule,
                    len(labels), scale, drift, touched, now, w, mean,
                )  # fmt: skip
                now += 1
            position[party, at.APPLIED] = now
            position[party, at.HEAD] = place
            position[party, at.WAITING] = waiting
            if not deciding:
                continue
            part = share(
                party, row, starts, dense, bounds, columns, values, rule,
                scale, drift, touched, now, w, mean,
            )  # fmt: skip
            plain += part
            if not hide(
                law, number * parties + party, party, part, masked, masks, ring_masked, ring_masks
            ):
                fits = False
            lacking = waiting
            if alone < math.inf:
                lacking += 1
            counts[at.READS] += 1
            numbers[at.READ_DELAYS] += lacking
            numbers[at.LARGEST_READ_DELAY] = max(numbers[at.LARGEST_READ_DELAY], lacking)
        if not deciding:
            break
        slope, error = math.nan, math.inf  # where a share does not fit into the ring
        if fits:
            margin = revealed_sum(law, trees[dominator], masked, masks, ring_masked, ring_masks)
            slope = loss_derivative(rule.loss, margin, labels[row])
            error = abs(margin - plain)
        numbers[at.MASK_ERROR] = max(numbers[at.MASK_ERROR], error)
        sum_time = asked + timing.slowest + timing.aggregation
        finished = sum_time + work[dominator]
        own[dominator, at.TIME] = finished
        own[dominator, at.SLOPE] = slope
        own[dominator, at.SAMPLE] = row
        own[dominator, at.ORDER] = number
        # Nothing was applied to any block since it was read.
        own[dominator, at.READ] = position[dominator, at.APPLIED]
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
                ring[party, place, at.TIME] = due
                ring[party, place, at.SLOPE] = slope
                ring[party, place, at.SAMPLE] = row
                ring[party, place, at.ORDER] = number
                ring[party, place, at.READ] = position[party, at.APPLIED]
                position[party, at.WAITING] += 1
        counts[at.DECIDED] += 1
        numbers[at.LAST_SUM] = sum_time
        if not rule.barrier:
            begin[dominator] = finished
            continue
        begin[dominator] = math.inf
        # By loops: NumPy's `min` and `max` take as long to compile as all of an update.
        first, latest = math.inf, own[0, at.TIME]
        for other in range(len(begin)):
            first, latest = min(first, begin[other]), max(latest, own[other, at.TIME])
        if first == math.inf:
            # The barrier: all begin when the last update of all will have been applied.
            for party in range(parties):
                if position[party, at.WAITING]:
                    last = (position[party, at.HEAD] + position[party, at.WAITING] - 1) % capacity
                    latest = max(latest, ring[party, last, at.TIME])
            begin[:] = latest
    if dense.shape[0] == 0:
        for party in range(parties):
            settle_block(
                starts[party], starts[party + 1], position[party, at.APPLIED], rule,
                scale[party], drift[party], touched, w, mean,
            )  # fmt: skip
    return True
