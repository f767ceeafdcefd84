"""Tallies of sentences, their p-values, and Holm's correction, against scipy and by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedatlas.evaluation.comparison import Aim, compare
from fedatlas.evaluation.tallies import correction_told, families, tally
from fedatlas.evaluation.verdicts import Verdict, cases_of, surviving, under_test
from verdict_factory import effect, every_outcome, verdict

P_VALUES = st.lists(st.sampled_from([1e-4, 1e-3, 0.004, 0.008, 0.012, 0.02, 0.025]), max_size=8)


def sentence(number: int, p: float | None, outcome: str = "reproduced") -> Verdict:
    return verdict(f"demo-x/claim-{number}", outcome, effect=effect(p=p))


# --- p-values ---


@pytest.mark.parametrize(
    ("direction", "shift", "outcome", "tests"),
    [
        ("better", 2.0, "reproduced", [(0.5, "greater")]),
        ("better", -2.0, "contradicted", [(0.0, "less")]),
        ("not worse", 0.3, "reproduced", [(-0.5, "greater")]),
        ("not worse", -2.0, "contradicted", [(-0.5, "less")]),
        ("equal", 0.0, "reproduced", [(-0.5, "greater"), (0.5, "less")]),
        ("equal", 2.0, "contradicted", [(0.5, "greater")]),
        ("equal", -2.0, "contradicted", [(-0.5, "less")]),
    ],
)
def test_p_is_that_of_scipys_sign_test_of_the_border(direction, shift, outcome, tests):
    gaps = shift + np.array([-0.9, *np.linspace(-0.3, 0.3, 11)])
    found, measured = compare(gaps, Aim(direction, 0.5), "decades")
    assert found == outcome
    expected = max(
        stats.binomtest(int((gaps > border).sum()), 12, alternative=side).pvalue
        for border, side in tests
    )
    assert measured.p == pytest.approx(expected)
    # Each look at the data costs its share of the error.
    _, twice = compare(gaps, Aim(direction, 0.5), "decades", confidence=0.975)
    assert twice.p == pytest.approx(2 * expected)


def test_p_of_resampled_splits_is_that_of_the_corrected_test():
    gaps = np.random.default_rng(0).normal(0.45, 0.2, 10)
    found, measured = compare(gaps, Aim("better", 0.1), "test_auroc", overlap=0.25)
    error = gaps.std(ddof=1) * math.sqrt(1 / 10 + 0.25)
    corrected = stats.t.sf((gaps.mean() - 0.1) / error, 9)
    assert found == "reproduced"
    assert measured.p == pytest.approx(max(corrected, 0.5**10))
    assert corrected > 0.5**10


def test_what_is_not_decided_has_no_p_and_needs_more_seeds_than_there_are():
    gaps = np.array([0.3] * 9 + [-3.0, -3.0])
    found, measured = compare(gaps, Aim("better", 0.29), "decades")
    assert (found, measured.p) == ("undecided", None)
    for seed in range(20):
        gaps = np.random.default_rng(seed).normal(0.2, 0.1, 8)
        found, measured = compare(gaps, Aim("better", 0.1), "decades")
        assert measured.needed is None or (found == "undecided" and measured.needed > 8)


# --- Holm ---


@given(P_VALUES, st.integers(0, 4))
def test_holm_within_a_paper_counts_all_that_were_tested(p_values, undecided):
    rows = [sentence(number, p) for number, p in enumerate(p_values)]
    rows += [sentence(100 + number, None, "undecided") for number in range(undecided)]
    # By hand: from the smallest on, until one is too large for as many as are left.
    left, expected = len(rows), 0
    for p in sorted(p_values):
        if p * left > 0.025:
            break
        left, expected = left - 1, expected + 1
    found = tally(rows)
    assert found.surviving == expected == len(surviving(rows))
    assert (found.tested, found.decided) == (len(rows), len(p_values))


def test_published_numbers_and_what_has_no_spread_are_no_tests():
    rows = [
        verdict("demo-x/printed", "compatible", effect=effect()),
        verdict("demo-x/other", "incompatible"),
        verdict("demo-x/budget", "reproduced"),
        verdict("demo-x/none", "not testable"),
        sentence(0, 0.02),
    ]
    assert [each.claim for each, _ in under_test(rows)] == ["demo-x/claim-0"]
    assert correction_told(tally(rows[:4])) == ""
    assert correction_told(tally(rows)).startswith("1 reproduced or contradicted by tests over")


@pytest.mark.parametrize(
    ("outcome", "rule", "outcomes", "p_values", "expected"),
    [
        # All cases must be so: the weakest counts.
        ("reproduced", "all", ["reproduced"] * 3, [0.001, 0.02, 0.003], 0.02),
        ("reproduced", "all", ["reproduced", "not testable"], [0.001, None], 0.001),
        # One is enough to contradict, and there were three to pick from.
        ("contradicted", "all", ["contradicted", "reproduced", "undecided"],
         [0.004, 0.001, None], 3 * 0.004),
        # Three of four: the third smallest, of the two that could be picked as the last.
        ("reproduced", "most", ["reproduced"] * 3 + ["undecided"], [0.001, 0.002, 0.003, None],
         2 * 0.003),
        ("contradicted", "most", ["contradicted"] * 2 + ["reproduced"], [0.002, 0.004, 0.001],
         2 * 0.004),
        ("undecided", "all", ["undecided", "reproduced"], [None, 0.001], 1.0),
        ("reproduced", "all", ["reproduced", "reproduced"], [0.001, None], 1.0),
    ],
)  # fmt: skip
def test_a_sentence_with_cases_has_the_p_of_as_many_as_it_takes(
    outcome, rule, outcomes, p_values, expected
):
    cases = [
        verdict("demo-x/one", kind, f"case {number}", effect=effect(p=p))
        for number, (kind, p) in enumerate(zip(outcomes, p_values, strict=True))
    ]
    # What the sentence is told by, its closest case, is no test of all.
    whole = verdict("demo-x/one", outcome, cases=rule, effect=effect(p=1e-9))
    for said in (whole, replace(whole, effect=None)):
        ((found, p),) = under_test([said, *cases])
        assert found is said
        assert p == pytest.approx(expected)


# --- families ---


def test_families_are_papers_and_questions_with_their_cases():
    rows = [*every_outcome("fmgda-fig2"), *every_outcome("demo-x")]
    found = families(rows)
    assert list(found) == [
        ("fmgda", "paper"), ("fmgda", "ours"), ("demo", "paper"), ("demo", "ours"),
    ]  # fmt: skip
    assert sum(map(len, found.values())) == len(rows)
    assert list(cases_of(found["fmgda", "paper"])) == ["fmgda-fig2/every-step"]
    assert tally(found["fmgda", "paper"]).sentences == 9
