"""Masked sums of parties' shares (VFB², Algorithm 1), and where parties' columns begin."""

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled


@compiled(inline="always")
def mask(key, number):
    """A pseudo-random number in [−1, 1) of a counter (SplitMix64, Steele et al. 2014)."""
    z = key + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (2.0 / 9007199254740992.0) - 1.0


@compiled(inline="always")
def unmasked_sum(trees, masked, masks):
    """Algorithm 1, steps 4 to 6: both sums along their trees, and their difference."""
    steps = trees.shape[1]
    for step in range(steps):
        masked[trees[0, step, 0]] += masked[trees[0, step, 1]]
        masks[trees[1, step, 0]] += masks[trees[1, step, 1]]
    if steps == 0:
        return masked[0] - masks[0]
    return masked[trees[0, steps - 1, 0]] - masks[trees[1, steps - 1, 0]]


@compiled
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
            masks[party] = mask_scale * mask(mask_key, number)
            masked[party] = share + masks[party]
        margins[row] = unmasked_sum(trees, masked, masks)
        error = max(error, abs(margins[row] - plain))
    return margins, error


@compiled
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
