"""The loops of drawing minibatches, in Python; `compiled_drawing` has the same ones compiled."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# Samples, and ten more for each minibatch: of some batches a third of a second of Python's loop, of
# small ones one. To load the compiled loop takes half a second, or more.
_LEFT_TO_PYTHON = 2**21


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
    order = np.arange(uniform.shape[2])
    sizes = np.minimum(held, len(order))
    taken = order + (uniform * (held[:, None, None] - order)).astype(np.int64)
    places = np.zeros(uniform.shape, dtype=np.int64)
    for s, (of_client, size) in enumerate(zip(taken.tolist(), sizes.tolist(), strict=True)):
        for k, of_step in enumerate(of_client):
            # A partial Fisher–Yates shuffle of a deck of which only what moved is written down.
            moved: dict[int, int] = {}
            drawn = []
            for t, place in enumerate(of_step[:size]):
                drawn.append(moved.get(place, place))
                moved[place] = moved.get(t, t)
            places[s, k, :size] = drawn
    rows = np.where(order < sizes[:, None, None], places + starts[:, None, None], 0)
    return sizes, int(sizes.sum()), int(sizes.max(initial=0)), rows


IN_PYTHON = Drawing(held_by, distinct_rows)


class _CompiledLate:
    """Python's loop until it has taken about as long as it takes to load the compiled one."""

    def __init__(self) -> None:
        self._done = 0

    def distinct(self, *arguments: np.ndarray) -> tuple[np.ndarray, int, int, np.ndarray]:
        clients, steps, size = arguments[0].shape
        self._done += clients * steps * (size + 10)
        if self._done < _LEFT_TO_PYTHON:
            return distinct_rows(*arguments)
        from fedatlas.problems.compiled_drawing import COMPILED

        return COMPILED.distinct(*arguments)


def compiled_late() -> Drawing:
    """For one engine: short jobs load no compiler, and long ones do not wait for Python."""
    return Drawing(held_by, _CompiledLate().distinct)
