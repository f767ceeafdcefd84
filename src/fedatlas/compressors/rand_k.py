"""Rand-k sparsification: entries by chance, scaled so that the mean is right."""

from typing import Any, ClassVar

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import uniform
from fedatlas.compressors._sparse import Sparsifier


class RandK(Sparsifier):
    """d/k times k entries, distinct and uniformly drawn for each row: ω = d/k − 1.

    Kept are those whose uniform numbers are the k largest of the row's. Places are sent, too: no
    seed is shared.
    """

    kind: str = "rand_k"
    unbiased: ClassVar[bool] = True

    def compress(self, rows: Any, random: RoundRandom) -> tuple[Any, int]:
        d = rows.shape[1]
        k = self.kept(d)
        if k == d:
            return self.largest(rows, rows)
        found, bits = self.largest(rows, uniform(rows, random))
        return d / k * found, bits

    def variance(self, dimension: int) -> float:
        """ω = d/k − 1."""
        return dimension / self.kept(dimension) - 1
