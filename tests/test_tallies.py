"""Tallies of claims, their p-values, and Holm's correction, against scipy and by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedatlas.evaluation.comparison import Criterion, compare
from fedatlas.evaluation.verdicts import (
    Verdict,
    cases_of,
    families,
    format_correction,
    surviving,
    tally,
    tally_table,
    under_test,
)
from verdict_factory import effect, every_outcome, verdict

P_VALUES = st.lists(st.sampled_from([1e-4, 1e-3, 0.004, 0.008, 0.012, 0.02, 0.025]), max_size=8)


def claim(number: int, p: float | None, outcome: str = "reproduced") -> Verdict:
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
    found, measured = compare(gaps, Criterion(direction, 0.5), "decades")
    assert found == outcome
    expected = max(
        stats.binomtest(int((gaps > border).sum()), 12, alternative=side).pvalue
        for border, side in tests
    )
    assert measured.p == pytest.approx(expected)
    # Whoever may go on adding seeds pays for it.
    _, added = compare(gaps, Criterion(direction, 0.5), "decades", seeds_added=True)
    assert expected < added.p <= 0.025


def test_p_of_resampled_splits_is_that_of_the_corrected_test():
    gaps = np.random.default_rng(0).normal(0.45, 0.2, 10)
    found, measured = compare(gaps, Criterion("better", 0.1), "test_auroc", overlap=0.25)
    error = gaps.std(ddof=1) * math.sqrt(1 / 10 + 0.25)
    corrected = stats.t.sf((gaps.mean() - 0.1) / error, 9)
    assert found == "reproduced"
    assert measured.p == pytest.approx(max(corrected, 0.5**10))
    assert corrected > 0.5**10


def test_what_is_not_decided_has_no_p_and_needs_more_seeds_than_there_are():
    gaps = np.array([0.3] * 9 + [-3.0, -3.0])
    found, measured = compare(gaps, Criterion("better", 0.29), "decades")
    assert (found, measured.p) == ("undecided", None)
    for seed in range(20):
        gaps = np.random.default_rng(seed).normal(0.2, 0.1, 8)
        found, measured = compare(gaps, Criterion("better", 0.1), "decades")
        assert measured.needed is None or (found == "undecided" and measured.needed > 8)


# --- Holm ---


@given(P_VALUES, st.integers(0, 4))
def test_holm_within_a_paper_counts_all_that_were_tested(p_values, undecided):
    rows = [claim(number, p) for number, p in enumerate(p_values)]
    rows += [claim(100 + number, None, "undecided") for number in range(undecided)]
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
        claim(0, 0.02),
    ]
    assert [each.claim for each, _ in under_test(rows)] == ["demo-x/claim-0"]
    assert format_correction(tally(rows[:4])) == ""
    assert format_correction(tally(rows)) == (
        "after Holm's correction for 1 test, 1 of 1 decided claim remains."
    )


@given(st.lists(st.integers(3, 14), min_size=1, max_size=10), st.integers(3, 14))
def test_no_more_can_survive_than_seeds_allow(seeds, other):
    """By hand: sorted by 1/2^n, each times how many are left. All agreeing seeds reach it."""
    rows = [
        verdict(f"demo-x/{number}", "undecided", effect=effect(seeds=own))
        for number, own in enumerate(seeds)
    ]
    expected = 0
    for own in sorted(seeds, reverse=True):
        if 2.0**-own * (len(seeds) - expected) > 0.025:
            break
        expected += 1
    assert tally(rows).possible == expected
    assert tally(rows).seeds == tuple(sorted(set(seeds)))
    # Gaps that all agree, judged by the rule itself.
    clear = []
    for row, own in zip(rows, seeds, strict=True):
        outcome, measured = compare(np.linspace(1, 2, own), Criterion("better", 0.5), "decades")
        clear.append(replace(row, outcome=outcome, effect=measured))
    assert tally(clear).surviving <= expected
    if min(seeds) >= 6:  # with fewer the rule decides nothing
        assert tally(clear).surviving == expected
    # From `enough` seeds on all can, and with one fewer they cannot.
    enough = tally(rows).enough
    assert len(rows) * 2.0**-enough <= 0.025 < len(rows) * 2.0 ** -(enough - 1)


@pytest.mark.parametrize(
    ("outcome", "rule", "seeds", "expected"),
    [
        # All of its cases reproduced, 1/64; or one of two contradicted, 2/64.
        ("undecided", "all", [6, 6], 1 / 64),
        # The weakest of all counts, but one that contradicts is enough: 2/1024.
        ("undecided", "all", [10, 4], 2 / 1024),
        # Two of three: the second, of the two that could be picked.
        ("undecided", "most", [6, 6, 6], 2 / 64),
        # Not told by a test: nothing can be left of it.
        ("not testable", "all", [6, 6], None),
    ],
)
def test_a_claim_with_cases_can_be_as_clear_as_its_cases(outcome, rule, seeds, expected):
    cases = [
        verdict("demo-x/one", "undecided", f"case {number}", effect=effect(seeds=own))
        for number, own in enumerate(seeds)
    ]
    rows = [verdict("demo-x/one", outcome, cases=rule), *cases]
    found = tally(rows)
    assert found.tested == (expected is not None)
    if expected is None:
        assert (found.possible, found.seeds) == (0, ())
        assert tally_table({"x": found})[1][0][-5:] == ["0", "0", "0", "–", "–"]
        return
    assert found.possible == (expected <= 0.025)
    # Beside others that are surer, it is the last that Holm asks, and of as many as it takes.
    for beside in range(3):
        sure = [claim(number, 1e-9) for number in range(beside)]
        sure = [replace(one, effect=effect(seeds=30)) for one in sure]
        assert tally([*rows, *sure]).possible == beside + (expected <= 0.025)


def test_where_nothing_is_decided_nothing_is_corrected():
    told = format_correction(tally([claim(n, None, "undecided") for n in range(3)]))
    assert told == "no claim is decided, of 3 tested over seeds."


def test_too_few_seeds_are_told_with_how_many_it_takes():
    rows = [replace(claim(n, 1 / 64), effect=effect(p=1 / 64, seeds=6)) for n in range(12)]
    assert format_correction(tally(rows)) == (
        "after Holm's correction for 12 tests, 0 of 12 decided claims remain. "
        "6 seeds are too few for any to (smallest p 1/64); 9 would do."
    )
    # One alone passes, and nothing has to be said.
    assert format_correction(tally(rows[:1])).endswith("1 of 1 decided claim remains.")
    rows[0] = replace(rows[0], effect=effect(p=1 / 1024, seeds=10))
    assert format_correction(tally(rows)).endswith(
        " remains. With 6 to 10 seeds at most 1 can (smallest p 1/64); 9 would do for all."
    )


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
def test_a_claim_with_cases_has_the_p_of_as_many_as_it_takes(
    outcome, rule, outcomes, p_values, expected
):
    cases = [
        verdict("demo-x/one", kind, f"case {number}", effect=effect(p=p))
        for number, (kind, p) in enumerate(zip(outcomes, p_values, strict=True))
    ]
    # What the claim is told by, its closest case, is no test of all.
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
    assert tally(found["fmgda", "paper"]).outcomes.total() == 9
