"""Masks of Algorithm 1, from a source that is a party's own."""

import os

import numpy as np

from fedatlas.federations.vertical.ring import Ring
from fedatlas.schema.network_model import Masks, RingMasks

_AT_ONCE = 4096  # numbers drawn from the system in one call


class PrivateMasks:
    """Masks by the declared law, from the operating system's random numbers.

    No seed, no state that another party could have: two runs have other masks, and with real ones
    their sums differ by what the masks round away.

    dtype: of masks and masked shares, float64 or uint64.
    """

    def __init__(self, law: Masks, parties: int) -> None:
        """parties: q, terms of a sum."""
        self._law, self._drawn = law, np.zeros(0, np.uint64)
        self._ring = Ring(law.fraction_bits, parties) if isinstance(law, RingMasks) else None
        self.dtype = np.dtype(np.float64 if self._ring is None else np.uint64)

    def hide(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares (n,) with new masks, and the masks.

        FedatlasError where a share does not fit into the ring.
        """
        bits = self._bits(len(shares))
        if self._ring is not None:
            return self._ring.to_ring(shares) + bits, bits
        assert not isinstance(self._law, RingMasks)
        masks = self._law.scale * ((bits >> np.uint64(11)) * (2.0 / 2.0**53) - 1.0)
        return shares + masks, masks

    def revealed(self, masked: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Sums of shares (n,), of the sums of both."""
        return masked - masks if self._ring is None else self._ring.from_ring(masked - masks)

    def _bits(self, count: int) -> np.ndarray:
        """(count,) uniform integers that were never used."""
        if len(self._drawn) < count:
            drawn = os.urandom(8 * max(count, _AT_ONCE))
            self._drawn = np.frombuffer(drawn, np.uint64)
        bits, self._drawn = self._drawn[:count], self._drawn[count:]
        return bits
