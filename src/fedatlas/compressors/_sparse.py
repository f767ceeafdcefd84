"""What sparsifiers share."""

from math import ceil, log2
from typing import Any, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from fedatlas.compressors import Compressor, bits_of_number
from fedatlas.errors import FedatlasError


class Sparsifier(Compressor):
    """Compressors that send k entries of d, and where these stand.

    k: how many, d at most; or share: k = share · d, rounded, one at least.

    An entry takes the bits that it is stored in. Places take ⌈log2 d⌉ bits each, or d bits together
    where that is less, a bit for every entry; none with k = d.
    """

    k: PositiveInt | None = None
    share: float | None = Field(default=None, gt=0, le=1)

    @model_validator(mode="after")
    def _one_is_stated(self) -> Self:
        if (self.k is None) == (self.share is None):
            raise ValueError("say how many entries are sent, by one of 'k' and 'share'")
        return self

    def kept(self, dimension: int) -> int:
        """k."""
        if self.share is not None:
            return max(1, round(self.share * dimension))
        assert self.k is not None
        if self.k > dimension:
            raise FedatlasError(
                f"compressor: key 'k', value {self.k}: rows have {dimension} entries: state "
                "as many at most, or a 'share' of them"
            )
        return self.k

    def largest(self, rows: Any, scores: Any) -> tuple[Any, int]:
        """The rows with the k entries of the highest scores, zeros elsewhere; bits of a row."""
        d = rows.shape[1]
        k = self.kept(d)
        places = 0 if k == d else min(k * ceil(log2(d)), d)
        return _with_largest(rows, scores, k), k * bits_of_number(rows) + places


def _with_largest(rows: Any, scores: Any, k: int) -> Any:
    if k == rows.shape[1]:
        return rows
    if isinstance(rows, np.ndarray):
        found, places = np.zeros_like(rows), np.argpartition(scores, -k, axis=1)[:, -k:]
        np.put_along_axis(found, places, np.take_along_axis(rows, places, 1), 1)
        return found
    places = scores.topk(k, dim=1, sorted=False).indices
    return rows.new_zeros(rows.shape).scatter_(1, places, rows.gather(1, places))
