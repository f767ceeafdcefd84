"""Numbers of counters in compiled loops: masks of shares, and how long shares and updates take.

SplitMix64 (Steele, Lea and Flood 2014): the word of a number is that of the generator, seeded with
the key, after as many steps. Nothing is stored, and any number can be made at any time.

Masked sums are those of VFB², Algorithm 1; masks are real, or integers modulo 2^64, which wrap
around, see `vertical.secure_sum`. Numbers of times are those of a dominator's iteration, a party,
and whether it is the share or the update, so that methods that wait and methods that do not draw
the same times; docs/adding/parties.md has the model.
"""

import math

import numpy as np

import fedatlas.federations.vertical.kernels as at
from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.federations.vertical.kernels.blocks import share


@compiled(inline="always")
def bits(key, number):
    """The word of a number: 64 pseudo-random bits."""
    z = key + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled(inline="always")
def uniform(key, number):
    """A number in [0, 1), in steps of 2⁻⁵³."""
    return np.float64(bits(key, number) >> np.uint64(11)) * 2.0**-53


@compiled(inline="always")
def mask(key, number):
    """A number in [−1, 1), in steps of 2⁻⁵²."""
    return 2.0 * uniform(key, number) - 1.0


@compiled(allocates=False)
def normal(key, number):
    """A standard normal number (Box and Muller 1958), from the uniforms 2·number, 2·number + 1."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, 2 * number)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * number + 1))


@compiled(inline="always")
def hide(masking, number, party, part, masked, masks, ring_masked, ring_masks):
    """Algorithm 1, step 2: a party draws its mask and adds it to its share.

    False for a share that does not fit into the ring, or is not a number: it has no sum.
    """
    if not abs(part) < masking.limit:
        return False
    if masking.steps == 0.0:
        masks[party] = masking.scale * mask(masking.key, number)
        masked[party] = part + masks[party]
    else:
        ring_masks[party] = bits(masking.key, number)
        ring_masked[party] = np.uint64(np.int64(np.rint(part * masking.steps))) + ring_masks[party]
    return True


@compiled(inline="always")
def revealed_sum(masking, trees, masked, masks, ring_masked, ring_masks):
    """Algorithm 1, steps 4 to 6: the sum of shares that `hide` has hidden."""
    if masking.steps == 0.0:
        return unmasked_sum(trees, masked, masks)
    return np.float64(np.int64(unmasked_sum(trees, ring_masked, ring_masks))) / masking.steps


@compiled(inline="always")
def unmasked_sum(trees, masked, masks):
    """Both sums along their trees, and their difference; in the ring all of it wraps around."""
    steps = trees.shape[1]
    for step in range(steps):
        masked[trees[0, step, 0]] += masked[trees[0, step, 1]]
        masks[trees[1, step, 0]] += masks[trees[1, step, 1]]
    if steps == 0:
        return masked[0] - masks[0]
    return masked[trees[0, steps - 1, 0]] - masks[trees[1, steps - 1, 0]]


@compiled(allocates=False)
def secure_margins(blocks, rule, trees, masking, first_mask, scratch, w, mean, margins):
    """Algorithm 1 for every sample at w, which is settled: fills margins (n,), gives the largest
    error of masks, inf where a share does not fit into the ring; that margin is NaN.

    trees: (2, q − 1, 2) aggregation steps (receiver, sender). first_mask: number of the first mask,
    so that no two sums of a run share one.
    """
    starts, dense, bounds, columns, values, _ = blocks
    scale, drift, touched, masked, masks, ring_masked, ring_masks = scratch
    parties, error = len(masks), 0.0
    for row in range(len(margins)):
        plain, fits = 0.0, True
        for party in range(parties):
            part = share(
                party, row, starts, dense, bounds, columns, values, rule, scale, drift, touched,
                0, w, mean,
            )  # fmt: skip
            plain += part
            number = first_mask + row * parties + party
            if not hide(masking, number, party, part, masked, masks, ring_masked, ring_masks):
                fits = False
        if not fits:
            margins[row], error = math.nan, math.inf
            continue
        margins[row] = revealed_sum(masking, trees, masked, masks, ring_masked, ring_masks)
        error = max(error, abs(margins[row] - plain))
    return error


SHARE, UPDATE = 0, 1


@compiled(allocates=False)
def factor(factors, key, number):
    """One of `factors`, (times,) of mean 1, which are equally likely."""
    return factors[np.int64(uniform(key, number) * len(factors))]


@compiled(allocates=False)
def drifted(spread, period, key, party, parties, time):
    """The factor of a party in the period in which `time` lies; 1 without drift."""
    if spread == 0.0:
        return 1.0
    number = np.int64(time // period) * parties + party
    return math.exp(spread * (normal(key, number) - 0.5 * spread))


@compiled(allocates=False)
def busy_with(party, begins, own, asked, reads, threads):
    """How much a party computes at the moment at which something begins there, as far as is known.

    Its own update, shares, and of each thread the latest work.
    """
    found = 0.0
    if party < len(own) and begins < own[party, at.TIME] < math.inf:
        found += 1.0
    for dominator in range(len(asked)):
        if (
            asked[dominator, at.SUM] < math.inf
            and asked[dominator, at.SINCE] <= begins
            and reads[party, dominator, at.WHEN] > begins
        ):
            found += 1.0
    for thread in range(threads.shape[1]):
        if threads[party, thread, at.FROM] <= begins < threads[party, thread, at.UNTIL]:
            found += 1.0
    return found


@compiled(inline="always")
def time_taken(
    work, time_distributions, party, begins, iteration, dominator, what, own, asked, reads, threads
):
    """How long a party takes for a SHARE or an UPDATE of a dominator's iteration, in nanoseconds.

    work: (q,) on average. time_distributions: None where it is the average, otherwise it takes one
    at least. own to threads: the queues, by which work shares cores.
    """
    took = work[party]
    if time_distributions is not None:
        factors, spread, period, cores, keys = time_distributions
        busy = 0.0
        if cores < math.inf:
            busy = busy_with(party, begins, own, asked, reads, threads)
        number = ((iteration * len(asked) + dominator) * len(work) + party) * 2 + what
        took *= factor(factors, keys[0], number)
        took *= drifted(spread, period, keys[1], party, len(work), begins)
        took = max(1.0, np.rint(took * max(1.0, (1.0 + busy) / cores)))
    return took
