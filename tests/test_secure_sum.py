"""Algorithm 1 of VFB²: trees by Definition 4, masks that cancel, and who can unmask whom."""

from math import ceil, fsum, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.kernels.draws import unmasked_sum
from fedatlas.federations.vertical.secure_sum import AggregationTree, Trees, two_trees
from fedatlas.studies.leaks import exposes_a_share, unmasked_shares

SIZES = [*range(2, 18), 31, 32, 33, 63, 64, 65, 100, 129]
NUMBERS = st.floats(-1e6, 1e6)
SUMS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=20).map(
    lambda pairs: tuple(np.array(pairs).T)
)
# Neighbours first, and last. Definition 4 holds, and yet the root receives the masked shares of 1
# and 2 in the one tree and their masks in the other.
STRIDES = (AggregationTree(3, (((0, 1),), ((0, 2),))), AggregationTree(3, (((0, 2),), ((0, 1),))))


# --- the trees ---


def nested(tree: AggregationTree):
    """The tree as pairs of pairs of parties."""
    nodes: dict = {party: party for party in range(tree.parties)}
    for receiver, sender in tree.steps:
        nodes[receiver] = (nodes[receiver], nodes.pop(sender))
    (top,) = nodes.values()
    return top


def leaves(node) -> frozenset[int]:
    if isinstance(node, int):
        return frozenset({node})
    return leaves(node[0]) | leaves(node[1])


def subtrees(node):
    yield node
    if not isinstance(node, int):
        yield from subtrees(node[0])
        yield from subtrees(node[1])


def depth(node) -> int:
    return 0 if isinstance(node, int) else 1 + max(depth(node[0]), depth(node[1]))


def different_by_definition(trees: Trees) -> bool:
    """Definition 4, word for word."""
    first, second = (nested(tree) for tree in trees)
    first_sets, second_sets = (set(map(leaves, subtrees(tree))) for tree in (first, second))
    return all(
        len(part) == 1 or part in (leaves(first), leaves(second))
        for part in first_sets & second_sets
    )


@pytest.mark.parametrize("parties", SIZES)
def test_trees_satisfy_definition_4_at_the_least_depth(parties: int):
    trees = two_trees(parties)
    assert different_by_definition(trees)
    for tree in trees:
        assert leaves(nested(tree)) == frozenset(range(parties))
        assert tree.depth == depth(nested(tree)) == ceil(log2(parties))
        assert tree.root == 0


def test_four_parties_are_the_papers_figure_5():
    first, second = two_trees(4)
    assert first.levels == (((0, 1), (2, 3)), ((0, 2),))
    assert second.levels == (((0, 2), (1, 3)), ((0, 1),))
    assert first.leaf_sets() == {frozenset(part) for part in [(0, 1), (2, 3), (0, 1, 2, 3)]}
    assert first.sent == (frozenset({1}), frozenset({3}), frozenset({2, 3}))


def test_a_tree_does_not_differ_from_itself():
    tree, _ = two_trees(5)
    assert not different_by_definition((tree, tree))


@pytest.mark.parametrize("parties", range(2, 9))
def test_every_party_can_be_the_root(parties: int):
    for root in range(parties):
        trees = two_trees(parties, root)
        assert [tree.root for tree in trees] == [root, root]
        assert different_by_definition(trees)


@pytest.mark.parametrize("parties", [1, 0, -3])
def test_a_sum_of_one_share_is_refused(parties: int):
    with pytest.raises(FedatlasError, match=f"parties: {parties}: .* nothing to hide"):
        two_trees(parties)


# --- the sum ---


def unmasked(shares: np.ndarray, masks: np.ndarray) -> float:
    """As the compiled loops compute it, here without compiling them."""
    trees = np.array([tree.steps for tree in two_trees(len(shares))])
    return unmasked_sum.py_func(trees, shares + masks, masks.copy())


@settings(deadline=None)
@given(SUMS)
def test_masks_cancel_to_rounding(numbers):
    shares, masks = numbers
    depth = ceil(log2(len(shares)))
    magnitude = np.abs(shares).sum() + 2 * np.abs(masks).sum()
    error = abs(unmasked(shares, masks) - fsum(shares))
    assert error <= 1.01 * (depth + 3) * 2**-53 * magnitude


def test_integers_are_added_exactly():
    assert unmasked(np.arange(10.0), 2.0 ** np.arange(10)) == 45


# --- who can unmask whom, by test_collusion.py the solution of all equations ---


@pytest.mark.parametrize("parties", [*range(3, 18), 31, 32, 33, 63, 64])
def test_no_party_alone_unmasks_a_share(parties: int):
    assert not exposes_a_share(two_trees(parties))


def test_the_papers_example_of_collusion():
    """Its parties 2 and 3 unmask party 4, and with the sum at hand party 1 as well."""
    assert unmasked_shares(two_trees(4), {1, 2}) == {3, 0}


def test_all_but_one_know_the_last_share():
    for parties in range(2, 9):
        for last in range(parties):
            pool = set(range(parties)) - {last}
            assert unmasked_shares(two_trees(parties), pool) == {last}


def test_nothing_is_left_to_unmask_if_all_collude():
    assert unmasked_shares(two_trees(4), range(4)) == frozenset()


def test_definition_4_does_not_protect_single_shares():
    assert different_by_definition(STRIDES)
    assert unmasked_shares(STRIDES, {0}) == {1, 2}
