"""Tables of groups that unmask shares, and of pairs of trees, against slow and exact counts."""

from itertools import combinations, permutations
from math import comb, factorial

import numpy as np
import pytest

from fedatlas.federations.vertical.secure_sum import AggregationTree, two_trees
from fedatlas.studies.leaks import (
    DRAWN,
    EVERY,
    FRESH,
    ONE,
    REUSED,
    _drawn_pairs,
    _every_pair,
    _every_tree,
    are_different,
    exposes_a_share,
    tabulate_groups,
    tabulate_pairs,
    unmasked_shares,
)

SMALL = range(2, 7)


@pytest.fixture(scope="module")
def table():
    return {(r.parties, r.colluders, r.trees, r.masks): r for r in tabulate_groups(SMALL)}


def received(tree: AggregationTree, pool: set[int]) -> list[list[int]]:
    return [
        [int(party in leaves) for party in range(tree.parties)]
        for (receiver, _), leaves in zip(tree.steps, tree.sent, strict=True)
        if receiver in pool
    ]


def rank_modulo_two(rows: list[list[int]]) -> int:
    left = [int("".join(map(str, row)), 2) for row in rows if any(row)]
    rank = 0
    while left:
        pivot = left.pop()
        if pivot:
            rank += 1
            low = pivot & -pivot
            left = [row ^ pivot if row & low else row for row in left]
    return rank


@pytest.mark.parametrize("parties", range(2, 9))
def test_groups_unmask_the_same_modulo_two_as_over_the_reals(parties):
    """Of shares and masks as unknowns; odd numbers and halves would make a difference."""
    trees = two_trees(parties)
    nothing = [0] * parties
    for size in range(parties):
        for group in combinations(range(parties), size):
            pool = set(group)
            own = [[int(p == party) for p in range(parties)] for party in group]
            known = [[*row, *nothing] for row in own] + [[*nothing, *row] for row in own]
            known += [[*row, *row] for row in received(trees[0], pool)]
            known += [[*nothing, *row] for row in received(trees[1], pool)]
            known.append([1] * parties + nothing)
            rank = rank_modulo_two(known)
            assert rank == np.linalg.matrix_rank(np.array(known))
            told = {
                party
                for party in set(range(parties)) - pool
                if rank_modulo_two([*known, [int(p == party) for p in range(2 * parties)]]) == rank
            }
            assert told == unmasked_shares(trees, group)


@pytest.mark.parametrize("parties", SMALL)
def test_groups_are_counted_one_by_one(table, parties):
    for size in range(1, parties):
        groups = list(combinations(range(parties), size))
        for masks in (FRESH, REUSED):
            reused = masks == REUSED
            found = [
                [
                    len(unmasked_shares(two_trees(parties, root), group, reused_masks=reused))
                    for root in range(parties)
                ]
                for group in groups
            ]
            one, every, drawn = (table[parties, size, way, masks] for way in (ONE, EVERY, DRAWN))
            assert one.groups == comb(parties, size)
            assert one.unmasking == sum(of_group[0] > 0 for of_group in found)
            assert every.unmasking == sum(any(of_group) for of_group in found)
            assert every.worst_group == max(np.mean(np.array(f) > 0) for f in found)
            assert one.sums_share == pytest.approx(every.sums_share)
            honest = np.mean(found) / (parties - size)
            assert one.honest_share == pytest.approx(honest)
            assert drawn.worst_group == pytest.approx(drawn.sums_share)
            assert drawn.sums_share == pytest.approx(one.sums_share)


@pytest.mark.parametrize("parties", [4, 5])
def test_trees_drawn_anew_treat_all_groups_alike(table, parties):
    """All ways to deal places to parties, for one group."""
    for size in range(1, parties):
        dealt = [
            bool(unmasked_shares(two_trees(parties), places[:size]))
            for places in permutations(range(parties))
        ]
        assert table[parties, size, DRAWN, FRESH].sums_share == pytest.approx(np.mean(dealt))


def test_what_helps_against_whom(table):
    """Nobody alone unmasks a share from three parties on, unless masks are used again."""
    for parties in range(3, 7):
        assert table[parties, 1, EVERY, FRESH].unmasking == 0
        assert table[parties, 1, EVERY, REUSED].unmasking > 0
        assert table[parties, parties - 1, ONE, FRESH].group_share == 1
        # Fixed trees give some pair every share that it unmasks; drawn ones give all pairs a few.
        one, drawn = table[parties, 2, ONE, FRESH], table[parties, 2, DRAWN, FRESH]
        assert one.worst_group == 1.0 >= drawn.worst_group
        assert one.group_share <= drawn.group_share == 1.0
    assert table[2, 1, ONE, FRESH].group_share == 1


def test_reused_masks_tell_changes_by_one_message():
    """The sender's masked share of two sums, to the one that it sends to."""
    assert unmasked_shares(two_trees(4), {0}) == frozenset()
    assert unmasked_shares(two_trees(4), {0}, reused_masks=True) == {1}


# ------------------------------------------------------------------------------- pairs of trees


@pytest.mark.parametrize(("parties", "trees"), [(2, 1), (3, 3), (4, 15), (5, 105)])
def test_every_tree_is_there_once(parties, trees):
    found = list(_every_tree(tuple(range(parties))))
    assert len({steps for _, steps in found}) == len(found) == trees * 2 ** (parties - 1)
    for root, steps in found:
        tree = AggregationTree(parties, tuple((step,) for step in steps))
        assert tree.root == root
        assert max(tree.leaf_sets(), key=len) == frozenset(range(parties))


@pytest.mark.parametrize("parties", [3, 4])
def test_pairs_are_all_pairs_but_for_names(parties):
    trees = [
        (root, AggregationTree(parties, tuple((step,) for step in steps)))
        for root, steps in _every_tree(tuple(range(parties)))
    ]
    every = [(a, b) for r, a in trees for s, b in trees if r == s]
    reduced = list(_every_pair(parties))
    assert len(every) == len(reduced) * factorial(parties)
    for count in (are_different, exposes_a_share):
        assert sum(map(count, every)) == sum(map(count, reduced)) * factorial(parties)


def test_definition_4_does_not_suffice_but_our_trees_do():
    rows = {row.parties: row for row in tabulate_pairs(range(2, 6))}
    for parties, row in rows.items():
        assert row.exhaustive
        assert row.ours_different
        assert row.ours_exposing == (parties == 2)
        assert 0 < row.exposing <= row.different <= row.pairs
    assert (rows[4].pairs, rows[4].different, rows[4].exposing) == (150, 91, 23)


def test_drawn_pairs_end_at_one_party():
    for first, second in list(_drawn_pairs(7, 0))[:50]:
        assert first.root == second.root
        assert max(map(len, second.leaf_sets())) == 7
