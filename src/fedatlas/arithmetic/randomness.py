"""Random draws of a run, keyed by (seed, round).

Every round starts its own counter-based stream, so a run can be resumed at any round, the draws do
not depend on the device, and methods that draw alike (FedAvg and SCAFFOLD) see the same clients
and minibatches under one seed. `kernels.drawing` makes the same draws in compiled loops.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


def named_stream(seed: int, name: str) -> np.random.Generator:
    """Independent random numbers for each name."""
    return np.random.Generator(np.random.PCG64([seed, *name.encode()]))


class MinibatchSampler(NamedTuple):
    """`held_rows` and `distinct_rows` as defined here, or compiled."""

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


class RoundRandom:
    """The random numbers of one seed; `at(round)` moves to the stream of that round.

    drawn: whether anything random was drawn since the beginning.
    round: which one it is, from 0.
    """

    drawn = False
    round = 0

    def __init__(self, seed: int | tuple[int, ...]) -> None:
        """Seed the stream family; equal seeds give equal draws on every platform.

        seed: of a run, or together with the number of a purpose, for independent draws.
        """
        key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self._bits = np.random.Philox(key=key)
        self._fresh = self._bits.state
        self._generator = np.random.Generator(self._bits)

    @property
    def generator(self) -> np.random.Generator:
        """The stream itself, for distributions that only some methods need."""
        self.drawn = True
        return self._generator

    def at(self, round_number: int) -> "RoundRandom":
        """Restart at the beginning of a round's stream and return self."""
        self.round = round_number
        state = self._fresh
        # The low counter words run within a round (2^128 blocks), the third names the round.
        state["state"]["counter"][2] = round_number
        self._bits.state = state
        return self

    def bernoulli(self, probability: float) -> bool:
        """True with the given probability."""
        drawn = self.drawn
        outcome = bool(self.uniform(1)[0] < probability)
        self.drawn = drawn or 0 < probability < 1
        return outcome

    def sample(self, population: int, size: int) -> np.ndarray:
        """(size,) distinct indices below `population`, uniformly, ascending."""
        if size == population:
            return np.arange(population)
        chosen = self.generator.choice(population, size, replace=False, shuffle=False)
        chosen.sort()
        return chosen

    def uniform(self, *shape: int) -> np.ndarray:
        """Independent uniform numbers in [0, 1) of the given shape."""
        return self.generator.random(shape)

    def laplace(self, *shape: int) -> np.ndarray:
        """Independent numbers of the given shape, Laplace of scale 1."""
        from fedatlas.arithmetic.kernels.elementary import laplace

        found: np.ndarray = laplace(self.generator.random(math.prod(shape))).reshape(shape)
        return found

    def distinct_rows(
        self, drawing: MinibatchSampler, starts: np.ndarray, held: np.ndarray, steps: int, size: int
    ) -> tuple[np.ndarray, int, int, np.ndarray]:
        """`drawing.distinct_rows` by the next uniform numbers (S, steps, size)."""
        return drawing.distinct_rows(self.uniform(len(starts), steps, size), starts, held)

    def indices(self, population: int, size: int) -> np.ndarray:
        """(size,) int64 indices below `population`, uniformly, with replacement."""
        return self.generator.integers(population, size=size)

    def key(self) -> int:
        """64 random bits as a signed number: the key of draws that a device makes by itself."""
        return int(self.generator.integers(-(2**63), 2**63, dtype=np.int64))


class Draws:
    """Independent draws shaped as an array `like` of numpy: what noise and quantisers are made of.

    For simulations: floating-point noise leaks through its low bits (Mironov 2012), which an
    attacker of a real deployment could use.
    """

    def uniform(self, random: RoundRandom, like: Any) -> Any:
        """Uniform in [0, 1)."""
        return random.generator.random(like.shape)

    def laplace(self, random: RoundRandom, like: Any) -> Any:
        """Laplace of scale 1: density exp(−|t|)/2, variance 2."""
        return random.laplace(*like.shape)

    def normal(self, random: RoundRandom, like: Any) -> Any:
        """Normal of mean 0 and variance 1."""
        return random.generator.standard_normal(like.shape)

    def binomial(self, random: RoundRandom, trials: int, like: Any) -> Any:
        """Heads among `trials` fair coins."""
        return random.generator.binomial(trials, 0.5, like.shape)
