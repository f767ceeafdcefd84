"""Random numbers in the shape and on the device of an array: what noise and quantisers are made of.

For simulations: floating-point noise leaks through its low bits (Mironov 2012), which an attacker
of a real deployment could use.
"""

from typing import Any

from fedatlas.arithmetic.randomness import RoundRandom


class Draws:
    """Independent draws shaped as an array `like` of numpy, from the stream of a round."""

    def uniform(self, random: RoundRandom, like: Any) -> Any:
        """Uniform in [0, 1)."""
        return random.generator.random(like.shape)

    def laplace(self, random: RoundRandom, like: Any) -> Any:
        """Laplace of scale 1: density exp(−|t|)/2, variance 2."""
        return random.generator.laplace(size=like.shape)

    def normal(self, random: RoundRandom, like: Any) -> Any:
        """Normal of mean 0 and variance 1."""
        return random.generator.standard_normal(like.shape)

    def binomial(self, random: RoundRandom, trials: int, like: Any) -> Any:
        """Heads among `trials` fair coins."""
        return random.generator.binomial(trials, 0.5, like.shape)
