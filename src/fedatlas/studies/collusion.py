"""Numbers that colluding parties of VFB² unmask: every group of parties, and every pair of trees.

VFB² (arXiv:2103.00958), Algorithm 1 and Theorem 7. `secure_sum.collusion` says what a group
computes from the messages of one sum. Tables here count groups. They hold for real masks and for
masks in a ring alike: what is unmasked does not depend on the masks' law.

Three ways to choose the two trees are compared. `one dominator`: the same pair for every sum.
`every dominator`: q dominators, equally often, each with the pair that ends at itself. `drawn for
each sum`: the pair of one dominator with places dealt to parties at random every time; a group then
stands anywhere, so it unmasks in the share of sums that is the share of groups that unmask in one.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fedatlas.federations.vertical.secure_sum import (
    AggregationTree,
    Trees,
    collusion,
    two_trees,
)

#: Ways to choose the trees of a sum.
ONE, EVERY, DRAWN = "one dominator", "every dominator", "drawn for each sum"
FRESH, REUSED = "fresh", "reused"
SIZES = range(2, 9)  # numbers of parties
_LARGEST_EXHAUSTIVE = 5  # parties; beyond, pairs of trees are drawn
_DRAWN_PAIRS = 1000


class GroupRow(NamedTuple):
    """All groups of one size, by one way to choose trees and masks.

    masks: drawn anew for each sum, or reused, where the change of a share is what is unmasked.
    unmasking: groups that unmask a share of an honest party in some sum. group_share: of all
    groups. sums_share: share of sums in which a group unmasks a share, mean over groups.
    worst_group: the same of the group that does most often. honest_share: share of honest parties'
    shares that a group unmasks in a sum, mean over groups and sums.
    """

    parties: int
    colluders: int
    trees: str
    masks: str
    groups: int
    unmasking: int
    group_share: float
    sums_share: float
    worst_group: float
    honest_share: float


def tabulate_groups(sizes: Sequence[int] = SIZES) -> list[GroupRow]:
    """A row for every number of parties and colluders, and every way to choose trees and masks."""
    return [
        _row(parties, colluders, trees, masks)
        for parties in sizes
        for colluders in range(1, parties)
        for trees in (ONE, EVERY, DRAWN)
        for masks in (FRESH, REUSED)
    ]


def _row(parties: int, colluders: int, trees: str, masks: str) -> GroupRow:
    groups = list(combinations(range(parties), colluders))
    roots = range(parties) if trees == EVERY else (0,)
    found = np.array(  # how many shares each group unmasks, by root
        [
            # Another root has the same trees, with parties in one another's places.
            [
                _unmasked(parties, frozenset((p - root) % parties for p in group), masks)
                for root in roots
            ]
            for group in groups
        ]
    )
    often = (found > 0).mean(axis=1)
    if trees == DRAWN:
        often = np.full(len(groups), often.mean())
    unmasking = int((often > 0).sum())
    return GroupRow(
        parties=parties,
        colluders=colluders,
        trees=trees,
        masks=masks,
        groups=len(groups),
        unmasking=unmasking,
        group_share=unmasking / len(groups),
        sums_share=float(often.mean()),
        worst_group=float(often.max()),
        honest_share=float(found.mean()) / (parties - colluders),
    )


@cache
def _unmasked(parties: int, places: frozenset[int], masks: str) -> int:
    """How many shares colluders at these places of the pair of party 0 unmask."""
    return len(collusion(two_trees(parties), places, reused_masks=masks == REUSED).shares)


class PairRow(NamedTuple):
    """Pairs of trees that end at one party, and those that Definition 4 calls different.

    exhaustive: whether all pairs were looked at, up to the parties' names. different: pairs that
    satisfy Definition 4. exposing: of these, how many let a party alone unmask another's share.
    ours_different, ours_exposing: the same of the pair that is used, for all roots.
    """

    parties: int
    pairs: int
    exhaustive: bool
    different: int
    exposing: int
    ours_different: bool
    ours_exposing: bool


def tabulate_pairs(sizes: Sequence[int] = SIZES, seed: int = 0) -> list[PairRow]:
    """A row for every number of parties; larger numbers have pairs drawn by random merges."""
    rows = []
    for parties in sizes:
        exhaustive = parties <= _LARGEST_EXHAUSTIVE
        pairs = list(_every_pair(parties) if exhaustive else _drawn_pairs(parties, seed))
        different = list(filter(are_different, pairs))
        ours = [two_trees(parties, root) for root in range(parties)]
        rows.append(
            PairRow(
                parties=parties,
                pairs=len(pairs),
                exhaustive=exhaustive,
                different=len(different),
                exposing=sum(map(exposes_a_share, different)),
                ours_different=all(map(are_different, ours)),
                ours_exposing=any(map(exposes_a_share, ours)),
            )
        )
    return rows


def are_different(trees: Trees) -> bool:
    """Definition 4: no proper subtree of several nodes has the same leaves in both trees."""
    everyone = frozenset(range(trees[0].parties))
    return trees[0].leaf_sets() & trees[1].leaf_sets() <= {everyone}


def exposes_a_share(trees: Trees) -> bool:
    """Whether some party alone unmasks the share of another; as `collusion` says, but faster.

    What one party is sent along a tree are sums over disjoint sets of parties. A combination of
    masked ones is rid of its masks where sets of either tree have one union.
    """
    return any(_alone(trees, party) for party in range(trees[0].parties))


def _alone(trees: Trees, party: int) -> bool:
    masked, masks = (
        [leaves for step, leaves in zip(tree.steps, tree.sent, strict=True) if step[0] == party]
        for tree in trees
    )
    hidden = set(range(trees[0].parties)) - {party}
    for part in masked:
        union, grown = set[int](), set(part)
        while union != grown:
            union = grown
            grown = union.union(*(other for other in (*masked, *masks) if union & other))
        if union <= set().union(*masked) & set().union(*masks):
            if len(union) == 1:
                return True
            hidden -= union
    return len(hidden) == 1  # the sum of all shares is known


_Steps = tuple[tuple[int, int], ...]


def _every_pair(parties: int) -> Iterator[Trees]:
    """All pairs that end at the same party, but for the parties' names: one first tree a shape."""
    trees = list(_every_tree(tuple(range(parties))))
    first = {_shape(steps): steps for _, steps in trees if not steps or steps[-1][0] == 0}
    for steps in first.values():
        for root, others in trees:
            if root == 0:
                yield _tree(parties, steps), _tree(parties, others)


def _every_tree(places: tuple[int, ...]) -> Iterator[tuple[int, _Steps]]:
    """Every binary tree over these leaves, either child of a node as its receiver: root, steps."""
    first, *rest = places
    if not rest:
        yield first, ()
    for size in range(len(rest)):
        for beside in combinations(rest, size):
            left, right = (first, *beside), tuple(p for p in rest if p not in beside)
            for one, steps in _every_tree(left):
                for other, more in _every_tree(right):
                    yield one, (*steps, *more, (one, other))
                    yield other, (*steps, *more, (other, one))


def _shape(steps: _Steps) -> object:
    """A tree without names: receiver's subtree first."""
    held: dict[int, object] = {}
    for receiver, sender in steps:
        held[receiver] = (held.get(receiver), held.pop(sender, None))
    return held[steps[-1][0]]


def _drawn_pairs(parties: int, seed: int) -> Iterator[Trees]:
    random = np.random.default_rng([seed, parties])
    for _ in range(_DRAWN_PAIRS):
        first, second = (_merged(parties, random) for _ in range(2))
        # Both end at one party: it takes the place of the other's root.
        swapped = {first[-1][0]: second[-1][0], second[-1][0]: first[-1][0]}
        second = tuple((swapped.get(a, a), swapped.get(b, b)) for a, b in second)
        yield _tree(parties, first), _tree(parties, second)


def _merged(parties: int, random: np.random.Generator) -> _Steps:
    """A tree of random merges: two of those that still hold a sum, until one holds all."""
    holders, steps = list(range(parties)), []
    while len(holders) > 1:
        receiver, sender = random.choice(holders, 2, replace=False).tolist()
        steps.append((receiver, sender))
        holders.remove(sender)
    return tuple(steps)


def _tree(parties: int, steps: _Steps) -> AggregationTree:
    return AggregationTree(parties, tuple((step,) for step in steps))
