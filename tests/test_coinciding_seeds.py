"""Seeds that coincide are one observation, compared exactly."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.evaluation.evidence import in_full
from fedatlas.evaluation.results import observations
from fedatlas.evaluation.verdicts import format_correction, surviving, tally, under_test
from judging import verdict
from trace_factory import falling_trace, levels_trace, linear_trace, make_trace, vertical_trace
from verdict_factory import effect
from verdict_factory import verdict as made_up

NAN = np.nan


def order(relation: str = "faster", **more: Any) -> dict[str, Any]:
    return {"kind": "order", "first": "a", "second": "b", "relation": relation, **more}


def fixed(level: float, seeds: int = 6, **more: Any) -> Any:
    """A run without randomness: its seeds coincide."""
    return levels_trace([level] * seeds, random=False, **more)


@pytest.mark.parametrize(
    ("relation", "a", "outcome"),
    [
        ("faster", 0.5, "reproduced"),
        ("faster", 0.97, "smaller than claimed"),
        ("faster", 1.0, "no difference"),
        ("faster", 1.3, "contradicted"),
        ("faster", NAN, "contradicted"),
        ("similar", 1.04, "reproduced"),
        ("similar", 1.2, "contradicted"),
        ("nearly_the_same", 1.08, "reproduced"),
        ("nearly_the_same", 1.12, "contradicted"),
        ("much_faster", 0.97, "smaller than claimed"),
        ("much_faster", 1.0, "no difference"),
        ("at_least_as_fast", 1.2, "contradicted"),
    ],
)
@pytest.mark.parametrize("seeds", [2, 6, 40])
def test_a_comparison_without_randomness_is_exact(relation, a, outcome, seeds):
    found = verdict(
        order(relation), a=fixed(0.7 * a, seeds, start=2.0), b=fixed(0.7, seeds, start=2.0)
    )
    assert found.outcome == outcome
    told = f"all {seeds} seeds coincide" if a == a else f"none of {seeds} seeds has a value"
    assert f"{told}: one observation" in found.evidence
    assert (found.effect.seeds, found.effect.p, found.effect.needed) == (1, None, None)
    assert found.effect.low == found.effect.estimate == found.effect.high
    assert in_full(found.effect).endswith("one observation")


def test_an_exact_cost_to_a_target_is_limited_by_records_only():
    a, b = (falling_trace([rate] * 3, random=False) for rate in (0.3, 0.7))
    asked = order(kind="cost_to_target", target=0.01, measurement="gradient_norm")
    found = verdict(asked, a=a, b=b)
    assert found.outcome == "reproduced" and "times the rounds (exact)" in found.evidence


def test_one_seed_alone_does_not_show_that_nothing_is_random():
    found = verdict(order(), a=fixed(0.1, 1), b=fixed(0.7, 1))
    assert found.outcome == "undecided" and not found.effect.exact


def test_a_fixed_run_is_compared_with_every_seed_of_a_random_one():
    random = levels_trace(np.array([0.95, 0.97, 0.99, 1.01, 1.03, 1.05]))
    found = verdict(order(), a=fixed(0.5), b=random)
    assert found.outcome == "reproduced" and found.effect.p == pytest.approx(1 / 64)
    assert found.effect.seeds == 6 and "coincide" not in found.evidence


def test_seeds_that_tie_by_chance_are_observations():
    """All end with the same accuracy, but their objectives say that runs differ."""
    asked = {
        "kind": "equal_final",
        "first": "a",
        "second": "b",
        "measurement": "train_accuracy",
    } | {"smallest_effect": 0.005}
    found = verdict(asked, a=levels_trace([0.1] * 6), b=levels_trace([0.1] * 6))
    assert found.outcome == "reproduced" and found.effect.seeds == 6 and found.effect.p is not None


def test_seeds_that_repeat_others_are_not_counted():
    levels = [0.5, 0.51, 0.52, 0.5, 0.51, 0.52, 0.5]
    a, b = (levels_trace(np.array(levels) * by, random=False) for by in (0.1, 1.0))
    found = verdict(order(), a=a, b=b)
    assert found.outcome == "undecided" and found.effect.seeds == 3
    assert "4 seeds repeat others and are not counted" in found.evidence


def test_costs_that_differ_are_observations_though_models_coincide():
    values = np.array([[0.3, 0.1, 0.01]] * 6)
    times = 1 + 0.1 * np.arange(6)
    a = vertical_trace(values, seconds_per_epoch=times, random=False)
    b = vertical_trace(values, seconds_per_epoch=3 * times[::-1], random=False)
    asked = order(kind="cost_to_target", target=0.05, measurement="suboptimality")
    found = verdict({**asked, "cost": "simulated_time"}, a=a, b=b)
    assert found.effect.seeds == 6


@given(
    kinds=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    noise=st.floats(-1e-14, 1e-14),
)
def test_there_are_as_many_observations_as_different_runs(kinds, noise):
    places = np.array(kinds, dtype=float)
    values = np.outer(1 + places, [1.0, 0.3, 0.1]) * (1 + noise * np.arange(len(places)))[:, None]
    values[places == 3, 2] = NAN  # diverges in the same way
    kept = observations(places, [make_trace(values, random=False)])
    assert kept.tolist() == list(dict.fromkeys(places))


def test_small_objectives_of_a_run_that_starts_at_the_optimum_are_told_apart():
    values = np.outer(1 + np.arange(6), [0.0, 3e-11, 2e-11])
    trace = make_trace(np.sqrt(values), random=False)
    assert len(observations(np.zeros(6), [trace])) == 6


def test_rounding_errors_of_a_converged_run_are_no_observations():
    """Seeds whose parts are summed in other orders end at other numbers that should be 0."""
    ends = np.array([0.0, 3e-16, 1e-15, 2e-16, 7e-16, 5e-15])
    a, b = (make_trace(np.outer(np.ones(6), [1.0, 0.1, by]), random=False) for by in (0.0, 0.01))
    a["objective"][:, -1], a["gradient_norm"][:, -1] = ends**2, ends
    found = verdict(
        {"kind": "better_final", "first": "a", "second": "b", "measurement": "objective"}, a=a, b=b
    )
    assert found.outcome == "reproduced" and found.effect.exact


def test_a_published_number_is_no_draw_of_a_run_without_randomness():
    trace = linear_trace([0.05] * 6, random=False, test_accuracy=np.full((6, 41), 0.8))
    asked = {"kind": "published_measurement", "run": "a", "measurement": "test_accuracy"}
    alone = verdict({**asked, "value": 0.81}, a=trace)
    assert alone.outcome == "undecided" and "one observation shows no spread" in alone.evidence
    printed = verdict({**asked, "value": 0.81, "spread": 0.01, "trials": 5}, a=trace)
    assert printed.outcome == "compatible" and printed.effect.low < 0 < printed.effect.high
    assert printed.effect.seeds == 1 and "all 6 seeds coincide" in printed.evidence


# --- tallies ---

EXACT = effect(0.3, 0.3, 0.3, seeds=1, repeats=5)


@pytest.mark.parametrize("outcome", ["reproduced", "contradicted", "no difference"])
def test_what_is_exact_is_no_test(outcome):
    exact = made_up("demo-x/exact", outcome, effect=EXACT)
    tested = made_up("demo-x/tested", effect=effect(p=0.001))
    assert under_test([exact, tested]) == [(tested, 0.001)]
    assert tally([exact, tested]).seeds == (10,)
    assert format_correction(tally([exact])) == ""


@pytest.mark.parametrize(
    ("outcome", "of_exact", "expected"),
    [("reproduced", "reproduced", [0.02]), ("contradicted", "contradicted", [])],
)
def test_an_exact_case_leaves_the_p_to_the_others(outcome, of_exact, expected):
    rows = [
        made_up("demo-x/a", outcome),
        made_up("demo-x/a", of_exact, "one", effect=EXACT),
        made_up("demo-x/a", "reproduced", "other", effect=effect(p=0.02)),
    ]
    assert [p for _, p in under_test(rows)] == expected
    sharper = [*rows[:2], replace(rows[2], effect=effect(p=0.002))]
    assert len(surviving(sharper)) == len(expected)
