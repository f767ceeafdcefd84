"""The work of parties in order of time; docs/adding/parties.md has the model of time.

Beginnings and sums of dominators are handled in order of time, so that every update is known that
is due by the next of them. A block has no clock but its own: it is brought up to the time of a read
when the sum is handled for which it was read, or that of a later read of the same block.
"""

import math

import numpy as np

import fedatlas.federations.vertical.kernels as at
from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.formulas import loss_derivative
from fedatlas.federations.vertical.kernels import PLAIN, TABLE
from fedatlas.federations.vertical.kernels.blocks import settle_block, share, update, update_by
from fedatlas.federations.vertical.kernels.draws import (
    SHARE,
    UPDATE,
    hide,
    revealed_sum,
    time_taken,
)


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


@compiled(inline="always")
def _begin(dominator, row, timing, time_distributions, queues):
    """A dominator asks for shares of a sample: when they are read, and when it has their sum."""
    own, begin, asked, reads = queues.own, queues.begin, queues.asked, queues.reads
    work = timing.work
    since = begin[dominator] + timing.latency
    last = since + timing.slowest
    if time_distributions is not None:
        last = 0.0
        iteration = np.int64(asked[dominator, at.ITERATION])
        for party in range(len(work)):
            read = since + time_taken(
                work, time_distributions, party, since, iteration, dominator, SHARE,
                own, asked, reads, queues.threads,
            )  # fmt: skip
            reads[party, dominator, at.PENDING] = reads[party, dominator, at.WHEN] = read
            last = max(last, read)
    asked[dominator, at.SUM] = last + timing.aggregation
    asked[dominator, at.ROW] = row
    asked[dominator, at.SINCE] = since
    begin[dominator] = math.inf


@compiled(inline="always")
def _announce(due, label, party, upcoming, counts):
    """Note a collaborative update of the sum `label`, in order of time: most come last."""
    room = len(upcoming)
    place = counts[at.NEXT] + counts[at.UPCOMING]
    if place >= room:
        place -= room
    moves = counts[at.UPCOMING]
    while moves > 0:
        before = place - 1 if place > 0 else room - 1
        if upcoming[before, 0] <= due:
            break
        for item in range(3):
            upcoming[place, item] = upcoming[before, item]
        place = before
        moves -= 1
    upcoming[place, 0] = due
    upcoming[place, 1] = label
    upcoming[place, 2] = party
    counts[at.UPCOMING] += 1


@compiled(inline="always")
def _label(until, upcoming, ring, position, counts, numbers):
    """Give collaborative updates that are due at `until` or before their global iterations."""
    capacity = ring.shape[1]
    place, left, now = counts[at.NEXT], counts[at.UPCOMING], counts[at.GLOBAL]
    while left > 0 and upcoming[place, 0] <= until:
        party = np.int64(upcoming[place, 2])
        numbers[at.TAU_2] = max(numbers[at.TAU_2], now - upcoming[place, 1])
        numbers[at.ETA_1] = max(numbers[at.ETA_1], now - position[party, at.VISITED])
        position[party, at.VISITED] = now
        # Of one party both queues have the same order.
        own = position[party, at.HEAD] + position[party, at.LABELLED]
        ring[party, own if own < capacity else own - capacity, at.LABEL] = now
        position[party, at.LABELLED] += 1
        now += 1
        left -= 1
        place = place + 1 if place + 1 < len(upcoming) else 0
    counts[at.NEXT] = place
    counts[at.UPCOMING] = left
    counts[at.GLOBAL] = now


@compiled(allocates=False)
def advance(
    blocks, rule, timing, time_distributions, step, scratch, draws, wanted, until, trees, masking,
    w, mean, reference, queues, tally,
):  # fmt: skip
    """Run until `wanted` more dominated updates have been decided, beginning iterations on the
    samples `draws`, and then apply every update that is due at `until` or before; changes w, mean,
    reference, queues, tally. Iterations that are under way count among those wanted.

    time_distributions: None where every time is that of `timing`. step: of a method whose
    blocks move by a function of its own, else None; for either this is compiled apart.
    trees: (m, 2, q − 1, 2) aggregation steps (receiver, sender) of Algorithm 1's two trees, for
    each dominator. reference: (n, 0, 1 or q). Returns False if a queue overflowed.
    """
    # Arrays out of their tuples, once: to look one up costs more than an update.
    starts, dense, bounds, columns, values, labels = blocks
    ring, own, position, threads, begin, asked, reads, upcoming = queues
    counts, numbers = tally
    work = timing.work
    parties, capacity, dominators = len(position), ring.shape[1], len(begin)
    scale, drift, touched, masked, masks, ring_masked, ring_masks = scratch
    begun = 0
    while True:
        deciding = wanted > 0
        dominator, beginner = 0, 0
        limit = until
        if deciding:
            for other in range(1, dominators):
                if asked[other, at.SUM] < asked[dominator, at.SUM]:
                    dominator = other
                if begin[other] < begin[beginner]:
                    beginner = other
            if begun < len(draws) and begin[beginner] < asked[dominator, at.SUM]:
                _begin(beginner, draws[begun], timing, time_distributions, queues)
                begun += 1
                continue
            limit = asked[dominator, at.SUM]
        _label(limit, upcoming, ring, position, counts, numbers)
        row, number = np.int64(asked[dominator, at.ROW]), counts[at.DECIDED]
        plain, lacked, fits = 0.0, math.inf, True
        for party in range(parties):
            # What is due before a read may be applied only now: nobody else saw the block.
            now = position[party, at.APPLIED]
            place, waiting = position[party, at.HEAD], position[party, at.WAITING]
            alone = own[party, at.TIME] if party < len(own) else math.inf
            missing = True
            if time_distributions is not None and deciding:
                missing = reads[party, dominator, at.PENDING] < math.inf
            while missing:
                reader = dominator
                if deciding:
                    limit = asked[dominator, at.SINCE] + work[party]
                    if time_distributions is not None:
                        # Shares of later sums may have been read before.
                        for other in range(dominators):
                            if reads[party, other, at.PENDING] < reads[party, reader, at.PENDING]:
                                reader = other
                        limit = reads[party, reader, at.PENDING]
                while True:
                    queued = ring[party, place, at.TIME] if waiting else math.inf
                    due = min(alone, queued)
                    if due > limit or due == math.inf:
                        break
                    if alone < queued or (
                        alone == queued and own[party, at.ORDER] < ring[party, place, at.ORDER]
                    ):
                        slope, sample = own[party, at.SLOPE], np.int64(own[party, at.SAMPLE])
                        seen, visit = own[party, at.READ], own[party, at.ORDER]
                        own[party, at.TIME] = alone = math.inf
                    else:
                        slope, sample = (
                            ring[party, place, at.SLOPE],
                            np.int64(ring[party, place, at.SAMPLE]),
                        )
                        seen, visit = ring[party, place, at.READ], ring[party, place, at.LABEL]
                        place = place + 1 if place + 1 < capacity else 0
                        waiting -= 1
                        position[party, at.LABELLED] -= 1
                    counts[at.BLOCK_UPDATES] += 1
                    numbers[at.UPDATE_DELAYS] += now - seen
                    numbers[at.LARGEST_UPDATE_DELAY] = max(
                        numbers[at.LARGEST_UPDATE_DELAY], now - seen
                    )
                    numbers[at.LAST_APPLICATION] = max(numbers[at.LAST_APPLICATION], due)
                    difference = _difference(rule, party, sample, slope, reference)
                    if step is None:
                        update(
                            party, sample, difference, starts, dense, bounds, columns, values,
                            rule, len(labels), scale, drift, touched, now, w, mean,
                        )  # fmt: skip
                    else:
                        update_by(
                            step, party, sample, difference, starts, dense, bounds, columns,
                            values, rule, len(labels), touched, now, w, mean,
                        )  # fmt: skip
                    now += 1
                    if time_distributions is not None:
                        for other in range(dominators):
                            if reads[party, other, at.PENDING] == math.inf:
                                first = reads[party, other, at.LACKED]
                                reads[party, other, at.LACKED] = min(first, visit)
                if not deciding:
                    break
                reads[party, reader, at.PART] = share(
                    party, np.int64(asked[reader, at.ROW]), starts, dense, bounds, columns, values,
                    rule, scale, drift, touched, now, w, mean,
                )  # fmt: skip
                reads[party, reader, at.PENDING] = math.inf
                reads[party, reader, at.SEEN] = now
                reads[party, reader, at.LACKED] = math.inf
                missing = reader != dominator
            position[party, at.APPLIED] = now
            position[party, at.HEAD] = place
            position[party, at.WAITING] = waiting
            if not deciding:
                continue
            part = reads[party, dominator, at.PART]
            plain += part
            # One party has nothing to hide from itself.
            if parties > 1 and not hide(
                masking, number * parties + party, party, part, masked, masks, ring_masked,
                ring_masks,
            ):  # fmt: skip
                fits = False
            lacking = waiting + now - reads[party, dominator, at.SEEN]
            lacked = min(lacked, reads[party, dominator, at.LACKED])
            if alone < math.inf:
                lacking += 1
                lacked = min(lacked, own[party, at.ORDER])
            if position[party, at.LABELLED] > 0:
                lacked = min(lacked, ring[party, place, at.LABEL])
            counts[at.READS] += 1
            numbers[at.READ_DELAYS] += lacking
            numbers[at.LARGEST_READ_DELAY] = max(numbers[at.LARGEST_READ_DELAY], lacking)
        if not deciding:
            break
        slope, error = math.nan, math.inf  # where a share does not fit into the ring
        if fits:
            margin = plain
            if parties > 1:
                margin = revealed_sum(
                    masking, trees[dominator], masked, masks, ring_masked, ring_masks
                )
            slope = loss_derivative(rule.loss, margin, labels[row])
            error = abs(margin - plain) if parties > 1 else 0.0
        numbers[at.MASK_ERROR] = max(numbers[at.MASK_ERROR], error)
        sum_time, iteration = asked[dominator, at.SUM], np.int64(asked[dominator, at.ITERATION])
        label = counts[at.GLOBAL]
        numbers[at.TAU_1] = max(numbers[at.TAU_1], label - lacked)
        numbers[at.ETA_1] = max(numbers[at.ETA_1], label - position[dominator, at.VISITED])
        position[dominator, at.VISITED] = label
        asked[dominator, at.SUM] = math.inf
        asked[dominator, at.ITERATION] += 1
        finished = sum_time + time_taken(
            work, time_distributions, dominator, sum_time, iteration, dominator, UPDATE,
            own, asked, reads, threads,
        )  # fmt: skip
        own[dominator, at.TIME] = finished
        own[dominator, at.SLOPE] = slope
        own[dominator, at.SAMPLE] = row
        own[dominator, at.ORDER] = label
        own[dominator, at.READ] = reads[dominator, dominator, at.SEEN]
        if rule.backward:
            arrival = sum_time + timing.latency
            for place in range(parties):
                party = timing.order[place]
                if party == dominator:
                    continue
                thread = 0
                for other in range(1, threads.shape[1]):
                    if threads[party, other, at.UNTIL] < threads[party, thread, at.UNTIL]:
                        thread = other
                taken = threads[party, thread, at.UNTIL]
                if taken <= arrival:
                    taken = threads[party, thread, at.FROM] = arrival
                due = taken + time_taken(
                    work, time_distributions, party, taken, iteration, dominator, UPDATE,
                    own, asked, reads, threads,
                )  # fmt: skip
                threads[party, thread, at.UNTIL] = due
                _announce(due, label, party, upcoming, counts)
                waiting = position[party, at.WAITING]
                if waiting == capacity:
                    return False
                place = position[party, at.HEAD] + waiting
                if place >= capacity:
                    place -= capacity
                # In order of time: services differ.
                while waiting > 0:
                    before = place - 1 if place > 0 else capacity - 1
                    if ring[party, before, at.TIME] <= due:
                        break
                    for item in range(ring.shape[2]):
                        ring[party, place, item] = ring[party, before, item]
                    place = before
                    waiting -= 1
                ring[party, place, at.TIME] = due
                ring[party, place, at.SLOPE] = slope
                ring[party, place, at.SAMPLE] = row
                ring[party, place, at.ORDER] = label
                ring[party, place, at.READ] = reads[party, dominator, at.SEEN]
                position[party, at.WAITING] += 1
        counts[at.DECIDED] += 1
        counts[at.GLOBAL] += 1
        wanted -= 1
        numbers[at.LAST_SUM] = sum_time
        if not rule.barrier:
            begin[dominator] = finished
            continue
        # By loops: NumPy's `min` and `max` take as long to compile as all of an update.
        first, latest = math.inf, numbers[at.LAST_APPLICATION]
        for other in range(dominators):
            first = min(first, begin[other], asked[other, at.SUM])
            if own[other, at.TIME] < math.inf:
                latest = max(latest, own[other, at.TIME])
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
