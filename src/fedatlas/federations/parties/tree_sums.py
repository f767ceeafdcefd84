"""One party's part in Algorithm 1: it waits for its children, adds its own, sends to its parent.

There are two trees for every dominator, one for masked shares and one for masks.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedatlas.federations.vertical.secure_sum import two_trees

#: Which sum: the tree, 0 or 1, the dominator that asked, and its iteration; then a kind of values.
Which = tuple[int, int, int]


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


class TreeSums:
    """Partial sums under way at one party. Values are arrays, all of one length."""

    def __init__(
        self,
        party: int,
        parties: int,
        active: int,
        send: Callable[[int, Which, Any], None],
        finish: Callable[[int, int, Any, Any], None],
    ) -> None:
        """Hold nothing yet.

        send: to a party, its part of a sum. finish: what to do with both sums of a dominator's
        iteration, of masked shares and of masks; of sums that end here.
        """
        self._party, self._send, self._finish = party, send, finish
        self._places = [
            [place_in(tree.steps, party) for tree in two_trees(parties, dominator)]
            for dominator in range(active)
        ]
        self._parts: dict[Which, dict[int, Any]] = {}
        self._sums: dict[tuple[int, int], dict[int, Any]] = {}

    def add(self, which: Which, sender: int, value: Any) -> None:
        """A part of a sum has arrived, or is this party's own."""
        tree, dominator, iteration = which
        place = self._places[dominator][tree]
        parts = self._parts.setdefault(which, {})
        parts[sender] = value
        if len(parts) <= len(place.children):
            return
        del self._parts[which]
        total = parts[self._party]
        for child in place.children:  # always in this order: sums are the same in every run
            total = total + parts[child]
        if place.parent is not None:
            self._send(place.parent, which, total)
            return
        sums = self._sums.setdefault((dominator, iteration), {})
        sums[tree] = total
        if len(sums) == 2:
            del self._sums[dominator, iteration]
            self._finish(dominator, iteration, sums[0], sums[1])
