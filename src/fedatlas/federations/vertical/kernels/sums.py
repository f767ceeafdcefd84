"""Masked sums of parties' shares (VFB², Algorithm 1), and the numbers of counters that masks are.

SplitMix64 (Steele, Lea and Flood 2014): the word of a number is that of the generator, seeded with
the key, after as many steps. Nothing is stored, and any number can be made at any time. Masks are
real, or integers modulo 2^64, which wrap around, see `vertical.secure_sum`.
"""

import math

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled


@compiled(inline="always")
def bits(key, number):
    """The word of a number: 64 pseudo-random bits."""
    z = key + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled(inline="always")
def uniform(key, number):
    """In [0, 1), in steps of 2⁻⁵³."""
    return np.float64(bits(key, number) >> np.uint64(11)) * 2.0**-53


@compiled(inline="always")
def mask(key, number):
    """In [−1, 1), in steps of 2⁻⁵²."""
    return 2.0 * uniform(key, number) - 1.0


@compiled(allocates=False)
def normal(key, number):
    """Of mean 0 and variance 1 (Box and Muller 1958), from the uniforms 2·number, 2·number + 1."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, 2 * number)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * number + 1))


@compiled(inline="always")
def hide(law, number, party, share, masked, masks, ring_masked, ring_masks):
    """Algorithm 1, step 2: a party draws its mask and adds it to its share.

    False for a share that does not fit into the ring, or is not a number: it has no sum.
    """
    if not abs(share) < law.limit:
        return False
    if law.steps == 0.0:
        masks[party] = law.scale * mask(law.key, number)
        masked[party] = share + masks[party]
    else:
        ring_masks[party] = bits(law.key, number)
        ring_masked[party] = np.uint64(np.int64(np.rint(share * law.steps))) + ring_masks[party]
    return True


@compiled(inline="always")
def revealed_sum(law, trees, masked, masks, ring_masked, ring_masks):
    """Algorithm 1, steps 4 to 6: the sum of shares that `hide` has hidden."""
    if law.steps == 0.0:
        return unmasked_sum(trees, masked, masks)
    return np.float64(np.int64(unmasked_sum(trees, ring_masked, ring_masks))) / law.steps


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
def secure_margins(blocks, trees, law, first_mask, scratch, w, margins):
    """Algorithm 1 for every sample at w: fills margins (n,), gives the largest error of masks, inf
    where a share does not fit into the ring; that margin is NaN.

    trees: (2, q − 1, 2) aggregation steps (receiver, sender). first_mask: number of the first mask,
    so that no two sums of a run share one.
    """
    starts, dense, bounds, columns, values, _ = blocks
    masked, masks, ring_masked, ring_masks = (
        scratch.masked,
        scratch.masks,
        scratch.ring_masked,
        scratch.ring_masks,
    )
    parties, error = len(masks), 0.0
    for row in range(len(margins)):
        plain, fits = 0.0, True
        for party in range(parties):
            share = 0.0
            if dense.shape[0]:
                for j in range(np.uint64(starts[party]), np.uint64(starts[party + 1])):
                    share += dense[row, j] * w[j]
            else:
                for entry in range(
                    np.uint64(bounds[row, party]), np.uint64(bounds[row, party + 1])
                ):
                    share += values[entry] * w[np.uint32(columns[entry])]
            plain += share
            number = first_mask + row * parties + party
            if not hide(law, number, party, share, masked, masks, ring_masked, ring_masks):
                fits = False
        if not fits:
            margins[row], error = math.nan, math.inf
            continue
        margins[row] = revealed_sum(law, trees, masked, masks, ring_masked, ring_masks)
        error = max(error, abs(margins[row] - plain))
    return error
