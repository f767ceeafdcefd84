"""Random numbers of arrays: their distributions, their independence, and who gets the same ones."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.arithmetic.torch_device import TorchDraws

pytestmark = pytest.mark.usefixtures("one_thread")

MANY, TRIALS = 100_000, 37
# Of each kind: how it is drawn and, where it is continuous, its distribution.
KINDS: dict[str, Any] = {
    "uniform": stats.uniform(),
    "laplace": stats.laplace(),
    "normal": stats.norm(),
    "binomial": stats.binom(TRIALS, 0.5),
}
LIKE: dict[str, tuple[Draws, Any]] = {
    "numpy": (Draws(), np.zeros(MANY)),
    "float32": (TorchDraws(), torch.zeros(MANY)),
    "float64": (TorchDraws(), torch.zeros(MANY, dtype=torch.float64)),
}

all_kinds = pytest.mark.parametrize("kind", KINDS)
continuous = pytest.mark.parametrize("kind", ["uniform", "laplace", "normal"])


def drawn(draws: Draws, kind: str, random: RoundRandom, like: Any) -> np.ndarray:
    values = (
        draws.binomial(random, TRIALS, like)
        if kind == "binomial"
        else getattr(draws, kind)(random, like)
    )
    assert values.shape == like.shape
    if kind != "binomial":
        assert values.dtype == like.dtype
    return np.asarray(values)


# --------------------------------------------------------------------------------- distributions


@continuous
@pytest.mark.parametrize("how", LIKE)
def test_continuous_distributions(kind, how):
    values = drawn(LIKE[how][0], kind, RoundRandom(1), LIKE[how][1])
    assert stats.kstest(values, KINDS[kind].cdf).pvalue > 1e-3
    # Scale 1 of Laplace, whose variance is 2, and variance 1 of the normal, within four errors.
    assert abs(values.mean() - KINDS[kind].mean()) < 4 * KINDS[kind].std() / MANY**0.5
    assert values.var() == pytest.approx(KINDS[kind].var(), rel=0.03)


@pytest.mark.parametrize("how", LIKE)
@pytest.mark.parametrize("trials", [1, 2, TRIALS, 13_000])
def test_counts_of_heads(how, trials):
    draws, like = LIKE[how]
    values = np.asarray(draws.binomial(RoundRandom(2), trials, like))
    assert (values == np.round(values)).all()
    assert values.min() >= 0
    assert values.max() <= trials
    # Of equally likely counts, at most ten groups.
    edges = np.unique(stats.binom(trials, 0.5).ppf(np.linspace(0, 1, 11)[1:-1]))
    below = np.concatenate([[0], stats.binom(trials, 0.5).cdf(edges), [1]])
    groups = np.searchsorted(edges, values, side="left")
    expected = np.diff(below) * MANY
    kept = expected > 0.5
    observed = np.bincount(groups, minlength=len(expected))
    assert observed[~kept].sum() == 0
    assert stats.chisquare(observed[kept], expected[kept]).pvalue > 1e-3


@continuous
@pytest.mark.parametrize("how", LIKE)
def test_tails_have_their_share(kind, how):
    """Kolmogorov and Smirnov look at the middle: the outermost hundredth on either side, too."""
    values = drawn(LIKE[how][0], kind, RoundRandom(3), LIKE[how][1])
    lower = (values < KINDS[kind].ppf(0.01)).sum()
    upper = (values > KINDS[kind].ppf(0.99)).sum()
    assert abs(lower - 1000) < 4 * 1000**0.5
    assert abs(upper - 1000) < 4 * 1000**0.5


def test_signs_of_laplace_do_not_depend_on_sizes():
    values = drawn(TorchDraws(), "laplace", RoundRandom(4), LIKE["float64"][1])
    assert abs(stats.pearsonr(np.sign(values), np.abs(values)).statistic) < 4 / MANY**0.5


# ---------------------------------------------------------------------------------- independence


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """In standard errors."""
    return float(abs(np.corrcoef(one, other)[0, 1]) * len(one) ** 0.5)


@all_kinds
def test_places_are_independent(kind):
    values = drawn(TorchDraws(), kind, RoundRandom(5), LIKE["float64"][1])
    for lag in (1, 2, 3, 64, 1000):
        assert correlation(values[lag:], values[:-lag]) < 4
        # Sizes, too: neighbours could agree in how far out they are.
        sizes = np.abs(values - np.median(values))
        assert correlation(sizes[lag:], sizes[:-lag]) < 4


@all_kinds
@pytest.mark.parametrize("how", LIKE)
def test_calls_rounds_and_seeds_are_independent(kind, how):
    draws, like = LIKE[how]
    random = RoundRandom(6).at(0)
    several = [drawn(draws, kind, random, like) for _ in range(2)]
    several.append(drawn(draws, kind, random.at(1), like))
    several.append(drawn(draws, kind, RoundRandom(7).at(0), like))
    for one, other in combinations(several, 2):
        assert correlation(one, other) < 4
        assert correlation(one[1:], other[:-1]) < 4


class Keys:
    """Hands out given keys."""

    def __init__(self, *keys: int) -> None:
        self.keys = list(keys)

    def key(self) -> int:
        return self.keys.pop(0)


def test_keys_that_differ_in_one_bit_are_independent():
    like, draws = LIKE["float64"][1][:20_000], TorchDraws()
    plain = draws.uniform(Keys(12345), like).numpy()
    for bit in range(64):
        key = 12345 ^ (1 << bit)
        key -= (key >> 63) << 64  # as a signed number
        assert correlation(draws.uniform(Keys(key), like).numpy(), plain) < 4.5


# ------------------------------------------------------------------------------ shapes and types


@all_kinds
@settings(deadline=None, max_examples=30)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_numbers_depend_on_the_place_alone(kind, shape, seed):
    draws, like = TorchDraws(), torch.zeros(shape)
    shaped = drawn(draws, kind, RoundRandom(seed), like)
    flat = drawn(draws, kind, RoundRandom(seed), torch.zeros(like.numel()))
    np.testing.assert_array_equal(shaped.ravel(), flat)
    # More places, such as more agents: the first have the numbers that they had.
    longer = drawn(draws, kind, RoundRandom(seed), torch.zeros(like.numel() + 7))
    np.testing.assert_array_equal(longer[: like.numel()], flat)


def test_memory_that_is_not_contiguous_makes_no_difference():
    draws, like = TorchDraws(), torch.zeros(6, 4)
    expected = draws.laplace(RoundRandom(9), torch.zeros(4, 6))
    assert torch.equal(draws.laplace(RoundRandom(9), like.t()), expected)


@all_kinds
def test_types_round_the_same_numbers(kind):
    draws = TorchDraws()
    single, double = (drawn(draws, kind, RoundRandom(10), LIKE[how][1]) for how in
                      ("float32", "float64"))  # fmt: skip
    np.testing.assert_array_equal(single, double.astype(np.float32))


def test_what_is_asked_for_is_left_alone():
    draws, like = TorchDraws(), torch.full((3, 2), 7.0)
    for kind in KINDS:
        drawn(draws, kind, RoundRandom(11), like)
    assert (like == 7).all()


# ------------------------------------------------------------------------------- the hash itself

MASK = (1 << 64) - 1
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def split_mix(state: int) -> int:
    """The output of SplitMix64 at a state, in Python's integers."""
    z = (state ^ (state >> 30)) * FIRST & MASK
    z = (z ^ (z >> 27)) * SECOND & MASK
    return z ^ (z >> 31)


def test_the_reference_here_is_split_mix_64():
    """The first outputs of the seed 1234567, as published with other implementations of it."""
    outputs = [split_mix((1234567 + place * GOLDEN) & MASK) for place in (1, 2, 3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_uniform_numbers_are_the_upper_bits_of_split_mix():
    values = TorchDraws().uniform(Keys(1234567), LIKE["float64"][1]).numpy()
    hashes = [split_mix((1234567 + place * GOLDEN) & MASK) for place in range(1, 2001)]
    np.testing.assert_allclose(values[:2000], np.array(hashes, float) / 2.0**64, atol=2.0**-22)


def key_of(first_hash: int) -> int:
    """The key under which the first place has this hash: SplitMix64 backwards."""
    z = first_hash
    for shift, factor in ((31, SECOND), (27, FIRST), (30, 1)):
        unshifted = z
        for _ in range(64 // shift):
            unshifted = z ^ (unshifted >> shift)
        z = unshifted * pow(factor, -1, 1 << 64) & MASK
    key = (z - GOLDEN) & MASK
    return key - ((key >> 63) << 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bits", [0, 1, MASK - 1, MASK])
def test_the_outermost_hashes_give_ordinary_numbers(bits, dtype):
    assert split_mix((key_of(bits) + GOLDEN) & MASK) == bits
    draws, like = TorchDraws(), torch.zeros(1, dtype=dtype)
    assert 0 < draws.uniform(Keys(key_of(bits)), like).item() < 1
    assert abs(draws.laplace(Keys(key_of(bits)), like).item()) < 40
    assert abs(draws.normal(Keys(key_of(bits), key_of(bits)), like).item()) < 10
    assert 0 <= draws.binomial(Keys(key_of(bits)), TRIALS, like).item() <= TRIALS
