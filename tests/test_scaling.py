"""Time to a target against the number of parties: slopes, losses, and runs that do not fit."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.slope import SlopeTest
from fedatlas.evaluation.slopes import costs_to
from fedatlas.schema.claims import ClaimTest
from judging import verdict
from trace_factory import falling_trace, linear_trace, vertical_trace

PARTIES = (1, 2, 4, 8)
PACE = np.array([0.97, 0.98, 0.99, 1.01, 1.02, 1.03])
SEEDS = len(PACE)


def runs(name: str, power: float, parties: tuple[int, ...] = PARTIES, spread: float = 1.0):
    """Runs whose seconds per epoch go as parties ** power, a little otherwise for each seed."""
    random = np.random.default_rng(3)
    return {
        f"{name}{count}": linear_trace(
            [0.01] * SEEDS,
            records=401,
            run=f"{name}{count}",
            parties=count,
            seconds_per_epoch=10.0 * count**power * PACE ** (spread * random.normal()),
        )
        for count in parties
    }


def scaling(*series: str, **more: Any) -> dict[str, Any]:
    return {"kind": "scaling", "series": list(series), **more}


@pytest.mark.parametrize(
    ("power", "expected"),
    [
        (-0.95, "reproduced"),
        (-1.1, "reproduced"),
        (-0.8, "undecided"),
        (-0.4, "contradicted"),
        (-1.4, "contradicted"),  # more than near linear
    ],
)
def test_near_linear_speed_up(power, expected):
    series = runs("a", power)
    found = verdict(scaling(*series), **series)
    assert found.outcome == expected
    assert found.evidence.startswith(
        "simulated seconds to suboptimality ≤ 0.001: 1 party 124, 2 parties "
    )
    assert f"; slope below -1 by {-1 - power + 0.0:.1f}" in found.evidence or expected != (
        "contradicted"
    )
    assert "closer than 0.2 is near" in found.evidence


@settings(max_examples=30, deadline=None)
@given(power=st.floats(-1.5, 0.5))
def test_the_slope_is_that_of_numpy_by_seed(power):
    series = runs("a", power)
    slopes = [
        np.polyfit(np.log(PARTIES), np.log(column), 1)[0]
        for column in costs_to(list(series.values()), "suboptimality", 1e-3, "simulated_time").T
    ]
    effect = verdict(scaling(*series), **series).effect
    assert effect is not None
    assert effect.estimate == pytest.approx(-1 - np.median(slopes))
    assert (effect.unit, effect.seeds) == ("slope", SEEDS)


def test_one_series_against_another():
    fast, slow, nearly = runs("a", -0.95), runs("b", -0.7), runs("c", -0.91)
    found = verdict(scaling(*fast, compare_with=list(slow)), **fast, **slow)
    assert found.outcome == "reproduced"
    assert "; slope lower than theirs by 0.25 (0.2" in found.evidence
    assert "; 0.1 counts" in found.evidence
    back = verdict(scaling(*slow, compare_with=list(fast)), **fast, **slow)
    assert back.outcome == "contradicted"
    same = verdict(scaling(*fast, compare_with=list(fast)), **fast)
    assert same.outcome == "no difference"
    slightly = verdict(scaling(*fast, compare_with=list(nearly)), **fast, **nearly)
    assert slightly.outcome == "smaller than claimed"
    small = scaling(*fast, compare_with=list(nearly), smallest_effect=0.01)
    assert verdict(small, **fast, **nearly).outcome == "reproduced"


def test_a_seed_that_never_reaches_the_target_is_infinitely_slow():
    series = runs("a", -0.95)
    series["a8"] = linear_trace([0.1, 0.1, 0.001, 0.1, 0.1, 0.1], run="a8", parties=8)
    found = verdict(scaling(*series), **series)
    assert found.outcome == "undecided"
    assert "8 parties 12.4 (5 of 6 seeds)" in found.evidence
    series["a8"] = linear_trace([0.001] * SEEDS, run="a8", parties=8)
    found = verdict(scaling(*series), **series)
    assert found.outcome == "not testable"  # too small a budget is no refutation
    assert "8 parties none (0 of 6 seeds); the budget is too small" in found.evidence
    other = runs("b", -0.1)
    found = verdict(scaling(*other, compare_with=list(series)), **series, **other)
    assert found.outcome == "not testable"  # it might have arrived a little later


def test_records_too_far_apart_do_not_tell():
    def coarse(count: int, late: float):
        """Ten records; the target is met early or late between the sixth and the seventh."""
        values = np.repeat(
            [[1, 0.5, 0.3, 0.1, 0.05, 0.02, 1e-3 * 10 ** (-late), *[1e-6] * 3]], 6, 0
        )
        return vertical_trace(
            values, run=f"a{count}", parties=count, epochs=9.0, seconds_per_epoch=1 / count
        )

    series = {f"a{count}": coarse(count, 0.1) for count in (4, 5)}
    found = verdict(scaling(*series), **series)
    assert found.outcome == "not testable"
    assert "; below resolution: records are too far apart to tell" in found.evidence
    wide = {f"a{count}": coarse(count, 0.1) for count in (1, 2, 4, 16)}
    assert verdict(scaling(*wide), **wide).outcome == "reproduced"


def test_a_target_met_before_the_first_record_is_not_resolved():
    at_once = np.repeat([[1.0, *[1e-5] * 20]], SEEDS, 0)
    series = {
        f"a{count}": vertical_trace(
            at_once, run=f"a{count}", parties=count, seconds_per_epoch=1 / count
        )
        for count in PARTIES
    }
    found = verdict(scaling(*series), **series)
    assert found.outcome == "not testable"
    assert "below resolution" in found.evidence


def test_a_target_that_the_start_meets_is_not_testable():
    series = runs("a", -1)
    found = verdict(scaling(*series, target=0.5), **series)
    assert found.outcome == "not testable"
    assert "; one run starts there" in found.evidence


def test_a_verdict_that_hangs_on_the_target_is_fragile():
    steady = np.linspace(0, -4, 101)
    uneven = np.concatenate(  # as soon at 0.001, much sooner at 0.003
        [np.linspace(0, -2.55, 21), np.linspace(-2.55, -3, 56)[1:], np.linspace(-3, -4, 26)[1:]]
    )
    series = {
        f"a{count}": vertical_trace(
            10.0 ** np.repeat([levels], SEEDS, axis=0),
            run=f"a{count}",
            parties=count,
            seconds_per_epoch=8 / count,
        )
        for count, levels in ((1, steady), (8, uneven))
    }
    found = verdict(scaling(*series), **series)
    assert found.outcome == "reproduced"
    assert found.fragile == "contradicted at three times the target"


def test_runs_that_do_not_make_a_series_are_errors():
    series = runs("a", -1)
    with pytest.raises(FedatlasError, match="2, 1 parties: list runs by rising number"):
        verdict(scaling("a2", "a1"), **series)
    with pytest.raises(FedatlasError, match="run 's' has no one number of parties"):
        verdict(scaling("a1", "s"), **series, s=falling_trace([0.5] * SEEDS, run="s"))
    for wrong in (scaling("a1"), scaling("a1", "a2", compare_with=["b1"])):
        with pytest.raises(ValidationError):
            TypeAdapter(ClaimTest).validate_python(wrong)


def test_scaling_to_a_target_accuracy():
    def series(parties: int):
        accuracy = np.linspace([0.5] * SEEDS, [0.9] * SEEDS, 41).T
        pace = {"parties": parties, "seconds_per_epoch": 8 / parties}
        falling = np.linspace([1] * SEEDS, [0.1] * SEEDS, 41).T
        return vertical_trace(falling, test_accuracy=accuracy, **pace)

    test = {**scaling("a", "b"), "measurement": "test_accuracy", "target": 0.69}
    # 0.69 is met by the 19th record after the start: 9.5 epochs of 8 and 4 seconds.
    found = verdict(test, a=series(1), b=series(2))
    assert found.outcome == "reproduced"
    assert found.evidence.startswith(
        "simulated seconds to test_accuracy ≥ 0.69: 1 party 76, 2 parties 38; slope below -1 by 0 "
    )
    del test["target"]
    with pytest.raises(ValidationError, match="test_accuracy needs a 'target' of its own"):
        SlopeTest.model_validate(test)
    declared = SlopeTest.model_validate({**test, "target": 0.69})
    assert SlopeTest.model_validate(json.loads(declared.model_dump_json())) == declared


def test_time_and_update_epochs_serve_the_other_tests_too():
    rates = [0.1, 0.11] * 3
    fast, slow = (linear_trace(rates, seconds_per_epoch=pace) for pace in (1.0, 3.0))
    names = {"first": "a", "second": "b", "relation": "much_faster"}
    test = {**names, "kind": "cost_to_target", "measurement": "suboptimality", "target": 1e-3}
    found = verdict({**test, "cost": "simulated_time"}, a=fast, b=slow)
    assert found.outcome == "reproduced"
    assert found.evidence.startswith("simulated seconds to suboptimality ≤ 0.001: a 11.8, b 35.4")
    by_epochs = verdict({**test, "cost": "update_epoch"}, a=fast, b=slow)
    assert by_epochs.outcome == "no difference"
    order = {**names, "kind": "order", "measurement": "suboptimality", "cost": "simulated_time"}
    assert "by 20 simulated seconds" in verdict(order, a=fast, b=slow).evidence
