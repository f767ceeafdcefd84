"""The rule of verdicts: intervals, outcomes, corrections, and how many seeds would decide."""

import math
from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import stats

from fedatlas.evaluation.comparison import (
    Criterion,
    Interval,
    advantages,
    compare,
    decide,
    holm,
    median_interval,
    of_claim,
    seeds_needed,
    sign_p,
    together,
)
from fedatlas.schema.claims import OUTCOMES, CaseOutcome, Effect

ROOT = Path(__file__).parents[1]
INF = math.inf
BETTER = Criterion("better", 0.1)
GAPS = st.lists(
    st.one_of(st.floats(-1, 1), st.sampled_from([INF, -INF, 0.0])), min_size=1, max_size=14
).map(np.array)
#: What a claim becomes if the runs are swapped; only "better" has an opposite.
MIRRORED = {"reproduced", "smaller than claimed"}


# --- the interval ---


@pytest.mark.parametrize(
    ("seeds", "place"), [(5, None), (6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (25, 8)]
)
def test_the_interval_reaches_from_the_kth_smallest_to_the_kth_largest(seeds, place):
    """k of the classical tables of the sign test's interval at 95 %."""
    interval = median_interval(np.random.default_rng(0).permutation(np.arange(seeds)))
    expected = (-INF, INF) if place is None else (place - 1, seeds - place)
    assert (interval.low, interval.high) == expected
    assert interval.estimate == (seeds - 1) / 2


@given(gaps=st.lists(st.floats(-1, 1), min_size=1, max_size=20, unique=True).map(np.array))
def test_the_interval_holds_what_the_sign_test_of_scipy_does_not_refuse(gaps):
    interval = median_interval(gaps)
    for border in np.concatenate([gaps - 1e-3, gaps + 1e-3]):
        # Strictly between two gaps, so that none ties.
        assume(np.abs(gaps - border).min() > 1e-6)
        p = stats.binomtest(int((gaps > border).sum()), len(gaps)).pvalue
        assert (interval.low < border < interval.high) == (p > 0.05)


def test_lost_seeds_are_ranks_and_veto_nothing():
    ours, theirs = np.array([1.0] * 9 + [INF]), np.array([2.0] * 10)
    gaps = advantages(ours, theirs)
    assert gaps[-1] == -INF
    assert decide(median_interval(gaps), BETTER) == "reproduced"
    assert advantages(np.array([INF]), np.array([INF])).tolist() == [0.0]


def test_resampled_splits_have_the_interval_of_nadeau_and_bengio():
    gaps = np.random.default_rng(1).normal(0.3, 0.1, 10)
    interval = median_interval(gaps, overlap=0.25)
    half = stats.t.ppf(0.975, 9) * gaps.std(ddof=1) * math.sqrt(1 / 10 + 0.25)
    assert interval.low == pytest.approx(min(np.sort(gaps)[1], gaps.mean() - half))
    assert interval.high == pytest.approx(max(np.sort(gaps)[-2], gaps.mean() + half))


def test_a_lost_seed_leaves_no_bounds_on_resampled_splits():
    """Infinite and not-a-number bounds once let the plain interval decide."""
    gaps = np.array([0.006, 0.006, 0.007, 0.09, 0.2, 0.01, 0.006, 0.3, 0.15, INF])
    assert median_interval(gaps).low > 0
    interval = median_interval(gaps, overlap=0.25)
    assert (interval.low, interval.high) == (-INF, INF)


# --- the outcome ---


@pytest.mark.parametrize(
    ("low", "high", "criterion", "expected"),
    [
        (0.1, 0.5, BETTER, "reproduced"),
        (0.05, 0.5, BETTER, "undecided"),
        (0.01, 0.09, BETTER, "smaller than claimed"),
        (-0.05, 0.05, BETTER, "no difference"),
        (0.0, 0.0, BETTER, "no difference"),
        (-0.05, 0.3, BETTER, "undecided"),
        (-0.3, 0.05, BETTER, "undecided"),
        (-0.3, -0.01, BETTER, "contradicted"),
        (-INF, INF, BETTER, "undecided"),
        (0.2, INF, BETTER, "reproduced"),
        # The paper prints 0.4: what is surely less is smaller, however large.
        (0.2, 0.3, Criterion("better", 0.1, 0.4), "smaller than claimed"),
        (0.2, 0.5, Criterion("better", 0.1, 0.4), "reproduced"),
        (0.05, 0.3, Criterion("better", 0.1, 0.4), "smaller than claimed"),
        (-0.05, 0.3, Criterion("better", 0.1, 0.4), "undecided"),
        # A tie is "at least as fast".
        (0.0, 0.0, Criterion("not worse", 0.1), "reproduced"),
        (-0.09, 5.0, Criterion("not worse", 0.1), "reproduced"),
        (-0.2, 0.1, Criterion("not worse", 0.1), "undecided"),
        (-0.5, -0.2, Criterion("not worse", 0.1), "contradicted"),
        (-0.09, 0.09, Criterion("equal", 0.1), "reproduced"),
        (-0.2, 0.09, Criterion("equal", 0.1), "undecided"),
        (0.1, 0.3, Criterion("equal", 0.1), "contradicted"),
        (-0.3, -0.1, Criterion("equal", 0.1), "contradicted"),
    ],
)
def test_outcome_of_an_interval(low, high, criterion, expected):
    assert decide(Interval((low + high) / 2, low, high), criterion) == expected


def test_borders_carry_the_rounding_of_decimal_fractions():
    lead = 0.82 - 0.8  # a little less than 0.02
    assert decide(Interval(lead, lead, lead), Criterion("better", 0.02)) == "reproduced"
    behind = 0.8 - 0.82
    assert decide(Interval(behind, behind, behind), Criterion("not worse", 0.02)) == "contradicted"
    for gap in (lead, behind):
        assert decide(Interval(gap, gap, gap), Criterion("equal", 0.02)) == "contradicted"


@given(gaps=GAPS, seed=st.integers(0, 9))
@example(gaps=np.array([0.0] * 13 + [-0.0]), seed=0)
def test_the_order_of_seeds_does_not_matter(gaps, seed):
    again = np.random.default_rng(seed).permutation(gaps)
    (outcome, found), (outcome_again, found_again) = (
        compare(each, BETTER, "x") for each in (gaps, again)
    )
    assert outcome == outcome_again
    np.testing.assert_equal(asdict(found), asdict(found_again))  # an estimate may be no number


@given(gaps=GAPS, scale=st.sampled_from([0.5, 2.0, 1024.0]))
def test_the_unit_does_not_matter(gaps, scale):
    scaled = Criterion("better", 0.1 * scale)
    assert compare(gaps, BETTER, "x")[0] == compare(gaps * scale, scaled, "y")[0]


@given(gaps=GAPS)
def test_swapping_the_runs_mirrors_the_outcome(gaps):
    ours, theirs = (decide(median_interval(sign * gaps), BETTER) for sign in (1, -1))
    assert (ours == "contradicted") <= (theirs != "contradicted")
    assert (ours == "no difference") <= (theirs in {"no difference", "smaller than claimed"})
    if ours in MIRRORED:
        assert theirs in {"contradicted", "no difference"}
    interval, mirrored = median_interval(gaps), median_interval(-gaps)
    assert (interval.low, interval.high) == (-mirrored.high, -mirrored.low)
    equal = Criterion("equal", 0.1)
    assert decide(interval, equal) == decide(mirrored, equal)


@given(gaps=GAPS, direction=st.sampled_from(["better", "not worse", "equal"]))
def test_more_of_the_same_data_turns_no_decided_outcome_round(gaps, direction):
    criterion = Criterion(direction, 0.1)
    once, twice = (decide(median_interval(np.tile(gaps, times)), criterion) for times in (1, 2))
    if once != "undecided":
        # Sharper, such as "no difference" that becomes "smaller than claimed"; never the opposite.
        opposite = {"reproduced": "contradicted", "contradicted": "reproduced"}
        assert twice != "undecided"
        assert twice != opposite.get(once)


@pytest.mark.parametrize("seeds", [6, 7, 10])
def test_wrong_outcomes_by_complete_enumeration(seeds):
    """All signs are equally probable under a tie, whatever the sizes: no draws are needed."""
    sizes = np.linspace(1, 2, seeds)
    found = [
        decide(median_interval(np.array(signs) * sizes), Criterion("better", 1e-3))
        for signs in product([-1, 1], repeat=seeds)
    ]
    assert found.count("contradicted") / len(found) <= 0.025
    assert found.count("reproduced") / len(found) <= 0.025


# --- corrections, seeds, claims ---


def test_the_sign_test_is_that_of_scipy():
    gaps = np.array([0.3, 0.2, -0.1, 0.4, 0.5, INF, 0.05])
    for border in (0.0, 0.1, 0.25):
        expected = stats.binomtest(int((gaps > border).sum()), 7, alternative="greater").pvalue
        assert sign_p(gaps, border) == pytest.approx(expected)


def test_ties_are_no_evidence():
    gaps = np.array([-0.01] * 9 + [0.0])
    assert sign_p(-gaps, 0.0) == pytest.approx(11 / 1024)
    outcome, effect = compare(gaps, BETTER, "x")
    assert (outcome, effect.p) == ("no difference", None)


def test_a_printed_lead_has_an_error_of_its_own():
    """A perfect replication of a lucky lead is not "smaller than claimed"."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(2000):
        printed = 0.3 + rng.normal(0, 0.1)
        gaps = rng.normal(0.3, 0.1, 10)
        found.append(compare(gaps, Criterion("better", 0.05, max(printed, 0.05)), "x")[0])
    assert found.count("smaller than claimed") / len(found) < 0.03
    sure = compare(rng.normal(0.3, 0.01, 10), Criterion("better", 0.05, 0.9), "x")[0]
    assert sure == "smaller than claimed"


def test_that_any_case_is_contradicted_is_asked_of_every_case():
    def case(outcome, p):
        effect = Effect(0.0, 0.0, 0.0, 0.1, "x", 6, p=p)
        return CaseOutcome("[case]", outcome, "", effect)

    tied = [case("undecided", None)] * 5
    assert together([*tied, case("contradicted", 1 / 64)]) == "undecided"
    assert together([*tied, case("contradicted", 1 / 512)]) == "contradicted"
    assert together([*tied, CaseOutcome("[case]", "contradicted", "")]) == "contradicted"
    assert together([case("reproduced", 1 / 64)] * 2) == "reproduced"
    # That any is reproduced likewise.
    assert together([*tied, case("reproduced", 1 / 64)], "any") == "undecided"
    assert together([*tied, case("reproduced", 1 / 512)], "any") == "reproduced"


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.parametrize("middle", [0.5, 0.25, 0.0, -0.2])
def test_as_many_seeds_as_are_needed_decide_four_times_in_five(middle):
    """With those at hand, and others that are spread as they are; fewer do not."""
    rng = np.random.default_rng(3)
    gaps = middle + 0.1 * np.array([-1.5, -0.5, 0, 0, 0.5, 1.5])
    needed = seeds_needed(gaps, BETTER)
    assert needed is not None

    def decided(seeds: int) -> float:
        draws = rng.normal(middle, gaps.std(ddof=1), (4000, seeds - len(gaps)))
        wholes = (np.concatenate([gaps, draw]) for draw in draws)
        outcomes = [decide(median_interval(whole, seeds_added=True), BETTER) for whole in wholes]
        return 1 - outcomes.count("undecided") / len(outcomes)

    assert decided(needed) > 0.78
    if needed > 7:
        assert decided(needed - 1) < 0.82


def test_seeds_that_are_there_count_among_those_needed():
    """Six agree, and the next one decides, whatever is declared: it comes after a look at them."""
    gaps = np.array([0.5, 0.52, 0.54, 0.56, 0.58, 0.11])
    assert [seeds_needed(gaps[: len(gaps) - left], BETTER) for left in (0, 1)] == [7, 7]
    fixed, added = (
        compare(np.array([*gaps[:5], 0.09]), BETTER, "x", seeds_added=how)[1].needed
        for how in (False, True)
    )
    assert fixed == added


def test_seeds_that_nobody_runs_are_not_promised():
    assert seeds_needed(np.array([0.09, 0.1, 0.1, 0.11]), BETTER) is None
    assert seeds_needed(np.array([0.3]), BETTER) is None


def test_seeds_that_are_lost_or_share_rows_are_planned_for():
    rng = np.random.default_rng(7)
    lost = np.array([0.3] * 7 + [-INF] * 3) + np.array([0, 1e-3, 2e-3] * 3 + [0])
    needed = seeds_needed(lost, BETTER)
    draws = np.where(rng.random((3000, needed - len(lost))) < 0.3, -INF, 0.3)
    decided = [
        decide(median_interval(np.concatenate([lost, draw]), seeds_added=True), BETTER)
        for draw in draws
    ]
    assert decided.count("reproduced") / len(decided) > 0.75
    # The corrected interval never becomes as narrow as that.
    near = np.random.default_rng(0).normal(0.11, 0.01, 10)
    assert seeds_needed(near, BETTER) is not None
    assert seeds_needed(near, BETTER, overlap=4.0) is None


@pytest.mark.parametrize(
    ("outcomes", "cases", "expected"),
    [
        (["reproduced"] * 3, "all", "reproduced"),
        (["reproduced", "undecided", "smaller than claimed"], "all", "undecided"),
        (["reproduced", "contradicted", "undecided"], "all", "contradicted"),
        (["reproduced", "not testable"], "all", "reproduced"),
        (["not testable"] * 2, "all", "not testable"),
        # A minority of the cases reproduces nothing, but one counterexample contradicts.
        (["reproduced", "not testable", "not testable"], "all", "not testable"),
        (["reproduced", "not testable", "not testable"], "most", "not testable"),
        (["reproduced", "not testable", "not testable"], "any", "reproduced"),
        (["reproduced", "not testable", "not covered"], "all", "reproduced"),
        (["contradicted", "not testable", "not testable"], "all", "contradicted"),
        (["undecided", "not testable", "not testable"], "all", "undecided"),
        (["not covered", "reproduced"], "all", "reproduced"),
        (["not covered", "not testable"], "most", "not testable"),
        (["not covered", "not covered"], "all", "not covered"),
        (["reproduced", "reproduced", "contradicted"], "most", "reproduced"),
        (["reproduced", "contradicted"], "most", "undecided"),
        (["no difference", "contradicted", "reproduced"], "most", "no difference"),
        (
            ["contradicted"] * 2 + ["smaller than claimed"] * 2 + ["reproduced"],
            "most",
            "smaller than claimed",
        ),
        (["contradicted", "contradicted", "reproduced"], "most", "contradicted"),
        # Decided the other way, the undecided case would turn the claim.
        (["undecided", "no difference", "reproduced"], "most", "undecided"),
        (["undecided", "reproduced", "reproduced"], "most", "reproduced"),
        (["undecided", "contradicted", "contradicted"], "most", "contradicted"),
        (["reproduced", "contradicted", "undecided"], "any", "reproduced"),
        (["smaller than claimed", "contradicted", "not testable"], "any", "smaller than claimed"),
        (["undecided", "no difference", "contradicted"], "any", "undecided"),
        (["contradicted", "contradicted"], "any", "contradicted"),
    ],
)
def test_a_claim_from_its_cases(outcomes, cases, expected):
    found = [CaseOutcome("", outcome, "") for outcome in outcomes]
    assert of_claim(found, cases) == expected


def test_several_claims_on_one_sentence_need_no_majority():
    """How many tests we add that runs cannot pass or fail says nothing about the others."""
    found = [CaseOutcome("", outcome, "") for outcome in ("reproduced", *["not testable"] * 2)]
    assert together(found) == "reproduced"


def test_the_documentation_explains_every_outcome():
    explained = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8")
    for outcome, meaning in OUTCOMES.items():
        if "compatible" not in outcome:
            assert f"| {outcome} | {meaning}" in explained


def test_an_undecided_effect_says_what_would_decide():
    outcome, effect = compare(np.array([0.3, 0.35, 0.4, -0.1, 0.3, 0.32]), BETTER, "decades")
    assert outcome == "undecided"
    assert effect.needed is not None
    assert effect.needed > effect.seeds == 6
    outcome, effect = compare(np.full(6, 0.3), BETTER, "decades")
    assert (outcome, effect.needed) == ("reproduced", None)
    assert effect.p == pytest.approx(1 / 64)
