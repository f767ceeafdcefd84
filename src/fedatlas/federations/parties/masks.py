"""Masks of Algorithm 1, from a source that is a party's own."""

import os

import numpy as np

_AT_ONCE = 4096  # numbers drawn from the system in one call


class PrivateMasks:
    """Uniform on [−scale, scale], from the operating system's random numbers.

    No seed, no state that another party could have: two runs have other masks, and their sums
    differ by what the masks round away.
    """

    def __init__(self, scale: float) -> None:
        """scale: the largest mask; 0 hides nothing."""
        self._scale, self._drawn = scale, np.zeros(0)

    def one(self) -> float:
        """The next mask."""
        if not len(self._drawn):
            self._drawn = self.several(_AT_ONCE)
        mask, self._drawn = self._drawn[0], self._drawn[1:]
        return float(mask)

    def several(self, count: int) -> np.ndarray:
        """(count,) masks."""
        bits = np.frombuffer(os.urandom(8 * count), np.uint64) >> np.uint64(11)
        return self._scale * (bits * (2.0 / 2.0**53) - 1.0)
