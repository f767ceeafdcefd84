"""numpy's Philox stream of a round, word by word, with its way of making numbers of words.

A stream is (6,) uint64: two words of the key, the round, how many words of the round are used, and
half a word that is left over, after whether there is one. Philox: Salmon et al. 2011, 4×64, ten
rounds; any word follows from its place, so that loops need not wait for one another.
"""

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.operations import wide_product

KEY, ROUND, USED, HAS_HALF, HALF = slice(0, 2), 2, 3, 4, 5
LENGTH = 6
_FACTORS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_WEYL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_LOW_HALF, _HALF_BITS, _NONE = np.uint64(2**32 - 1), np.uint64(32), np.uint64(0)


@compiled(inline="always")
def _block(stream, number):
    """The words 4·number to 4·number + 3 of a stream."""
    # numpy counts blocks from 1.
    a, b, c, d = np.uint64(number) + np.uint64(1), _NONE, stream[ROUND], _NONE
    first, second = stream[0], stream[1]
    for _ in range(10):
        upper_a, lower_a = wide_product(_FACTORS[0], a)
        upper_c, lower_c = wide_product(_FACTORS[1], c)
        a, b, c, d = upper_c ^ b ^ first, lower_c, upper_a ^ d ^ second, lower_a
        first, second = first + _WEYL[0], second + _WEYL[1]
    return a, b, c, d


@compiled
def _next_word(stream):
    used = stream[USED]
    stream[USED] = used + np.uint64(1)
    return _block(stream, used >> np.uint64(2))[used & np.uint64(3)]


@compiled
def _next_half(stream):
    """The lower half of the next word, or the upper one of the last."""
    if stream[HAS_HALF] != _NONE:
        stream[HAS_HALF] = _NONE
        return stream[HALF]
    word = _next_word(stream)
    stream[HAS_HALF], stream[HALF] = np.uint64(1), word >> _HALF_BITS
    return word & _LOW_HALF


@compiled(inline="always")
def _unit(word):
    """In [0, 1), of a word's upper 53 bits."""
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
    while place < count and stream[USED] & np.uint64(3) != _NONE:
        numbers[place] = _unit(_next_word(stream))
        place += 1
    first, blocks = stream[USED] >> np.uint64(2), np.uint64((count - place) // 4)
    for block in range(blocks):
        a, b, c, d = _block(stream, first + block)
        numbers[place], numbers[place + 1] = _unit(a), _unit(b)
        numbers[place + 2], numbers[place + 3] = _unit(c), _unit(d)
        place += 4
    stream[USED] += np.uint64(4) * blocks
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
