"""Which samples each client uses at each step, drawn on the CPU whatever the device."""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from fedatlas.randomness import RoundRandom


@dataclass(frozen=True)
class Minibatches:
    """Which samples each of S clients uses at each of `steps` steps.

    starts, sizes: (S,) the client's first row and its minibatch size.
    rows: (S, steps, size) row numbers, or (0, 0, 0) for the whole local data set at every step.
    """

    starts: np.ndarray
    sizes: np.ndarray
    rows: np.ndarray
    steps: int

    @property
    def gradient_evaluations(self) -> int:
        """Per-sample gradients of one pass over all clients and steps."""
        return _total_and_largest(self.sizes)[0] * self.steps

    @property
    def sequential_gradients(self) -> int:
        """Per-sample gradients of the client that takes most, while the others take theirs."""
        return _total_and_largest(self.sizes)[1] * self.steps

    def padded(self) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers (S, b) of a single step and each row's share 1/size, 0 beyond the size."""
        place = np.arange(int(self.sizes.max()))  # of some clients only, rows may be wider
        valid = place < self.sizes[:, None]
        if self.rows.size:
            rows = self.rows[:, 0, : len(place)]
        else:
            rows = np.where(valid, self.starts[:, None] + place, 0)
        return rows, valid / np.maximum(self.sizes[:, None], 1)

    def of_clients(self, chunk: slice) -> "Minibatches":
        """The minibatches of some of the clients."""
        rows = self.rows[chunk] if self.rows.size else self.rows
        return replace(self, starts=self.starts[chunk], sizes=self.sizes[chunk], rows=rows)

    def at(self, step: int) -> "Minibatches":
        """The minibatches of one step."""
        rows = self.rows[:, step : step + 1] if self.rows.size else self.rows
        return replace(self, rows=rows, steps=1)


def draw(
    random: RoundRandom, offsets: np.ndarray, clients: np.ndarray, size: int | None, steps: int
) -> Minibatches:
    """Minibatches of `size` distinct local samples, uniformly; None: the whole local data set.

    offsets: (N + 1,) client i holds rows offsets[i] to offsets[i + 1].
    """
    starts = offsets[clients]
    local = offsets[clients + 1] - starts
    if size is None or size >= _total_and_largest(local)[1]:
        return Minibatches(starts, local, np.empty((0, 0, 0), np.int64), steps)
    sizes = np.minimum(local, size)
    uniform = random.uniform(len(clients), steps, size)
    return Minibatches(starts, sizes, _drawn(uniform, starts, local, sizes), steps)


@njit(cache=True)
def _total_and_largest(sizes: np.ndarray) -> tuple[int, int]:
    """Σ sizes and max sizes, 0 of none; numpy's take 2 µs each, of 60 of a round."""
    total = largest = 0
    for size in sizes:
        total += size
        largest = max(largest, size)
    return total, largest


@njit(cache=True)
def _drawn(
    uniform: np.ndarray, starts: np.ndarray, sizes: np.ndarray, batch_sizes: np.ndarray
) -> np.ndarray:
    """Row numbers of minibatches drawn uniformly without replacement.

    uniform: (clients, steps, size) in [0, 1); starts, sizes: (clients,) first row and row count;
    batch_sizes: (clients,), at most `size`; entries beyond it are left at 0.
    """
    clients, steps, size = uniform.shape
    rows = np.zeros((clients, steps, size), dtype=np.int64)
    deck = np.arange(sizes.max())
    taken = np.empty(size, dtype=np.uint64)  # no sign: see kernels._dot
    for s in range(clients):
        for k in range(steps):
            # A partial Fisher–Yates shuffle, undone afterwards so that the deck is never rebuilt.
            for t in range(batch_sizes[s]):
                taken[t] = t + int(uniform[s, k, t] * (sizes[s] - t))
                rows[s, k, t] = starts[s] + deck[taken[t]]
                deck[taken[t]] = deck[t]
            for t in range(batch_sizes[s]):
                deck[taken[t]] = taken[t]
    return rows
