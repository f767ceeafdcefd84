"""Masks in a ring: shares that are encoded, sums that are exact, messages that say nothing."""

from collections import Counter
from itertools import product
from math import comb, fsum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.kernels import Masking, draws
from fedatlas.federations.vertical.secure_sum import AggregationTree, Ring, Trees, two_trees
from fedatlas.schema.models import validated
from fedatlas.schema.network_model import NetworkModel, RealMasks, RingMasks

BITS = st.integers(1, 52)
KEY = np.uint64(0x0123456789ABCDEF)


@st.composite
def rings_and_shares(draw) -> tuple[Ring, np.ndarray]:
    """Shares anywhere in the range, its ends included."""
    ring = Ring(draw(BITS), draw(st.integers(2, 20)))
    end = float(np.nextafter(ring.limit, 0))
    number = st.one_of(st.floats(-end, end), st.sampled_from([-end, 0.0, end]))
    shares = draw(st.lists(number, min_size=ring.parties, max_size=ring.parties))
    return ring, np.array(shares)


def added_up(tree: AggregationTree, terms: np.ndarray) -> Any:
    """The sum at the root, in the order of the tree; of integers modulo 2^64."""
    held = terms.copy()
    for receiver, sender in tree.steps:
        held[[receiver]] += held[[sender]]
    return held[tree.root]


def exact_sum(ring: Ring, shares: np.ndarray) -> float:
    """Of the rounded shares, by Python's integers."""
    return sum(int(np.rint(share * ring.steps)) for share in shares) / 2**ring.fraction_bits


# ------------------------------------------------------------------------------- sums and trees


@settings(deadline=None)
@given(rings_and_shares(), st.integers(0, 2**32), st.integers(0, 19))
def test_sums_along_both_trees_cancel_exactly(case, seed, root):
    ring, shares = case
    first, second = two_trees(ring.parties, root % ring.parties)
    masks = np.random.default_rng(seed).integers(2**64, size=ring.parties, dtype=np.uint64)
    told = ring.from_ring(
        np.array(added_up(first, ring.to_ring(shares) + masks)) - np.array(added_up(second, masks))
    )
    assert float(told) == exact_sum(ring, shares)


@settings(deadline=None)
@given(rings_and_shares())
def test_a_sum_is_off_by_its_rounding_at_most(case):
    ring, shares = case
    told, plain = exact_sum(ring, shares), fsum(shares)
    rounding = ring.parties * 2.0 ** -(ring.fraction_bits + 1)
    assert abs(told - plain) <= rounding + 2**-52 * abs(plain)


@given(BITS, st.floats(-1, 1))
def test_one_share_is_rounded_to_the_nearest_step(bits, share):
    ring = Ring(bits, 4)
    assert abs(float(ring.from_ring(ring.to_ring(share))) - share) <= 2.0 ** -(bits + 1)


@pytest.mark.parametrize("parties", [2, 3, 7, 8, 20])
@pytest.mark.parametrize("bits", [1, 32, 40, 52])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_limit_is_where_a_sum_of_equal_shares_would_overflow(parties, bits, sign):
    ring = Ring(bits, parties)
    assert ring.limit == pytest.approx(2.0 ** (63 - bits) / parties, rel=1e-15)
    largest = np.full(parties, sign * np.nextafter(ring.limit, 0))
    total = added_up(two_trees(parties)[0], ring.to_ring(largest))
    assert float(ring.from_ring(np.array(total))) == exact_sum(ring, largest)
    assert sign * exact_sum(ring, largest) < 2.0 ** (63 - bits)
    with pytest.raises(FedatlasError, match=rf"{bits} fraction bits and {parties} parties"):
        ring.to_ring(sign * ring.limit)


@pytest.mark.parametrize("share", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(share):
    with pytest.raises(FedatlasError, match="does not fit into the ring"):
        Ring(32, 2).to_ring(np.array([0.0, share]))


# ------------------------------------------------------------------------------ compiled loops


def hidden(law: Masking, shares: np.ndarray) -> tuple[list[bool], list[np.ndarray]]:
    """What `hide` says and leaves behind, of real masks and of those in the ring."""
    q = len(shares)
    held = [np.zeros(q), np.zeros(q), np.zeros(q, np.uint64), np.zeros(q, np.uint64)]
    with np.errstate(over="ignore"):  # 64-bit integers are to wrap around
        fits = [draws.hide.py_func(law, p, p, share, *held) for p, share in enumerate(shares)]
    return fits, held


@pytest.fixture
def inlined(monkeypatch):
    """Compiled loops inline these; here they run as Python."""
    for name in ("bits", "unmasked_sum"):
        monkeypatch.setattr(draws, name, getattr(draws, name).py_func)


@pytest.mark.usefixtures("inlined")
@settings(deadline=None, max_examples=50)
@given(rings_and_shares())
def test_compiled_loops_compute_the_same(case):
    ring, shares = case
    fits, held = hidden(law := Masking(KEY, 0.0, ring.steps, ring.limit), shares)
    assert all(fits)
    assert (held[2] == ring.to_ring(shares) + held[3]).all()
    trees = np.array([tree.steps for tree in two_trees(ring.parties)])
    with np.errstate(over="ignore"):
        assert draws.revealed_sum.py_func(law, trees, *held) == exact_sum(ring, shares)


@pytest.mark.usefixtures("inlined")
def test_compiled_loops_tell_what_does_not_fit():
    ring = Ring(40, 4)
    fits, _ = hidden(
        Masking(KEY, 0.0, ring.steps, ring.limit),
        np.array([0.0, ring.limit, -np.inf, np.nan, np.nextafter(-ring.limit, 0)]),
    )
    assert fits == [True, False, False, False, True]


def bits_of_counters(count: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array([draws.bits.py_func(KEY, number) for number in range(count)], np.uint64)


def test_numbers_of_counters_are_those_of_splitmix64():
    # The generator's first outputs of the seed 1234567, as other implementations test for.
    words = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    seed, drawn = np.uint64(1234567), range(1, 4)
    with np.errstate(over="ignore"):
        assert [draws.bits.py_func(seed, number) for number in drawn] == words
    assert [draws.uniform(seed, number) for number in drawn] == [
        (word >> 11) / 2**53 for word in words
    ]
    assert [draws.mask(seed, number) for number in drawn] == [
        (word >> 11) / 2**52 - 1 for word in words
    ]


# ------------------------------------------------------------------------------------- secrecy


def view(trees: Trees, party: int, shares, masks, modulus: int) -> tuple:
    """All that a party is sent or has of its own, in a ring of `modulus` elements."""
    sides = ([s + m for s, m in zip(shares, masks, strict=True)], list(masks))
    seen = [shares[party], masks[party]]
    for tree, held in zip(trees, sides, strict=True):
        for receiver, sender in tree.steps:
            if receiver == party:
                seen.append(held[sender] % modulus)
            held[receiver] += held[sender]
    return tuple(seen)


def views(trees: Trees, party: int, shares, modulus: int) -> Counter:
    every = product(range(modulus), repeat=len(shares))
    return Counter(view(trees, party, shares, masks, modulus) for masks in every)


@pytest.mark.parametrize(("parties", "modulus"), [(3, 8), (4, 4), (5, 3)])
def test_a_party_alone_sees_the_same_whatever_the_others_shares_of_one_sum_are(parties, modulus):
    """Perfect secrecy by counting all masks: the law of a view depends on the sum alone."""
    trees, random = two_trees(parties), np.random.default_rng(0)
    for party in range(parties):
        others = [p for p in range(parties) if p != party]
        for _ in range(3):
            shares = random.integers(modulus, size=parties).tolist()
            changed = shares.copy()
            for move, other in zip(random.integers(1, modulus, len(others)), others, strict=True):
                changed[other] += int(move)
            changed[others[0]] += sum(shares) - sum(changed)
            assert sum(shares) == sum(changed)
            assert shares != changed
            first, second = (views(trees, party, s, modulus) for s in (shares, changed))
            assert first == second


def test_counting_finds_a_leak_where_there_is_one():
    """Two parties: the sum, and so a share, reaches the root."""
    trees = two_trees(2)
    assert views(trees, 0, [1, 2], 4) != views(trees, 0, [1, 3], 4)


@pytest.mark.parametrize("share", [0.0, 1e-6, -3.0, 2.0**19])
def test_masked_shares_of_the_large_ring_look_uniform(share):
    """Every byte of a masked share, by χ², with the masks that training uses."""
    ring = Ring(40, 8)
    count = 20_000
    masks = bits_of_counters(count)
    masked = ring.to_ring(np.full(count, share)) + masks
    for part in masked.view(np.uint8).reshape(count, 8).T:
        seen = np.bincount(part, minlength=256)
        assert stats.chisquare(seen).pvalue > 1e-5
    # Bit by bit: shares are told from masks by no bit.
    bits = np.unpackbits(masked.view(np.uint8)).reshape(count, 64).sum(axis=0)
    assert np.abs(bits - count / 2).max() < 5 * np.sqrt(count) / 2


def test_masks_differ_and_use_the_whole_ring():
    drawn = set(bits_of_counters(4096).tolist())
    assert len(drawn) == 4096  # collisions among so many: a chance of comb(4096, 2) / 2^64
    assert comb(4096, 2) / 2**64 < 1e-11
    assert min(drawn) < 2**64 / 1000
    assert max(drawn) > 2**64 * 0.999


# ------------------------------------------------------------------------------- configuration


def test_masks_are_stated_in_one_way():
    assert NetworkModel().masks == RealMasks(scale=1.0)
    declared = {"masks": {"kind": "ring", "fraction_bits": 40}}
    assert validated(NetworkModel, declared, "here").masks == RingMasks(
        kind="ring", fraction_bits=40
    )


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"mask_scale": 1.0}, "unknown key 'mask_scale'"),
        ({"masks": {"kind": "ring"}}, "fraction_bits"),
        ({"masks": {"kind": "ring", "fraction_bits": 53}}, "fraction_bits"),
        ({"masks": {"kind": "ring", "fraction_bits": 8, "scale": 1}}, "unknown key 'masks.scale'"),
        ({"masks": {"kind": "real", "fraction_bits": 8}}, "unknown key 'masks.fraction_bits'"),
        ({"masks": {"kind": "paillier"}}, "real.*ring"),
    ],
)
def test_other_masks_are_refused(declared, message):
    with pytest.raises(FedatlasError, match=message):
        validated(NetworkModel, declared, "here")
