"""How minibatches are drawn, in Python and numpy; `compiled_drawing` draws the same ones."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class MinibatchSampler(NamedTuple):
    """`held_rows` and `distinct_rows` as defined below, or compiled."""

    held_rows: Callable[..., tuple[np.ndarray, np.ndarray, int, int]]
    distinct_rows: Callable[..., tuple[np.ndarray, int, int, np.ndarray]]


def sum_and_largest(sizes: np.ndarray) -> tuple[int, int]:
    """Sum and maximum of row counts (S,); both 0 if S = 0."""
    return int(sizes.sum()), int(sizes.max(initial=0))


def held_rows(offsets: np.ndarray, clients: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Each client's first row and row count, (S,), and the sum and the largest of the counts.

    offsets: (N + 1,) client i holds rows offsets[i] to offsets[i + 1].
    """
    starts = offsets[clients]
    sizes = offsets[clients + 1] - starts
    return starts, sizes, *sum_and_largest(sizes)


def distinct_rows(
    uniform: np.ndarray, starts: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, int, int, np.ndarray]:
    """Row numbers drawn uniformly without replacement: sizes, their sum and the largest, rows.

    uniform: (S, steps, size) in [0, 1); starts, held: (S,) first row and row count. A client with
    fewer than `size` rows has all of them, in some order, and zeros behind.
    """
    order = np.arange(uniform.shape[2])
    sizes = np.minimum(held, len(order))
    taken = order + (uniform * (held[:, None, None] - order)).astype(np.int64)
    places = np.zeros(uniform.shape, dtype=np.int64)
    for s, (of_client, size) in enumerate(zip(taken.tolist(), sizes.tolist(), strict=True)):
        for k, of_step in enumerate(of_client):
            # A partial Fisher–Yates shuffle of a deck that is stored only where it has changed.
            moved: dict[int, int] = {}
            drawn = []
            for t, place in enumerate(of_step[:size]):
                drawn.append(moved.get(place, place))
                moved[place] = moved.get(t, t)
            places[s, k, :size] = drawn
    rows = np.where(order < sizes[:, None, None], places + starts[:, None, None], 0)
    return sizes, *sum_and_largest(sizes), rows


IN_PYTHON = MinibatchSampler(held_rows, distinct_rows)
