"""Claims about final measurements: equal within a margin, better, or as printed."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.better_final import BetterFinalTest
from fedatlas.evaluation.claims.equal_final import EqualFinalTest
from fedatlas.evaluation.claims.highest import HighestTest
from test_judge import verdict, verdicts
from trace_factory import auroc_trace, vertical_trace

NAN = np.nan
NOISE = np.array([-2e-3, 1e-3, 0.0, -1e-3, 2e-3])


def ending(values: Any, measurement: str = "test_accuracy", **options: Any):
    """A converging run whose seeds end with the given values; NaN diverges."""
    ends = np.asarray(values, dtype=float)
    falling = np.where(np.isnan(ends), NAN, 0.0)[:, None] + np.linspace(0.3, 0.01, 5)
    falling[:, 0] = 0.3
    measured = np.linspace(np.full(len(ends), 0.5), ends, 5).T
    return vertical_trace(falling, **{measurement: measured}, **options)


def equal(margin: float, measurement: str = "test_accuracy") -> dict[str, Any]:
    names = {"kind": "equal_final", "first": "a", "second": "b"}
    return {**names, "measurement": measurement, "margin": margin}


def better(measurement: str = "test_accuracy", **more: Any) -> dict[str, Any]:
    names = {"kind": "better_final", "first": "a", "second": "b"}
    return {**names, "measurement": measurement, **more}


def published(value: float, tolerance: float, measurement: str = "test_accuracy") -> dict[str, Any]:
    stated = {"kind": "published_measurement", "run": "a", "measurement": measurement}
    return {**stated, "value": value, "tolerance": tolerance}


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (0.0, "reproduced"),
        (0.002, "reproduced"),
        (-0.002, "reproduced"),
        (0.005, "inconclusive"),
        (-0.005, "inconclusive"),
        (0.01, "not reproduced"),
        (-0.01, "not reproduced"),
    ],
)
@pytest.mark.parametrize("measurement", ["test_accuracy", "test_rmse"])
def test_equal_final_is_equivalence_within_the_margin(measurement, gap, expected):
    a, b = (ending(values, measurement) for values in (0.8 + gap + NOISE, np.full(5, 0.8)))
    assert verdict(equal(0.005, measurement), a=a, b=b).verdict == expected


def test_no_difference_is_shown_by_too_few_or_too_noisy_seeds():
    wide = 0.8 + 10 * NOISE
    assert verdict(equal(0.005), a=ending(wide), b=ending(wide[::-1])).verdict == "inconclusive"
    assert verdict(equal(0.005), a=ending([0.8]), b=ending([0.8])).verdict == "inconclusive"


def test_the_margin_belongs_to_the_region_whatever_the_rounding():
    # 0.815 − 0.81 exceeds 0.005 by rounding alone.
    found = verdict(equal(0.005), a=ending([0.815] * 3), b=ending([0.81] * 3))
    assert found.verdict == "reproduced"
    assert found.evidence == (
        "test_accuracy at the end: a 0.815, b 0.81; difference 0.005 (95 % 0.005 to 0.005), "
        "claimed within 0.005"
    )
    with pytest.raises(ValidationError, match="greater than 0"):
        EqualFinalTest.model_validate(equal(0))


@settings(max_examples=40, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.floats(0.5, 1), st.floats(0.5, 1)), min_size=2, max_size=6).filter(
        lambda pairs: np.ptp(np.diff(pairs)) > 1e-6
    ),
    margin=st.floats(0.001, 0.2),
)
def test_equal_final_agrees_with_the_paired_interval_of_scipy(pairs, margin):
    first, second = np.array(pairs).T
    interval = stats.ttest_rel(first, second).confidence_interval(0.95)
    inside = -margin < interval.low and interval.high < margin
    outside = interval.high < -margin or margin < interval.low
    expected = "reproduced" if inside else "not reproduced" if outside else "inconclusive"
    assert verdict(equal(margin), a=ending(first), b=ending(second)).verdict == expected


@pytest.mark.parametrize(
    ("measurement", "a", "b", "expected"),
    [
        ("test_accuracy", 0.82, 0.79, "reproduced"),
        ("test_accuracy", 0.79, 0.82, "not reproduced"),
        ("test_accuracy", 0.79, 0.79, "inconclusive"),
        ("test_rmse", 0.389, 0.417, "reproduced"),
        ("test_rmse", 0.417, 0.389, "not reproduced"),
        ("objective", 0.3, 0.4, "reproduced"),
    ],
)
def test_better_final_knows_which_direction_is_better(measurement, a, b, expected):
    if measurement == "objective":
        ends = (("a", a + NOISE), ("b", b + NOISE[::-1]))
        traces = {name: vertical_trace(end[:, None] + [0.3, 0]) for name, end in ends}
    else:
        traces = {"a": ending(a + NOISE, measurement), "b": ending(b + NOISE[::-1], measurement)}
    assert verdict(better(measurement), **traces).verdict == expected


def test_better_final_by_a_stated_lead():
    a, b = ending([0.82] * 3), ending([0.8] * 3)
    assert verdict(better(by_at_least=0.01), a=a, b=b).verdict == "reproduced"
    found = verdict(better(by_at_least=0.02), a=a, b=b)
    assert found.verdict == "reproduced"  # though 0.82 − 0.8 < 0.02 by rounding
    assert found.evidence.endswith("difference 0.02 (95 % 0.02 to 0.02), claimed above 0.02")
    assert verdict(better(by_at_least=0.03), a=a, b=b).verdict == "not reproduced"
    errors = {name: ending([value] * 3, "test_rmse") for name, value in (("a", 0.3), ("b", 0.4))}
    found = verdict(better("test_rmse", by_at_least=0.05), **errors)
    assert found.verdict == "reproduced"
    assert found.evidence.endswith("difference -0.1 (95 % -0.1 to -0.1), claimed below -0.05")


def test_lost_seeds_are_worse_than_any_number():
    lost, some, well = ending([NAN] * 3), ending([0.9, NAN, 0.91]), ending([0.7, 0.71, 0.7])
    assert verdict(better(), a=lost, b=well).verdict == "not reproduced"
    assert verdict(better(), a=well, b=lost).verdict == "reproduced"
    assert verdict(better(), a=some, b=well).verdict == "inconclusive"
    assert verdict(better(), a=well, b=some).verdict == "inconclusive"
    assert verdict(equal(0.1), a=lost, b=well).verdict == "not reproduced"
    assert verdict(equal(0.1), a=lost, b=lost).verdict == "inconclusive"
    found = verdict(published(0.7, 0.1), a=lost)
    assert found.verdict == "not reproduced"
    assert "a none (0 of 3 seeds)" in found.evidence
    # An accuracy says itself how good a model is.
    risen = ending([0.9] * 3, objective=np.linspace([1] * 3, [9] * 3, 5).T)
    assert verdict(better(), a=risen, b=well).verdict == "reproduced"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.8196, "reproduced"), (0.83, "inconclusive"), (0.87, "not reproduced")],
)
def test_published_measurement(value, expected):
    ends = 0.82 + NOISE
    found = verdict(published(value, 0.01), a=ending(ends))
    assert found.verdict == expected
    mean, half = ends.mean(), stats.t.ppf(0.975, 4) * stats.sem(ends)
    assert f"minus the published {mean - value:.3g} (95 % {mean - half - value:.3g} to " in (
        found.evidence
    )


def test_published_error_keeps_its_sign():
    found = verdict(published(0.4, 0.05, "test_rmse"), a=ending([0.39] * 3, "test_rmse"))
    assert found.verdict == "reproduced"
    assert found.evidence == (
        "test_rmse at the end: a 0.39; minus the published -0.01 (95 % -0.01 to -0.01); "
        "published 0.4 ± 0.05"
    )


def test_no_direction_of_a_min_max_objective_is_better():
    with pytest.raises(ValidationError, match="measurement"):
        BetterFinalTest.model_validate(better("min_max_objective"))
    EqualFinalTest.model_validate(equal(0.1, "min_max_objective"))


# --- the best of several ---

RIVALS = ("b", "c", "d")


def highest(*among: str, **more: Any) -> dict[str, Any]:
    return {"kind": "highest", "run": "a", "among": among, "measurement": "test_auroc", **more}


def rising(ends: Any, **options: Any):
    """An AUROC that rises evenly from 0.5 to one end per seed, in 40 rounds; NaN diverges."""
    values = np.linspace(np.full(len(ends), 0.5), np.asarray(ends, dtype=float), 5).T
    return auroc_trace(values, **options)


def found(test: dict[str, Any], **runs: Any) -> dict[str, tuple[str, str]]:
    """Case → verdict and evidence."""
    judged = verdicts(test, selected_by="train_auroc", **runs)
    return {v.claim.removeprefix("paper-figure/claim"): (v.verdict, v.evidence) for v in judged}


def test_highest_has_a_verdict_of_its_own_and_one_per_rival():
    runs = {"a": [0.95, 0.96], "b": [0.9, 0.91], "c": [0.8, 0.81]}
    cases = found(
        highest("b", "c", at_end=True), **{run: rising(ends) for run, ends in runs.items()}
    )
    assert cases == {
        "": ("reproduced", "test_auroc at the end: a better than b, c"),
        "[against b]": (
            "reproduced",
            "test_auroc at the end: a 0.955, b 0.905; difference 0.05 (95 % 0.05 to 0.05), "
            "claimed above 0",
        ),
        "[against c]": (
            "reproduced",
            "test_auroc at the end: a 0.955, c 0.805; difference 0.15 (95 % 0.15 to 0.15), "
            "claimed above 0",
        ),
    }


@pytest.mark.parametrize(
    ("leads", "expected", "told"),
    [
        ((0.02, 0.03, 0.01), "reproduced", "better than b, c, d"),
        ((0.02, 0.0, 0.01), "inconclusive", "better than b, d; not told apart from c"),
        ((0.02, -0.02, 0.01), "not reproduced", "better than b, d; worse than c"),
        ((0.0, -0.02, 0.0), "not reproduced", "not told apart from b, d; worse than c"),
        ((0.0, 0.0, 0.0), "inconclusive", "not told apart from b, c, d"),
        ((-0.02, -0.02, -0.02), "not reproduced", "worse than b, c, d"),
    ],
)
def test_highest_is_better_than_every_rival(leads, expected, told):
    rivals = {
        run: rising(0.9 - lead + NOISE[::-1]) for run, lead in zip(RIVALS, leads, strict=True)
    }
    cases = found(highest(*RIVALS), a=rising(0.9 + NOISE), **rivals)
    assert cases[""] == (expected, f"test_auroc at the end: a {told}")


def test_an_exact_tie_is_not_highest():
    cases = found(highest("b"), a=rising([0.9] * 3), b=rising([0.9] * 3))
    assert cases[""][0] == cases["[against b]"][0] == "inconclusive"


@settings(max_examples=25, deadline=None)
@given(
    ends=st.lists(
        st.tuples(*[st.floats(0.6, 0.99)] * 3), min_size=2, max_size=5, unique_by=lambda x: x[0]
    )
)
def test_each_rival_is_judged_as_better_final_judges_it(ends):
    runs = dict(zip("abc", (rising(column) for column in zip(*ends, strict=True)), strict=True))
    cases = found(highest("b", "c"), **runs)
    for rival in "bc":
        test = {**better("test_auroc"), "second": rival}
        alone = found(test, **{run: runs[run] for run in ("a", rival)})
        assert cases[f"[against {rival}]"] == alone[""]


def test_highest_along_a_cost_compares_areas_under_curves():
    # a rises at once and ends below b: means over 40 rounds by trapezoids of 10 rounds each are
    # (0.7 + 0.9 + 0.9 + 0.9) / 4 = 0.85 and (0.55 + 0.65 + 0.75 + 0.875) / 4 = 0.70625.
    a = auroc_trace([[0.5, 0.9, 0.9, 0.9, 0.9]] * 2)
    b = auroc_trace([[0.5, 0.6, 0.7, 0.8, 0.95]] * 2)
    along = found(highest("b", cost="round"), a=a, b=b)
    assert along == {
        "": ("reproduced", "mean test_auroc up to 40 rounds: a better than b"),
        "[against b]": (
            "reproduced",
            "mean test_auroc up to 40 rounds: a 0.85, b 0.7063; "
            "difference 0.144 (95 % 0.144 to 0.144), claimed above 0",
        ),
    }
    assert found(highest("b"), a=a, b=b)[""][0] == "not reproduced"


def test_means_end_where_the_cheapest_run_does():
    # c ends after 20 rounds, so that all means are over 20: (0.7 + 0.9) / 2, (0.55 + 0.65) / 2 and
    # (0.65 + 0.8) / 2. By bytes b pays half, and is by c's 20 kB where it ends, after 40 rounds.
    a = auroc_trace([[0.5, 0.9, 0.9, 0.9, 0.9]] * 2)
    b = auroc_trace([[0.5, 0.6, 0.7, 0.8, 0.95]] * 2, cost_scale=0.5)
    c = auroc_trace([[0.5, 0.8, 0.8]] * 2)
    by_round = found(highest("b", "c", cost="round"), a=a, b=b, c=c)
    assert "mean test_auroc up to 20 rounds: a 0.8, b 0.6; " in by_round["[against b]"][1]
    assert "mean test_auroc up to 20 rounds: a 0.8, c 0.725; " in by_round["[against c]"][1]
    by_bytes = found(highest("b", "c", cost="bytes"), a=a, b=b, c=c)
    assert "up to 2e+04 bytes: a 0.8, b 0.7063; " in by_bytes["[against b]"][1]


def test_means_begin_where_all_have_a_record():
    a = auroc_trace([[0.5, 0.6, 0.7]] * 2)
    b = auroc_trace([[0.4, 0.5, 0.5]] * 2, schedule=[5, 10, 20])
    cases = found(highest("b", cost="round"), a=a, b=b)
    # From 5 to 20: a rises from 0.55 to 0.7; b is (5 · 0.45 + 10 · 0.5) / 15.
    assert cases["[against b]"][1].startswith(
        "mean test_auroc from 5 to 20 rounds: a 0.625, b 0.4833; "
    )
    late = auroc_trace([[0.4, 0.5]] * 2, schedule=[20, 30])
    with pytest.raises(FedatlasError, match=r"'cost: round' has no range that a, b share"):
        found(highest("b", cost="round"), a=a, b=late)


@pytest.mark.parametrize("more", [{}, {"cost": "round"}])
def test_highest_with_seeds_that_are_lost(more):
    well, lost, some = rising([0.9, 0.91]), rising([NAN, NAN]), rising([0.95, NAN])
    assert found(highest("b", **more), a=well, b=lost)[""][0] == "reproduced"
    cases = found(highest("b", "c", **more), a=lost, b=well, c=lost)
    assert [verdict for verdict, _ in cases.values()] == [
        "not reproduced",
        "not reproduced",
        "inconclusive",
    ]
    assert "a none (0 of 2 seeds), b 0." in cases["[against b]"][1]
    assert found(highest("b", **more), a=some, b=well)[""][0] == "inconclusive"
    assert found(highest("b", **more), a=lost, b=lost)[""][0] == "inconclusive"
    risen = rising([0.95, 0.96], objective=np.linspace([1, 1], [2, 2], 5).T)
    assert found(highest("b", **more), a=risen, b=well)[""][0] == "reproduced"


def test_highest_says_which_run_is_at_the_edge_of_its_grid():
    tried = [
        rising([end] * 2, step=step, hyper_parameters={"step_size": step})
        for step, end in ((0.1, 0.8), (0.2, 0.9))
    ]
    cases = found(highest("b"), a=tried, b=rising([0.7] * 2))
    assert all(
        evidence.endswith("; a at the edge of its grid in step_size")
        for _, evidence in cases.values()
    )


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (highest(), "at least 1"),
        (highest("b", "a"), "among: 'a' is the run itself"),
        (highest("b", "b"), "among: a rival is listed twice in b, b"),
        (highest("b", measurement="objective"), "must be one of train_accuracy, test_accuracy"),
        (highest("b", at_end=True, cost="round"), "at_end: true and cost: round exclude"),
        (highest("b", at_end=False), "Input should be True"),
        (highest("b", cost="wall_time"), "must be one of round"),
    ],
)
def test_claims_of_highest_that_make_no_sense_are_refused(test, message):
    with pytest.raises(ValidationError, match=message):
        HighestTest.model_validate(test)
