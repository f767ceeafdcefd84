"""Which samples each client uses at each step, drawn on the CPU whatever the device.

The loops are Python's where networks take so much longer that loading a compiler would not pay, and
compiled ones, `kernels.DRAWING`, for linear models: the same samples.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from fedatlas.randomness import RoundRandom


@dataclass(frozen=True)
class Minibatches:
    """Which samples each of S clients uses at each of `steps` steps.

    starts, sizes: (S,) the client's first row and its minibatch size.
    samples, most: the sum and the largest of sizes.
    rows: (S, steps, size) row numbers, or (0, 0, 0) for the whole local data set at every step.
    """

    starts: np.ndarray
    sizes: np.ndarray
    samples: int
    most: int
    rows: np.ndarray
    steps: int

    @classmethod
    def first(cls, starts: np.ndarray, sizes: np.ndarray) -> Self:
        """Of one step, each client's first so many rows."""
        return cls(starts, sizes, int(sizes.sum()), int(sizes.max(initial=0)), _ALL_ROWS, 1)

    @property
    def gradient_evaluations(self) -> int:
        """Per-sample gradients of one pass over all clients and steps."""
        return self.samples * self.steps

    @property
    def sequential_gradients(self) -> int:
        """Per-sample gradients of the client that takes most, while the others take theirs."""
        return self.most * self.steps

    def padded(self) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers (S, b) of a single step and each row's share 1/size, 0 beyond the size."""
        place = np.arange(self.most)  # of some clients only, rows may be wider
        valid = place < self.sizes[:, None]
        if self.rows.size:
            rows = self.rows[:, 0, : len(place)]
        else:
            rows = np.where(valid, self.starts[:, None] + place, 0)
        return rows, valid / np.maximum(self.sizes[:, None], 1)

    def of_clients(self, chunk: slice) -> Self:
        """The minibatches of some of the clients."""
        part = self.first(self.starts[chunk], self.sizes[chunk])
        rows = self.rows[chunk] if self.rows.size else self.rows
        return replace(part, rows=rows, steps=self.steps)

    def at(self, step: int) -> Self:
        """The minibatches of one step."""
        rows = self.rows[:, step : step + 1] if self.rows.size else self.rows
        return replace(self, rows=rows, steps=1)


class Drawing(NamedTuple):
    """The loops of drawing.

    held: of offsets and clients, starts, sizes, their sum and the largest, see `held_by`.
    distinct: of uniform numbers, starts and sizes, the rest of minibatches, see `distinct_rows`.
    """

    held: Callable[..., tuple[np.ndarray, np.ndarray, int, int]]
    distinct: Callable[..., tuple[np.ndarray, int, int, np.ndarray]]


def held_by(offsets: np.ndarray, clients: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Each client's first row and row count, (S,), and the sum and the largest of the counts.

    offsets: (N + 1,) client i holds rows offsets[i] to offsets[i + 1].
    """
    starts = offsets[clients]
    sizes = offsets[clients + 1] - starts
    return starts, sizes, int(sizes.sum()), int(sizes.max(initial=0))


def distinct_rows(
    uniform: np.ndarray, starts: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, int, int, np.ndarray]:
    """Row numbers drawn uniformly without replacement: sizes, their sum and the largest, rows.

    uniform: (S, steps, size) in [0, 1); starts, held: (S,) first row and row count. A client with
    fewer than `size` rows has all of them, in some order, and zeros behind.
    """
    sizes = np.minimum(held, uniform.shape[2])
    rows = np.zeros(uniform.shape, dtype=np.int64)
    for s in range(len(starts)):
        order = np.arange(sizes[s])
        taken = order + (uniform[s, :, : sizes[s]] * (held[s] - order)).astype(np.int64)
        for k, places in enumerate(taken.tolist()):
            # A partial Fisher–Yates shuffle of a deck of which only what moved is written down.
            moved: dict[int, int] = {}
            drawn = []
            for t, place in enumerate(places):
                drawn.append(moved.get(place, place))
                moved[place] = moved.get(t, t)
            rows[s, k, : sizes[s]] = drawn
        rows[s, :, : sizes[s]] += starts[s]
    return sizes, int(sizes.sum()), int(sizes.max(initial=0)), rows


IN_PYTHON = Drawing(held_by, distinct_rows)
_ALL_ROWS = np.empty((0, 0, 0), np.int64)


def draw(
    random: RoundRandom, offsets: np.ndarray, clients: np.ndarray, size: int | None, steps: int,
    loops: Drawing = IN_PYTHON,
) -> Minibatches:  # fmt: skip
    """Minibatches of `size` distinct local samples, uniformly; None: the whole local data set.

    offsets: (N + 1,) client i holds rows offsets[i] to offsets[i + 1].
    """
    starts, sizes, samples, most = loops.held(offsets, clients)
    if size is None or size >= most:
        return Minibatches(starts, sizes, samples, most, _ALL_ROWS, steps)
    uniform = random.uniform(len(clients), steps, size)
    return Minibatches(starts, *loops.distinct(uniform, starts, sizes), steps)
