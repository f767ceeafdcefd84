"""What `randomness` draws, compiled: the same numbers."""

import numpy as np

from fedatlas.arithmetic.compiled_drawing import distinct_rows_of_stream
from fedatlas.arithmetic.drawing import MinibatchSampler
from fedatlas.arithmetic.kernels import philox
from fedatlas.arithmetic.randomness import RoundRandom

_MANY = 2**20


class CompiledRandom(RoundRandom):
    """A RoundRandom that makes the draws of short rounds itself, in a third of numpy's time.

    Whatever else is drawn comes from numpy's generator, which goes on where these draws ended.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._stream = np.zeros(philox.LENGTH, np.uint64)
        self._stream[philox.KEY] = self._bits.state["state"]["key"]
        self._by_numpy = False  # from where the generator was asked for to the end of the round

    @property
    def generator(self) -> np.random.Generator:
        self.drawn = True
        if not self._by_numpy:
            self._by_numpy = True
            _, _, round_number, used, has_half, half = self._stream.tolist()
            state = self._fresh
            state["state"]["counter"][:] = used // 4, 0, round_number, 0
            self._bits.state = state | {"has_uint32": has_half, "uinteger": half}
            self._bits.random_raw(used % 4, output=False)
        return self._generator

    def at(self, round_number: int) -> RoundRandom:
        stream = self._stream
        stream[philox.ROUND], stream[philox.USED], stream[philox.HAS_HALF] = round_number, 0, 0
        self._by_numpy = False
        return self

    def sample(self, population: int, size: int) -> np.ndarray:
        # Of large shares of many, numpy shuffles them all; the loop looks at all that there are.
        floyd = population <= 10_000 or (size <= population // 20 and population <= _MANY)
        if self._by_numpy or size >= population or not floyd:
            return super().sample(population, size)
        self.drawn = True
        chosen = np.empty(size, np.int64)
        philox.fill_sample(self._stream, population, chosen)
        return chosen

    def uniform(self, *shape: int) -> np.ndarray:
        if self._by_numpy:
            return super().uniform(*shape)
        self.drawn = True
        numbers = np.empty(shape)
        philox.fill_uniform(self._stream, numbers.reshape(-1))
        return numbers

    def distinct_rows(
        self, drawing: MinibatchSampler, starts: np.ndarray, held: np.ndarray, steps: int, size: int
    ) -> tuple[np.ndarray, int, int, np.ndarray]:
        if self._by_numpy:
            return super().distinct_rows(drawing, starts, held, steps, size)
        self.drawn = True
        return distinct_rows_of_stream(self._stream, starts, held, steps, size)
