"""Top-k sparsification: the entries of the largest absolute values."""

from typing import Any

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors._sparse import Sparsifier


class TopK(Sparsifier):
    """The k entries of largest |x_j| (Alistarh et al. 2018, arXiv:1809.10505): δ = k/d."""

    kind: str = "top_k"

    def compress(self, rows: Any, random: RoundRandom) -> tuple[Any, int]:
        return self.largest(rows, abs(rows))

    def contraction(self, dimension: int) -> float:
        """δ = k/d."""
        return self.kept(dimension) / dimension
