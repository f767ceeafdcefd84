"""Natural compression: powers of two."""

from typing import Any, ClassVar

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import Compressor, bits_of_number, functions_of, uniform


class Natural(Compressor):
    """Natural compression (Horváth et al. 2019, arXiv:1905.10988): ω = 1/8.

    |x_j| becomes a power of two next to it, the upper with probability |x_j|/lower − 1: where the
    entry's uniform number is below that. What is sent is its sign and its exponent as it is stored:
    9 bits of float32, 12 of float64. Between 0 and the smallest normal number, 2^−126 or 2^−1022,
    these two are what it becomes.
    """

    kind: str = "natural"
    unbiased: ClassVar[bool] = True

    def compress(self, rows: Any, random: RoundRandom) -> tuple[Any, int]:
        of, size = functions_of(rows), abs(rows)
        double = 2 * of.frexp(size)[0]  # in [1, 2), or 0
        least = of.finfo(rows.dtype).tiny
        is_small = size < least
        lower = of.where(is_small, 0 * size, size / of.where(is_small, 1 + 0 * size, double))
        step = of.where(is_small, least + 0 * size, lower)
        found = lower + step * (uniform(rows, random) < (size - lower) / step)
        bits = 9 if bits_of_number(rows) == 32 else 12
        return of.copysign(found, rows), bits * rows.shape[1]

    def variance(self, dimension: int) -> float:
        """ω = 1/8."""
        return 1 / 8
