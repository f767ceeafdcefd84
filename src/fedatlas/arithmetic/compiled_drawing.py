"""What `drawing` does, compiled: the same samples."""

import numpy as np

from fedatlas.arithmetic.drawing import Drawing
from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.philox import uniform


@compiled
def _held_rows(offsets: np.ndarray, clients: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int]:
    starts = np.empty(len(clients), dtype=np.int64)
    sizes = np.empty(len(clients), dtype=np.int64)
    total = largest = 0
    for s in range(len(clients)):
        starts[s] = offsets[clients[s]]
        sizes[s] = offsets[clients[s] + 1] - starts[s]
        total += sizes[s]
        largest = max(largest, sizes[s])
    return starts, sizes, total, largest


@compiled
def _distinct_rows(
    numbers: np.ndarray, starts: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, int, int, np.ndarray]:
    clients, steps, size = numbers.shape
    sizes = np.empty(clients, dtype=np.int64)
    rows = np.zeros((clients, steps, size), dtype=np.int64)
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
                place = np.uint64(t + int(numbers[s, k, t] * (whole - t)))
                rows[s, k, t] = first + deck[place]
                deck[place], taken[t] = deck[t], place
            for t in range(drawn):
                deck[taken[t]] = taken[t]
    return sizes, total, largest, rows


@compiled
def distinct_rows_of_stream(
    stream: np.ndarray, starts: np.ndarray, held: np.ndarray, steps: int, size: int
) -> tuple[np.ndarray, int, int, np.ndarray]:
    """By the next uniform numbers of a stream of `kernels.philox`."""
    numbers = uniform(stream, len(starts) * steps * size)
    return _distinct_rows(numbers.reshape((len(starts), steps, size)), starts, held)


COMPILED = Drawing(_held_rows, _distinct_rows)
