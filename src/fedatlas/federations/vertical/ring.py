"""Shares as integers modulo 2^64, which uniform masks hide perfectly.

VFB² (arXiv:2103.00958), Algorithm 1, adds real masks to real shares. No law of real numbers hides a
share perfectly, and masks leave rounding errors that grow with them. Here a share becomes the
nearest multiple of 2^-f, as an integer modulo 2^64 in two's complement; a mask is uniform on all
2^64 integers, and so is a masked share, whatever the share is. Masks cancel exactly, in any order
of addition. What is left is the rounding of shares: a sum of q is off by at most q · 2^-(f + 1).

The compiled loops of `kernels.sums` compute the same with their own masks. Their pseudo-random
numbers, and NumPy's, suit simulations; a real protocol needs a cryptographic generator.
"""

from dataclasses import dataclass

import numpy as np

from fedatlas.errors import FedatlasError

_BITS = 64


@dataclass(frozen=True)
class Ring:
    """Fixed point modulo 2^64 for sums over some parties.

    fraction_bits: f, binary digits after the point. parties: q, terms of a sum.
    """

    fraction_bits: int
    parties: int

    @property
    def steps(self) -> float:
        """How many integers there are between 0 and 1."""
        return 2.0**self.fraction_bits

    @property
    def limit(self) -> float:
        """2^(63 − f) / q: a sum of q shares below it cannot overflow."""
        return 2.0 ** (_BITS - 1 - self.fraction_bits) / self.parties

    @property
    def rounding(self) -> float:
        """The most by which a sum can be off."""
        return self.parties / (2.0 * self.steps)

    def to_ring(self, shares: np.ndarray | float) -> np.ndarray:
        """Shares of any shape as uint64.

        Raises FedatlasError where one is not below the limit, or not a number.
        """
        shares = np.asarray(shares, dtype=np.float64)
        if not (np.abs(shares) < self.limit).all():
            raise FedatlasError(
                f"masks: a share of size {np.abs(shares).max():g} does not fit into the ring: with "
                f"{self.fraction_bits} fraction bits and {self.parties} parties shares must stay "
                f"below {self.limit:g}; lower fraction_bits, or the step size if the run diverges"
            )
        return np.rint(shares * self.steps).astype(np.int64).astype(np.uint64)

    def from_ring(self, totals: np.ndarray | np.uint64) -> np.ndarray:
        """Sums of uint64 as real numbers."""
        return np.asarray(totals, dtype=np.uint64).astype(np.int64) / self.steps

    @staticmethod
    def masks(random: np.random.Generator, *shape: int) -> np.ndarray:
        """Masks that are uniform on the whole ring, uint64."""
        return random.integers(0, 2**_BITS, shape, dtype=np.uint64)
