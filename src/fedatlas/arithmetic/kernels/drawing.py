"""The draws of `randomness`, compiled: the same numbers and the same minibatches.

numpy's Philox stream of a round is made word by word, with numpy's way of making numbers of words.
A stream is (6,) uint64: two words of the key, the round, how many words of the round are used, and
half a word that is left over, after whether there is one. Philox: Salmon et al. 2011, 4×64, ten
rounds; any word follows from its place, so that loops need not wait for one another.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.randomness import MinibatchSampler, RoundRandom

_KEY, _ROUND, _USED, _HAS_HALF, _HALF = slice(0, 2), 2, 3, 4, 5
_LENGTH = 6
_FACTORS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_WEYL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_LOW_HALF, _HALF_BITS, _NONE = np.uint64(2**32 - 1), np.uint64(32), np.uint64(0)


@intrinsic
def _wide_product(typing: Any, a: Any, b: Any) -> Any:
    """The upper and the lower 64 of the 128 bits of a product of uint64."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, wide = ir.IntType(64), ir.IntType(128)
        left, right = (builder.zext(argument, wide) for argument in arguments)
        product = builder.mul(left, right)
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        parts = upper, builder.trunc(product, word)
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), code


@compiled(inline="always")
def _block(stream, number):
    """The words 4·number to 4·number + 3 of a stream."""
    # numpy counts blocks from 1.
    a, b, c, d = np.uint64(number) + np.uint64(1), _NONE, stream[_ROUND], _NONE
    first, second = stream[0], stream[1]
    for _ in range(10):
        upper_a, lower_a = _wide_product(_FACTORS[0], a)
        upper_c, lower_c = _wide_product(_FACTORS[1], c)
        a, b, c, d = upper_c ^ b ^ first, lower_c, upper_a ^ d ^ second, lower_a
        first, second = first + _WEYL[0], second + _WEYL[1]
    return a, b, c, d


@compiled
def _next_word(stream):
    used = stream[_USED]
    stream[_USED] = used + np.uint64(1)
    return _block(stream, used >> np.uint64(2))[used & np.uint64(3)]


@compiled
def _next_half(stream):
    """The lower half of the next word, or the upper one of the last."""
    if stream[_HAS_HALF] != _NONE:
        stream[_HAS_HALF] = _NONE
        return stream[_HALF]
    word = _next_word(stream)
    stream[_HAS_HALF], stream[_HALF] = np.uint64(1), word >> _HALF_BITS
    return word & _LOW_HALF


@compiled(inline="always")
def _unit(word):
    """A number in [0, 1), made of a word's upper 53 bits."""
    return np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53


@compiled
def _next_up_to(stream, largest):
    """A whole number from 0 to `largest` < 2³² − 1, uniformly (Lemire 2019)."""
    if largest == 0:
        return _NONE
    many = np.uint64(largest) + np.uint64(1)
    product = _next_half(stream) * many
    if product & _LOW_HALF < many:
        threshold = (_LOW_HALF - np.uint64(largest)) % many
        while product & _LOW_HALF < threshold:
            product = _next_half(stream) * many
    return product >> _HALF_BITS


@compiled
def fill_uniform(stream, numbers):
    """Independent numbers in [0, 1) for `numbers` (count,)."""
    count, place = len(numbers), 0
    while place < count and stream[_USED] & np.uint64(3) != _NONE:
        numbers[place] = _unit(_next_word(stream))
        place += 1
    first, blocks = stream[_USED] >> np.uint64(2), np.uint64((count - place) // 4)
    for block in range(blocks):
        a, b, c, d = _block(stream, first + block)
        numbers[place], numbers[place + 1] = _unit(a), _unit(b)
        numbers[place + 2], numbers[place + 3] = _unit(c), _unit(d)
        place += 4
    stream[_USED] += np.uint64(4) * blocks
    while place < count:
        numbers[place] = _unit(_next_word(stream))
        place += 1


@compiled
def fill_sample(stream, population, chosen):
    """Distinct whole numbers below `population` for `chosen` (size,), ascending, as Floyd's."""
    size = len(chosen)
    taken = np.zeros(population // 64 + 1, dtype=np.uint64)
    one, bits = np.uint64(1), np.uint64(63)
    for last in range(population - size, population):
        place = _next_up_to(stream, last)
        if taken[place >> np.uint64(6)] >> (place & bits) & one:
            place = np.uint64(last)
        taken[place >> np.uint64(6)] |= one << (place & bits)
    found = 0
    for number in range(len(taken)):
        word, place = taken[number], 64 * number
        while word != _NONE:
            if word & one:
                chosen[found] = place
                found += 1
            word, place = word >> one, place + 1


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
    """Draw by the next uniform numbers of a stream."""
    clients = len(starts)
    sizes, rows = np.empty(clients, np.int64), np.empty((clients, steps, size), np.int64)
    return sizes, *_draw_and_shuffle(stream, starts, held, sizes, rows), rows


COMPILED = MinibatchSampler(_held_rows, _distinct_rows)


_MANY = 2**20


class CompiledRandom(RoundRandom):
    """A RoundRandom that makes the draws of short rounds itself, in a third of numpy's time.

    Whatever else is drawn comes from numpy's generator, which goes on where these draws ended.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._stream = np.zeros(_LENGTH, np.uint64)
        self._stream[_KEY] = self._bits.state["state"]["key"]
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
        stream[_ROUND], stream[_USED], stream[_HAS_HALF] = round_number, 0, 0
        self._by_numpy = False
        return self

    def sample(self, population: int, size: int) -> np.ndarray:
        # Of large shares of many, numpy shuffles them all; the loop looks at all that there are.
        floyd = population <= 10_000 or (size <= population // 20 and population <= _MANY)
        if self._by_numpy or size >= population or not floyd:
            return super().sample(population, size)
        self.drawn = True
        chosen = np.empty(size, np.int64)
        fill_sample(self._stream, population, chosen)
        return chosen

    def uniform(self, *shape: int) -> np.ndarray:
        if self._by_numpy:
            return super().uniform(*shape)
        self.drawn = True
        numbers = np.empty(shape)
        fill_uniform(self._stream, numbers.reshape(-1))
        return numbers

    def distinct_rows(
        self, drawing: MinibatchSampler, starts: np.ndarray, held: np.ndarray, steps: int, size: int
    ) -> tuple[np.ndarray, int, int, np.ndarray]:
        if self._by_numpy:
            return super().distinct_rows(drawing, starts, held, steps, size)
        self.drawn = True
        return distinct_rows_of_stream(self._stream, starts, held, steps, size)
