"""Scaled signs: one bit for each entry."""

from typing import Any

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import Compressor, bits_of_number, functions_of


class Sign(Compressor):
    """‖x‖₁/d · sign(x), sign(0) = 1 (Karimireddy et al. 2019, arXiv:1901.09847): δ = 1/d for all x.

    The error of one x is (1 − ‖x‖₁²/(d‖x‖₂²))‖x‖₂². A row takes d bits and a number.
    """

    kind: str = "sign"

    def compress(self, rows: Any, random: RoundRandom) -> tuple[Any, int]:
        of, size = functions_of(rows), abs(rows).mean(1)[:, None]
        return of.where(rows < 0, -size, size), rows.shape[1] + bits_of_number(rows)

    def contraction(self, dimension: int) -> float:
        """δ = 1/d."""
        return 1 / dimension
