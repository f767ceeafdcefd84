"""Which samples each client uses at each step, drawn on the CPU whatever the device."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fedatlas.arithmetic.randomness import (
    IN_PYTHON,
    MinibatchSampler,
    RoundRandom,
    sum_and_largest,
)
from fedatlas.errors import FedatlasError

_ALL_ROWS = np.empty((0, 0, 0), np.int64)
# In Python these take 0.2 to 1 s, with 4 to 50 samples each; the compiled loop loads for 0.5 s.
_FEW_MINIBATCHES = 2**15


@dataclass(frozen=True)
class Minibatches:
    """Which samples each of S clients uses at each of `steps` steps.

    starts, sizes: (S,) the client's first row and its minibatch size.
    samples, largest: the sum and the largest of sizes, which compiled loops find on their way:
        numpy takes 3 µs, of 70 of a round.
    rows: (S, steps, size) row numbers, or (0, 0, 0) for the whole local data set at every step.
    """

    starts: np.ndarray
    sizes: np.ndarray
    samples: int
    largest: int
    rows: np.ndarray
    steps: int

    @classmethod
    def of_first_rows(cls, starts: np.ndarray, sizes: np.ndarray) -> Self:
        """The first rows of each client, as many as its size, in one step."""
        return cls(starts, sizes, *sum_and_largest(sizes), _ALL_ROWS, 1)

    @property
    def gradient_evaluations(self) -> int:
        """Per-sample gradients of one pass over all clients and steps."""
        return self.samples * self.steps

    @property
    def sequential_gradients(self) -> int:
        """Per-sample gradients of the busiest client."""
        return self.largest * self.steps

    def padded(self) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers (S, b) of a single step and each row's share 1/size, 0 beyond the size."""
        place = np.arange(self.largest)  # rows are wider where clients were left out
        valid = place < self.sizes[:, None]
        if self.rows.size:
            rows = self.rows[:, 0, : len(place)]
        else:
            rows = np.where(valid, self.starts[:, None] + place, 0)
        return rows, valid / np.maximum(self.sizes[:, None], 1)

    def of_clients(self, chunk: slice | np.ndarray) -> Self:
        """The minibatches of some of the clients."""
        part = self.of_first_rows(self.starts[chunk], self.sizes[chunk])
        rows = self.rows[chunk] if self.rows.size else self.rows
        return replace(part, rows=rows, steps=self.steps)

    def at(self, step: int) -> Self:
        """The minibatches of one step, 0 ≤ step < steps."""
        if not 0 <= step < self.steps:
            raise FedatlasError(f"a batch of {self.steps} steps has no step {step}, counted from 0")
        rows = self.rows[:, step : step + 1] if self.rows.size else self.rows
        return replace(self, rows=rows, steps=1)

    def require_one_step(self, asked: str) -> None:
        """Refuse, with a FedatlasError that says what to write, the samples of several steps.

        asked: the function that was given them.
        """
        if self.steps != 1:
            raise FedatlasError(
                f"{asked} is taken at one point, over the samples of one step, but the batch has "
                f"those of {self.steps}: give it batch.at(step), step = 0 … {self.steps - 1}, or "
                "draw minibatches with steps=1"
            )


def loop_for(minibatches: int) -> MinibatchSampler:
    """Pick the faster loop for so many minibatches in all, load time included."""
    if minibatches < _FEW_MINIBATCHES:
        return IN_PYTHON
    from fedatlas.arithmetic.kernels.drawing import COMPILED

    return COMPILED


def draw(
    drawing: MinibatchSampler, random: RoundRandom, offsets: np.ndarray, clients: np.ndarray,
    size: int | None, steps: int,
) -> Minibatches:  # fmt: skip
    """Minibatches of `size` distinct local samples, uniformly; None: the whole local data set.

    drawing: in Python or compiled, with the same outcome. offsets: (N + 1,), see `held_rows`.
    """
    starts, sizes, samples, largest = drawing.held_rows(offsets, clients)
    if size is None or size >= largest:
        return Minibatches(starts, sizes, samples, largest, _ALL_ROWS, steps)
    return Minibatches(starts, *random.distinct_rows(drawing, starts, sizes, steps, size), steps)
