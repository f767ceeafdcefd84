"""A printed number against the prediction interval of ours."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from fedatlas.evaluation.claims.one_run import PublishedMeasurementTest, prediction_interval
from judging import verdict
from trace_factory import ending_trace, make_trace

NAN = np.nan
NOISE = np.array([-2e-3, 1e-3, 0.0, -1e-3, 2e-3])
SEEDS = (3, 6, 10)


def published(value: float, measurement: str = "test_accuracy", **more: Any) -> dict[str, Any]:
    declared = {"kind": "published_measurement", "run": "a", "measurement": measurement}
    return {**declared, "value": value, **more}


def share_compatible(ours: np.ndarray, printed: list[Any]) -> float:
    """Of rows of trials against as many printed means, numbers of trials and spreads."""
    inside = []
    for row, number in zip(ours, printed, strict=True):
        interval = prediction_interval(row, *number, seeds_added=False)
        assert interval is not None
        inside.append(interval.low <= 0 <= interval.high)
    return float(np.mean(inside))


@pytest.mark.parametrize("seeds", SEEDS)
def test_a_perfect_replication_of_a_single_number_is_compatible_in_95_percent(seeds):
    random = np.random.default_rng(seeds)
    draws = random.normal(size=(10_000, seeds + 1))
    printed = [(value, 1, None) for value in draws[:, -1]]
    assert share_compatible(draws[:, :-1], printed) == pytest.approx(0.95, abs=0.007)


@pytest.mark.parametrize(
    ("seeds", "spread", "expected"),  # spread: the paper's, of ours
    [(3, 1.0, 0.938), (6, 1.0, 0.95), (10, 1.0, 0.95), (6, 3.0, 0.95), (10, 0.5, 0.95)],
)
def test_a_perfect_replication_of_mean_and_spread_is_compatible_in_95_percent(
    seeds, spread, expected
):
    random = np.random.default_rng(seeds)
    ours = random.normal(size=(10_000, seeds))
    theirs = spread * random.normal(size=(10_000, 10))
    printed = [(row.mean(), 10, row.std(ddof=1)) for row in theirs]
    assert share_compatible(ours, printed) == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize("seeds", SEEDS)
def test_trials_that_split_the_same_rows_anew_need_no_correction(seeds):
    """Classes by nearest mean, trained on 80 % of 100 rows: ours and the paper's are alike."""
    random = np.random.default_rng(seeds)

    def accuracy(rows: np.ndarray, labels: np.ndarray) -> float:
        order = random.permutation(len(rows))
        train, test = order[:80], order[80:]
        means = [rows[train][labels[train] == label].mean(axis=0) for label in (0, 1)]
        far = [((rows[test] - mean) ** 2).sum(axis=1) for mean in means]
        return float(np.mean((far[1] < far[0]) == labels[test]))

    ours, printed = [], []
    for _ in range(400):
        labels = np.arange(100) % 2
        rows = random.normal(size=(100, 3)) + 0.4 * labels[:, None]
        trials = np.array([accuracy(rows, labels) for _ in range(seeds + 10)])
        ours.append(trials[:seeds])
        printed.append((trials[seeds:].mean(), 10, trials[seeds:].std(ddof=1)))
    # Two standard errors of 400 draws are 0.022.
    assert share_compatible(np.array(ours), printed) == pytest.approx(0.95, abs=0.025)


@given(
    ours=st.lists(st.floats(0.1, 0.9), min_size=2, max_size=8, unique=True),
    theirs=st.lists(st.floats(0.1, 0.9), min_size=2, max_size=8, unique=True),
)
def test_two_spreads_are_welchs_interval(ours, theirs):
    if min(np.std(ours), np.std(theirs)) < 1e-3:
        return
    printed = float(np.mean(theirs)), len(theirs), float(np.std(theirs, ddof=1))
    found = prediction_interval(np.array(ours), *printed, seeds_added=False)
    expected = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.8196, "compatible"), (0.824, "compatible"), (0.83, "incompatible")],
)
def test_a_number_without_spread_is_one_trial_like_ours(value, expected):
    ends = 0.82 + NOISE
    found = verdict(published(value), a=ending_trace(ends))
    assert found.outcome == expected
    half = stats.t.ppf(0.975, 4) * ends.std(ddof=1) * np.sqrt(1 + 1 / 5)
    gap = ends.mean() - value
    assert found.effect is not None
    assert (found.effect.low, found.effect.high) == pytest.approx((gap - half, gap + half))
    assert (found.effect.unit, found.effect.seeds) == ("test_accuracy", 5)
    assert f"published {value:g} of 1 trial; ours minus the published {gap:.3g} (" in (
        found.evidence
    )


def test_the_papers_spread_and_trials_widen_or_narrow_the_interval():
    ends = 0.82 + NOISE
    assert verdict(published(0.824), a=ending_trace(ends)).outcome == "compatible"
    assert verdict(published(0.824, trials=1000), a=ending_trace(ends)).outcome == "incompatible"
    wide = verdict(published(0.824, spread=0.01, trials=10), a=ending_trace(ends))
    assert wide.outcome == "compatible"
    assert "published 0.824 ± 0.01 of 10 trials; " in wide.evidence


def test_an_error_keeps_its_sign():
    found = verdict(published(0.4, "test_rmse"), a=ending_trace([0.39] * 3, "test_rmse"))
    assert found.outcome == "incompatible"
    assert found.evidence.startswith(
        "test_rmse at the end: a 0.39, published 0.4 of 1 trial; ours minus the published -0.01 ("
    )
    same = verdict(published(0.39, "test_rmse"), a=ending_trace([0.39] * 3, "test_rmse"))
    assert same.outcome == "compatible"


def test_one_seed_has_the_spread_of_the_paper_only():
    assert verdict(published(0.8), a=ending_trace([0.82])).outcome == "undecided"
    near = published(0.8, spread=0.02, trials=10)
    assert verdict(near, a=ending_trace([0.82])).outcome == "compatible"
    assert verdict(near, a=ending_trace([0.9])).outcome == "incompatible"


@pytest.mark.parametrize("ends", [[NAN] * 3, [0.8, NAN, 0.81]])
def test_a_lost_seed_leaves_no_mean(ends):
    found = verdict(published(0.8), a=ending_trace(ends))
    assert found.outcome == "not testable"
    assert "of 3 seeds), published 0.8 of 1 trial; a lost seed leaves no mean" in found.evidence


@pytest.mark.parametrize(
    ("curve", "expected", "why"),
    [
        ([0.5, 0.6, 0.7, 0.82], "compatible", ""),
        ([0.5, 0.82, 0.86, 0.88], "not testable", "the run passes it before its end"),
        ([0.5, 0.6, 0.86, 0.88], "not testable", "the run passes it before its end"),
        ([0.5, 0.6, 0.7, 0.75], "not testable", "the run still moves towards it"),
        ([0.5, 0.6, 0.75, 0.7], "incompatible", ""),
    ],
)
def test_a_number_of_an_unknown_budget_is_compared_at_shares_of_ours(curve, expected, why):
    """Records at 0, 4, 8 and 16 rounds of 16."""
    accuracy = np.array(curve) + NOISE[:, None]
    trace = make_trace(np.ones_like(accuracy), test_accuracy=accuracy, schedule=[0, 4, 8, 16])
    found = verdict(published(0.82, budget_stated=False), a=trace)
    assert found.outcome == expected
    assert found.evidence.count("the paper does not say after which budget") == bool(why)
    assert why in found.evidence and found.horizon.startswith("budget: ")
    assert verdict(published(0.82), a=trace).horizon == ""


def test_a_spread_says_over_how_many_trials():
    with pytest.raises(ValidationError, match="spread needs 'trials', 2 or more"):
        PublishedMeasurementTest.model_validate(published(0.8, spread=0.1))
