"""Secure sums of shares (VFB², arXiv:2103.00958, Algorithm 1, Definition 4 and appendix B).

Party ℓ adds a random mask δ_ℓ to its share o_ℓ = w_ℓ·x_ℓ; Σ(o_ℓ + δ_ℓ) goes up one tree, Σδ_ℓ
another, and the difference of the two is the sum of the shares. Here are the trees and the masks;
`studies.leaks` says what parties can find out from their part in them.

The paper says nothing of the masks' distribution. Ours are independent for every party and sum.
Real ones are uniform on [-scale, scale]: shares a and b then give masked shares whose distributions
are |a - b| / (2 scale) apart in total variation. A larger scale hides more and costs digits, since
the rounding error grows with it, but nothing added to a real number hides it perfectly. Masks in a
ring do: a share becomes the nearest multiple of 2^-f, as an integer modulo 2^64 in two's
complement; a mask is uniform on all 2^64 integers, and so is a masked share, whatever the share is.
Masks cancel exactly, in any order of addition. What is left is the rounding of shares: a sum of q
is off by at most q · 2^-(f + 1). The compiled loops of `kernels.draws` compute the same with their
own masks, whose pseudo-random numbers, as NumPy's, suit simulations only.

Parties are counted from 0; the paper counts from 1.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.network_model import Masks, RingMasks


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
        return 2.0 ** (63 - self.fraction_bits) / self.parties

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


@dataclass(frozen=True)
class AggregationTree:
    """A binary tree whose leaves are the parties 0 … parties-1.

    levels: steps (receiver, sender) by level; the receiver adds what the sender holds to what it
    holds itself. Steps of one level run in parallel.
    """

    parties: int
    levels: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """All steps (receiver, sender), parties - 1 of them, in an order in which they can run."""
        return tuple(step for level in self.levels for step in level)

    @property
    def root(self) -> int:
        """The party that ends up with the sum."""
        return self.steps[-1][0]

    @property
    def depth(self) -> int:
        """How many messages follow one another."""
        return len(self.levels)

    @cached_property
    def _growth(self) -> tuple[tuple[frozenset[int], frozenset[int]], ...]:
        """For each step, the leaves of what the sender sends and of what the receiver then has."""
        held = [frozenset({party}) for party in range(self.parties)]
        growth = []
        for receiver, sender in self.steps:
            held[receiver] |= held[sender]
            growth.append((held[sender], held[receiver]))
        return tuple(growth)

    @property
    def sent(self) -> tuple[frozenset[int], ...]:
        """For each step, the parties whose numbers are added up in what the sender sends."""
        return tuple(sent for sent, _ in self._growth)

    def leaf_sets(self) -> frozenset[frozenset[int]]:
        """The parties below each aggregation node, that is, subtree of more than one node."""
        return frozenset(node for _, node in self._growth)


Trees = tuple[AggregationTree, AggregationTree]


def two_trees(parties: int, root: int = 0) -> Trees:
    """Two trees of depth ⌈log2 parties⌉, significantly different by Definition 4.

    No proper subtree of more than one party has the same leaves in both trees.
    Both end at `root`; for another root the parties take over one another's places in turn. Beyond
    Definition 4, no party alone can unmask another's share (tested for 3 to 64 parties). With two
    parties Definition 4 is empty, and the sum itself gives the root the other's share.
    """
    if parties < 2:
        raise FedatlasError(
            f"parties: {parties}: a secure sum needs at least 2. One party has nothing to hide "
            "from itself: use its share as the sum."
        )
    places = [(place + root) % parties for place in range(parties)]
    # Every proper subtree of the first holds two neighbouring places, every one of the second
    # places of one parity: no leaf set is in both. Halves must be rounded down: doubling strides
    # (neighbours first in one tree, last in the other) satisfy Definition 4 as well, but with
    # 2^k + 1 parties send the last one's masked share and its mask to the root alone.
    return (
        _tree(places, lambda part: (part[: len(part) // 2], part[len(part) // 2 :])),
        _tree(places, lambda part: (part[::2], part[1::2])),
    )


def _tree(
    places: Sequence[int],
    divide: Callable[[Sequence[int]], tuple[Sequence[int], Sequence[int]]],
) -> AggregationTree:
    """The tree that divides parties until each is alone; the first of a part receives."""
    levels: dict[int, list[tuple[int, int]]] = {}

    def height(part: Sequence[int]) -> int:
        if len(part) == 1:
            return 0
        left, right = divide(part)
        above = 1 + max(height(left), height(right))
        levels.setdefault(above, []).append((left[0], right[0]))
        return above

    height(places)
    return AggregationTree(len(places), tuple(tuple(levels[above]) for above in sorted(levels)))


class PrivateMasks:
    """Masks as declared, from the operating system's random numbers.

    No seed, no state that another party could have: two runs have other masks, and with real ones
    their sums differ by what the masks round away.

    dtype: of masks and masked shares, float64 or uint64.
    """

    def __init__(self, declared: Masks, parties: int) -> None:
        """parties: q, terms of a sum."""
        self._declared = declared
        self._ring = (
            Ring(declared.fraction_bits, parties) if isinstance(declared, RingMasks) else None
        )
        self.dtype = np.dtype(np.float64 if self._ring is None else np.uint64)

    def hide(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares (n,) with new masks, and the masks.

        FedatlasError where a share does not fit into the ring.
        """
        bits = np.frombuffer(os.urandom(8 * len(shares)), np.uint64)
        if self._ring is not None:
            return self._ring.to_ring(shares) + bits, bits
        assert not isinstance(self._declared, RingMasks)
        masks = self._declared.scale * ((bits >> np.uint64(11)) * (2.0 / 2.0**53) - 1.0)
        return shares + masks, masks

    def revealed(self, masked: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Sums of shares (n,), of the sums of both."""
        return masked - masks if self._ring is None else self._ring.from_ring(masked - masks)


class Place(NamedTuple):
    """Where a party stands in a tree: from whom it receives, in this order, and to whom it sends.

    parent: None at the root.
    """

    children: tuple[int, ...]
    parent: int | None


def place_in(steps: tuple[tuple[int, int], ...], party: int) -> Place:
    """A party's place in a tree of steps (receiver, sender)."""
    children = tuple(sender for receiver, sender in steps if receiver == party)
    parents = [receiver for receiver, sender in steps if sender == party]
    return Place(children, parents[0] if parents else None)
