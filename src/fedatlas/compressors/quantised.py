"""Random dithering: levels between 0 and the norm, as in QSGD."""

from math import floor, log2, sqrt
from typing import Any, ClassVar

from pydantic import PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import Compressor, bits_of_number, functions_of, uniform


class Quantised(Compressor):
    """Random dithering of QSGD (Alistarh et al. 2017, arXiv:1610.02132): ω = min(d/s², √d/s).

    x_j becomes ‖x‖ sign(x_j) l/s with a whole number l next to s|x_j|/‖x‖, the upper as likely as
    it is near: where the entry's uniform number is below s|x_j|/‖x‖ less the lower. Sent are ‖x‖ as
    it is stored, of each entry l + 1 in Elias's gamma code, which takes 2⌊log2(l + 1)⌋ + 1 bits,
    and the sign where l > 0.

    levels: s.
    """

    kind: str = "quantised"
    unbiased: ClassVar[bool] = True

    levels: PositiveInt

    def compress(self, rows: Any, random: RoundRandom) -> tuple[Any, Any]:
        of = functions_of(rows)
        norm = of.linalg.norm(rows, None, 1)[:, None]
        ratio = self.levels * (abs(rows) / (norm + (norm == 0))).clip(max=1)
        level = of.floor(ratio)
        level = level + (uniform(rows, random) < ratio - level)
        # 1 + level = m · 2^e with 1/2 ≤ m < 1: e is ⌊log2(level + 1)⌋ + 1.
        exponent = of.frexp(1 + level)[1]
        bits = (2 * exponent - 1 + (level > 0)).sum(1) + bits_of_number(rows)
        return of.sign(rows) * level * (norm / self.levels), bits

    def part_sent(self, dimension: int, itemsize: int) -> float:
        """As if every level were s."""
        most = dimension * (2 * floor(log2(self.levels + 1)) + 2) + 8 * itemsize
        return most / (8 * itemsize * dimension)

    def variance(self, dimension: int) -> float:
        """ω = min(d/s², √d/s)."""
        return min(dimension / self.levels**2, sqrt(dimension) / self.levels)
