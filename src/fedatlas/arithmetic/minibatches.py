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
    counts: (S, steps) how many samples a client uses at a step, 0 once it has finished; None where
        all clients take all steps with as many samples as `sizes`, their most, say.
    """

    starts: np.ndarray
    sizes: np.ndarray
    samples: int
    largest: int
    rows: np.ndarray
    steps: int
    counts: np.ndarray | None = None

    @classmethod
    def of_first_rows(cls, starts: np.ndarray, sizes: np.ndarray) -> Self:
        """The first rows of each client, as many as its size, in one step."""
        return cls(starts, sizes, *sum_and_largest(sizes), _ALL_ROWS, 1)

    @property
    def gradient_evaluations(self) -> int:
        """Per-sample gradients of one pass over all clients and steps."""
        return self.samples * self.steps if self.counts is None else int(self.counts.sum())

    @property
    def gradients_of_clients(self) -> np.ndarray:
        """Per-sample gradients of one pass over all steps, (S,)."""
        return self.sizes * self.steps if self.counts is None else self.counts.sum(axis=1)

    @property
    def sequential_gradients(self) -> int:
        """Per-sample gradients of the busiest client."""
        if self.counts is None:
            return self.largest * self.steps
        return int(self.counts.sum(axis=1).max(initial=0))

    @property
    def steps_of_clients(self) -> np.ndarray:
        """How many of the steps each client takes, (S,)."""
        if self.counts is None:
            return np.full(len(self.starts), self.steps)
        taken: np.ndarray = (self.counts > 0).sum(axis=1)
        return taken

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
        counts = None if self.counts is None else self.counts[chunk]
        return replace(part, rows=rows, steps=self.steps, counts=counts)

    def at(self, step: int) -> Self:
        """The minibatches of one step, 0 ≤ step < steps."""
        if not 0 <= step < self.steps:
            raise FedatlasError(f"a batch of {self.steps} steps has no step {step}, counted from 0")
        rows = self.rows[:, step : step + 1] if self.rows.size else self.rows
        if self.counts is None:
            return replace(self, rows=rows, steps=1)
        sizes = np.ascontiguousarray(self.counts[:, step])
        part = self.of_first_rows(self.starts, sizes)
        return replace(part, rows=rows, counts=sizes[:, None])

    def by_client(self, steps: np.ndarray) -> Self:
        """The same samples, of which each client takes its first `steps` (S,) steps only."""
        taken = np.arange(self.steps) < np.asarray(steps)[:, None]
        return replace(self, counts=np.where(taken, self.sizes[:, None], 0))

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


def draw_epochs(
    drawing: MinibatchSampler, random: RoundRandom, offsets: np.ndarray, clients: np.ndarray,
    size: int | None, epochs: int,
) -> Minibatches:  # fmt: skip
    """Passes over all local samples, shuffled anew in each, in minibatches of `size`.

    The last minibatch of a pass has what is left; None: a pass is one step. Clients take as many
    steps as their samples fill, so that those with few finish early. The arguments are as of
    `draw`.
    """
    starts, held, samples, largest = drawing.held_rows(offsets, clients)
    if size is None or size >= largest:
        return Minibatches(starts, held, samples, largest, _ALL_ROWS, epochs)
    _, _, _, shuffled = random.distinct_rows(drawing, starts, held, epochs, largest)
    passes = -(-held // size)  # steps of one epoch
    rows = np.zeros((len(starts), epochs * int(passes.max()), size), np.int64)
    counts = np.zeros(rows.shape[:2], np.int64)
    for client, (own, each) in enumerate(zip(held.tolist(), passes.tolist(), strict=True)):
        padded = np.zeros((epochs, each * size), np.int64)
        padded[:, :own] = shuffled[client, :, :own]
        rows[client, : epochs * each] = padded.reshape(-1, size)
        left = np.minimum(size, own - size * np.arange(each))
        counts[client, : epochs * each] = np.tile(left, epochs)
    sizes = np.minimum(held, size)
    return Minibatches(starts, sizes, *sum_and_largest(sizes), rows, rows.shape[1], counts)
