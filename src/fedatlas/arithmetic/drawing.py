"""How minibatches are drawn, in Python and numpy; `compiled_drawing` draws the same ones."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# Work that is left to Python: samples, and ten more for each minibatch. It takes 0.3 s in large
# minibatches and 1 s in small ones; to load the compiled loop takes half a second, or more.
_LEFT_TO_PYTHON = 2**21


class Drawing(NamedTuple):
    """Two functions: `held_rows` and `distinct_rows`, or what gives the same."""

    held_rows: Callable[..., tuple[np.ndarray, np.ndarray, int, int]]
    distinct_rows: Callable[..., tuple[np.ndarray, int, int, np.ndarray]]


def sum_and_largest(sizes: np.ndarray) -> tuple[int, int]:
    """Of row counts, (S,); 0 and 0 of none."""
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
            # A partial Fisher–Yates shuffle of a deck of which only what moved is written down.
            moved: dict[int, int] = {}
            drawn = []
            for t, place in enumerate(of_step[:size]):
                drawn.append(moved.get(place, place))
                moved[place] = moved.get(t, t)
            places[s, k, :size] = drawn
    rows = np.where(order < sizes[:, None, None], places + starts[:, None, None], 0)
    return sizes, *sum_and_largest(sizes), rows


IN_PYTHON = Drawing(held_rows, distinct_rows)


class _SuitedTo:
    """Of the two loops the one that takes less time in so many rounds, its loading included."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._chosen: Drawing | None = None

    def distinct_rows(
        self, uniform: np.ndarray, starts: np.ndarray, held: np.ndarray
    ) -> tuple[np.ndarray, int, int, np.ndarray]:
        if self._chosen is None:
            clients, steps, size = uniform.shape
            few = self._rounds * clients * steps * (size + 10) < _LEFT_TO_PYTHON
            self._chosen = IN_PYTHON if few else _compiled()
        return self._chosen.distinct_rows(uniform, starts, held)


def suited_to(rounds: int) -> Drawing:
    """For one engine that draws in so many rounds; what it draws first decides, in the warm-up.

    Long trainings take the compiled loop, short ones do not load a compiler.
    """
    return Drawing(held_rows, _SuitedTo(rounds).distinct_rows)


def _compiled() -> Drawing:
    from fedatlas.arithmetic.compiled_drawing import COMPILED

    return COMPILED
