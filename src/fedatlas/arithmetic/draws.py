"""Random numbers in the shape and on the device of an array: what noise and quantisers are made of.

For simulations: floating-point noise leaks through its low bits (Mironov 2012), which an attacker
of a real deployment could use.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from fedatlas.arithmetic.randomness import RoundRandom


class Draws(ABC):
    """Independent draws shaped as an array `like`, from the stream of a round."""

    @abstractmethod
    def uniform(self, random: RoundRandom, like: Any) -> Any:
        """Uniform in [0, 1)."""

    @abstractmethod
    def laplace(self, random: RoundRandom, like: Any) -> Any:
        """Laplace of scale 1: density exp(−|t|)/2, variance 2."""

    @abstractmethod
    def normal(self, random: RoundRandom, like: Any) -> Any:
        """Normal of mean 0 and variance 1."""

    @abstractmethod
    def binomial(self, random: RoundRandom, trials: int, like: Any) -> Any:
        """Heads among `trials` fair coins."""


class NumpyDraws(Draws):
    """For arrays of numpy."""

    def uniform(self, random: RoundRandom, like: np.ndarray) -> np.ndarray:
        return random.generator.random(like.shape)

    def laplace(self, random: RoundRandom, like: np.ndarray) -> np.ndarray:
        return random.generator.laplace(size=like.shape)

    def normal(self, random: RoundRandom, like: np.ndarray) -> np.ndarray:
        return random.generator.standard_normal(like.shape)

    def binomial(self, random: RoundRandom, trials: int, like: np.ndarray) -> np.ndarray:
        return random.generator.binomial(trials, 0.5, like.shape)
