"""Pseudo-random numbers of a counter: nothing is stored, and any of them can be made at any time.

SplitMix64 (Steele, Lea and Flood 2014): the word of a number is that of the generator, seeded with
the key, after as many steps.
"""

import math

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled


@compiled(inline="always")
def bits(key, number):
    """The word of a number: 64 pseudo-random bits."""
    z = key + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled(inline="always")
def uniform(key, number):
    """In [0, 1), in steps of 2⁻⁵³."""
    return np.float64(bits(key, number) >> np.uint64(11)) * 2.0**-53


@compiled(inline="always")
def mask(key, number):
    """In [−1, 1), in steps of 2⁻⁵²."""
    return 2.0 * uniform(key, number) - 1.0


@compiled(allocates=False)
def normal(key, number):
    """Of mean 0 and variance 1 (Box and Muller 1958), from the uniforms 2·number, 2·number + 1."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, 2 * number)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * number + 1))
