"""Seeds that are added after verdicts were seen: errors hold whenever one stops."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from fedatlas.evaluation.comparison import (
    Criterion,
    compare,
    decide,
    e_of_signs,
    median_interval,
    p_of_signs,
    sign_p,
    t_quantile,
)
from fedatlas.evaluation.evidence import counts
from fedatlas.evaluation.verdicts import format_correction, tally
from verdict_factory import effect, verdict

BETTER = Criterion("better", 0.1)
#: Looks at the verdicts: after every seed from six on.
LOOKS = range(6, 49)
GAPS = st.lists(st.floats(-1, 1), min_size=1, max_size=30, unique=True).map(np.array)


def outside(seeds: int, seeds_added: bool) -> int:
    """k, if the interval reaches from the k-th smallest to the k-th largest; 0 without bounds."""
    low = median_interval(np.arange(1.0, seeds + 1), seeds_added).low
    return int(max(low, 0))


def ever_decided(seeds_added: bool, looks: range, chance: float = 0.5) -> list[float]:
    """Probability that some look so far found the median above a border: exactly, by look.

    chance: that a seed lies above it. Of paths that have not decided the number below is enough.
    """
    below, decided, found = np.array([1.0]), 0.0, []
    for seeds in range(1, looks[-1] + 1):
        below = np.append(below, 0.0) * chance + np.insert(below, 0, 0.0) * (1 - chance)
        if seeds in looks:
            sure = outside(seeds, seeds_added)
            decided += below[:sure].sum()
            below[:sure] = 0.0
            found.append(float(decided))
    return found


# --- the e-process of the sign test ---


@pytest.mark.parametrize("seeds", [1, 2, 6, 7, 12, 25])
def test_the_e_process_is_the_integral_over_probabilities(seeds):
    for against in range(seeds + 1):

        def integrand(p, against=against):
            return (
                2
                * stats.beta.pdf(p, 0.5, 0.5)
                * (2 * p) ** (seeds - against)
                * (2 * (1 - p)) ** against
            )

        expected, _ = integrate.quad(integrand, 0.5, 1)
        assert e_of_signs(seeds, against) == pytest.approx(expected, rel=1e-6)
        p = p_of_signs(seeds, against, seeds_added=True)
        assert p == pytest.approx(min(1, 1 / expected), rel=1e-6)


@pytest.mark.parametrize("seeds", [1, 2, 7, 20, 60, 200])
def test_under_a_tie_its_expectation_is_1_and_below_one_it_is_less(seeds):
    against = np.arange(seeds + 1)
    values = np.array([e_of_signs(seeds, int(number)) for number in against])
    for chance, most in ((0.5, 1.0), (0.6, 1.0), (0.9, 1.0)):  # that a seed speaks against
        mean = float(stats.binom.pmf(against, seeds, chance) @ values)
        assert mean == pytest.approx(most) if chance == 0.5 else mean < most


@given(seeds=st.integers(0, 60), against=st.integers(0, 60))
def test_under_a_tie_no_seed_raises_it_in_the_mean(seeds, against):
    against = min(against, seeds)
    after = [e_of_signs(seeds + 1, against + more) for more in (0, 1)]
    assert np.mean(after) == pytest.approx(e_of_signs(seeds, against), rel=1e-9)


# --- errors of whoever looks after every seed ---


def test_wrong_outcomes_of_whoever_stops_when_it_suits_by_exact_recursion():
    assert ever_decided(True, LOOKS)[-1] < 0.016
    assert ever_decided(True, range(1, 401))[-1] <= 0.025
    # Which the interval of a fixed number of seeds does not achieve.
    assert ever_decided(False, LOOKS)[-1] > 0.08


def test_the_recursion_agrees_with_all_sequences_of_twelve_signs():
    looks = range(6, 13)
    signs = (np.arange(2**12)[:, None] >> np.arange(12)) % 2
    for seeds_added in (True, False):
        below = signs.cumsum(axis=1)[:, 5:]
        sure = [outside(seeds, seeds_added) for seeds in looks]
        assert ever_decided(seeds_added, looks)[-1] == (below < sure).any(axis=1).mean()


def test_what_nine_in_ten_seeds_say_is_found_with_twelve():
    """As many as Bonferroni's correction for five looks asks for."""
    chances = dict(zip(LOOKS, ever_decided(True, LOOKS, 0.9), strict=True))
    assert chances[11] < 0.5 < chances[12]
    assert chances[48] > 0.999


# --- the interval ---


def test_seven_seeds_that_agree_decide_and_six_do_not():
    outcome, found = compare(np.linspace(0.3, 0.4, 6), BETTER, "decades", seeds_added=True)
    assert (outcome, found.low, found.needed) == ("undecided", -math.inf, 7)
    outcome, found = compare(np.linspace(0.3, 0.4, 7), BETTER, "decades", seeds_added=True)
    assert (outcome, found.p) == ("reproduced", p_of_signs(7, 0, seeds_added=True))
    assert "holds whenever seeds stop being added" in counts(found)
    assert "stop being added" not in counts(replace(found, seeds_added=False))


@given(gaps=GAPS, border=st.floats(-1.1, 1.1))
def test_the_interval_is_the_test_turned_round(gaps, border):
    """Its ends are order statistics, as far from the smallest as from the largest."""
    interval = median_interval(gaps, seeds_added=True)
    if np.abs(gaps - border).min() > 1e-6:
        refused = min(sign_p(gaps, border, True), sign_p(-gaps, -border, True)) <= 0.025
        assert (interval.low < border < interval.high) != refused
    if math.isfinite(interval.low):
        ranked = np.sort(gaps).tolist()
        assert ranked.index(interval.low) == len(gaps) - 1 - ranked.index(interval.high)


@given(gaps=GAPS)
def test_it_holds_the_interval_of_a_fixed_number_of_seeds(gaps):
    fixed, added = median_interval(gaps), median_interval(gaps, seeds_added=True)
    assert added.low <= fixed.low and fixed.high <= added.high


def test_more_seeds_make_it_shorter():
    share = [1 - 2 * outside(seeds, True) / seeds for seeds in (7, 12, 25, 50, 100, 200)]
    assert share == sorted(share, reverse=True)
    assert share[-1] < 0.25


def test_a_tally_counts_how_many_could_survive_where_seeds_were_added():
    fixed = [verdict(f"demo-x/{n}", "undecided", effect=effect(seeds=7)) for n in "ab"]
    added = [replace(each, effect=replace(each.effect, seeds_added=True)) for each in fixed]
    # 2/128 ≤ 2.5 %, but not 2 · 0.0187; eight seeds have 0.00995.
    assert (tally(fixed).possible, tally(fixed).enough) == (2, 7)
    assert (tally(added).possible, tally(added).enough) == (0, 8)
    # As long as none is decided, nothing is said of what is left.
    decided = [replace(each, outcome="reproduced") for each in added]
    assert "too few for any to (smallest p 1/54); 8 would do" in format_correction(tally(decided))


# --- means: splits that share rows, published numbers ---


@pytest.mark.parametrize("seeds", [6, 10, 30])
def test_the_interval_of_a_mean_ends_where_the_bayes_factor_of_normal_effects_is_20(seeds):
    def likelihood(t, effect_size):
        return stats.nct.pdf(t, seeds - 1, effect_size * math.sqrt(seeds))

    t = float(t_quantile(seeds - 1, seeds_added=True))
    marginal, _ = integrate.quad(lambda d: likelihood(t, d) * stats.norm.pdf(d), -8, 8, limit=200)
    assert marginal / stats.t.pdf(t, seeds - 1) == pytest.approx(20, rel=1e-3)


def test_a_mean_is_held_however_often_one_looks():
    draws = np.random.default_rng(0).normal(size=(4000, LOOKS[-1]))
    wrong = {True: np.zeros(4000, bool), False: np.zeros(4000, bool)}
    for seeds in LOOKS:
        own = draws[:, :seeds]
        t = own.mean(axis=1) / own.std(axis=1, ddof=1) * math.sqrt(seeds)
        for seeds_added, found in wrong.items():
            found |= t > t_quantile(seeds - 1, seeds_added)
    assert wrong[True].mean() < 0.025 < wrong[False].mean()


def test_p_and_interval_agree_on_splits_that_share_rows():
    rng = np.random.default_rng(3)
    for _ in range(300):
        gaps = rng.normal(rng.uniform(0, 0.6), 0.2, 12)
        interval = median_interval(gaps, True, overlap=0.25)
        outcome, found = compare(gaps, BETTER, "test_auroc", seeds_added=True, overlap=0.25)
        assert outcome == decide(interval, BETTER)
        if outcome == "reproduced":
            assert found.p <= 0.025
