"""What `drawing` does, compiled: the same samples."""

import numpy as np

from fedatlas.arithmetic.drawing import MinibatchSampler
from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.philox import fill_uniform

# Arrays that numba returns take 1 µs each to become numpy's: loops fill arrays of numpy's.


@compiled
def _hold(
    offsets: np.ndarray, clients: np.ndarray, starts: np.ndarray, sizes: np.ndarray
) -> tuple[int, int]:
    total = largest = 0
    for s in range(len(clients)):
        starts[s] = offsets[clients[s]]
        sizes[s] = offsets[clients[s] + 1] - starts[s]
        total += sizes[s]
        largest = max(largest, sizes[s])
    return total, largest


def _held_rows(offsets: np.ndarray, clients: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int]:
    starts, sizes = np.empty(len(clients), np.int64), np.empty(len(clients), np.int64)
    return starts, sizes, *_hold(offsets, clients, starts, sizes)


@compiled
def _shuffle(
    numbers: np.ndarray, starts: np.ndarray, held: np.ndarray, sizes: np.ndarray, rows: np.ndarray
) -> tuple[int, int]:
    clients, steps, size = rows.shape
    taken = np.empty(size, dtype=np.uint64)  # no sign: see kernels.formulas
    total = largest = most = 0
    for s in range(clients):
        sizes[s] = min(held[s], size)
        total += sizes[s]
        largest, most = max(largest, sizes[s]), max(most, held[s])
    deck = np.arange(most)
    for s in range(clients):
        first, whole, drawn = starts[s], held[s], sizes[s]
        for k in range(steps):
            # A partial Fisher–Yates shuffle, undone afterwards so that the deck is never rebuilt.
            for t in range(drawn):
                place = np.uint64(t + int(numbers[(s * steps + k) * size + t] * (whole - t)))
                rows[s, k, t] = first + deck[place]
                deck[place], taken[t] = deck[t], place
            for t in range(drawn):
                deck[taken[t]] = taken[t]
            for t in range(drawn, size):
                rows[s, k, t] = 0
    return total, largest


def _distinct_rows(
    uniform: np.ndarray, starts: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, int, int, np.ndarray]:
    sizes, rows = np.empty(len(starts), np.int64), np.empty(uniform.shape, np.int64)
    return sizes, *_shuffle(uniform.ravel(), starts, held, sizes, rows), rows


@compiled
def _draw_and_shuffle(
    stream: np.ndarray, starts: np.ndarray, held: np.ndarray, sizes: np.ndarray, rows: np.ndarray
) -> tuple[int, int]:
    numbers = np.empty(rows.size)
    fill_uniform(stream, numbers)
    return _shuffle(numbers, starts, held, sizes, rows)


def distinct_rows_of_stream(
    stream: np.ndarray, starts: np.ndarray, held: np.ndarray, steps: int, size: int
) -> tuple[np.ndarray, int, int, np.ndarray]:
    """By the next uniform numbers of a stream of `kernels.philox`."""
    clients = len(starts)
    sizes, rows = np.empty(clients, np.int64), np.empty((clients, steps, size), np.int64)
    return sizes, *_draw_and_shuffle(stream, starts, held, sizes, rows), rows


COMPILED = MinibatchSampler(_held_rows, _distinct_rows)
