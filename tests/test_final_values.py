"""Claims about final measurements: equal within a margin, better, or as printed."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from fedatlas.evaluation.claims.better_final import BetterFinalTest
from fedatlas.evaluation.claims.equal_final import EqualFinalTest
from test_judge import verdict
from trace_factory import vertical_trace

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
