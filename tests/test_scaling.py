"""Time to a target against the number of parties: slopes, losses, and runs that do not fit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.scaling import times
from fedatlas.schema.claims import ClaimTest
from test_judge import verdict
from trace_factory import falling_trace, linear_trace

PARTIES = (1, 2, 4, 8)
PACE = np.array([0.98, 0.99, 1.0, 1.01, 1.02])


def runs(name: str, power: float, parties: tuple[int, ...] = PARTIES, spread: float = 1.0):
    """Runs whose seconds per epoch go as parties ** power, a little otherwise for each seed."""
    random = np.random.default_rng(3)
    return {
        f"{name}{count}": linear_trace(
            [0.1] * 5,
            run=f"{name}{count}",
            parties=count,
            seconds_per_epoch=10.0 * count**power * PACE ** (spread * random.normal()),
        )
        for count in parties
    }


def scaling(*series: str, **more: Any) -> dict[str, Any]:
    return {"kind": "scaling", "series": list(series), **more}


@pytest.mark.parametrize(
    ("power", "expected"), [(-0.95, "reproduced"), (-0.8, "inconclusive"), (-0.4, "not reproduced")]
)
def test_near_linear_speed_up(power, expected):
    series = runs("a", power)
    found = verdict(scaling(*series), **series)
    assert found.verdict == expected
    assert found.evidence.startswith(
        "simulated seconds to suboptimality ≤ 0.001: 1 party 125, 2 parties "
    )
    assert f"slope {power:.3g} (95 % " in found.evidence
    assert found.evidence.endswith("claimed -1.2 to -0.8")


@given(power=st.floats(-1.5, 0.5))
def test_the_slope_is_that_of_numpy_by_seed(power):
    series = runs("a", power)
    slopes = [
        np.polyfit(np.log(PARTIES), np.log(column), 1)[0]
        for column in times(list(series.values()), "suboptimality", 1e-3).T
    ]
    evidence = verdict(scaling(*series), **series).evidence
    assert f"slope {np.mean(slopes) + 0.0:.3g}" in evidence or abs(np.mean(slopes)) < 1e-9


def test_one_series_against_another():
    fast, slow, nearly = runs("a", -0.95), runs("b", -0.7), runs("c", -0.91)
    found = verdict(scaling(*fast, compare_with=list(slow)), **fast, **slow)
    assert found.verdict == "reproduced"
    assert "slopes differ by -0.25 (95 % " in found.evidence
    back = verdict(scaling(*slow, compare_with=list(fast)), **fast, **slow)
    assert back.verdict == "not reproduced"
    same = verdict(scaling(*fast, compare_with=list(fast)), **fast)
    assert same.verdict == "not reproduced"  # "much better", and it is the same
    slightly = verdict(scaling(*fast, compare_with=list(nearly)), **fast, **nearly)
    assert slightly.verdict == "not reproduced"


def test_a_seed_that_never_reaches_the_target_is_infinitely_slow():
    series = runs("a", -0.95)
    series["a8"] = linear_trace([0.1, 0.1, 0.001, 0.1, 0.1], run="a8", parties=8)
    found = verdict(scaling(*series), **series)
    assert found.verdict == "inconclusive"
    assert "8 parties 12.5 (4 of 5 seeds)" in found.evidence
    series["a8"] = linear_trace([0.001] * 5, run="a8", parties=8)
    assert verdict(scaling(*series), **series).verdict == "inconclusive"  # not a refutation
    other = runs("b", -0.1)
    found = verdict(scaling(*other, compare_with=list(series)), **series, **other)
    assert found.verdict == "inconclusive"
    assert "the budget is too small to compare them" in found.evidence


def test_more_than_near_linear_is_not_near_linear():
    series = runs("a", -1.4)
    assert verdict(scaling(*series), **series).verdict == "not reproduced"


def test_runs_that_do_not_make_a_series_are_errors():
    series = runs("a", -1)
    with pytest.raises(FedatlasError, match="2, 1 parties: list runs by rising number"):
        verdict(scaling("a2", "a1"), **series)
    with pytest.raises(FedatlasError, match="run 's' has no parties"):
        verdict(scaling("a1", "s"), **series, s=falling_trace([0.5] * 5, run="s"))
    for wrong in (scaling("a1"), scaling("a1", "a2", compare_with=["b1"])):
        with pytest.raises(ValidationError):
            TypeAdapter(ClaimTest).validate_python(wrong)


def test_time_and_update_epochs_serve_the_other_tests_too():
    fast, slow = (linear_trace([0.1, 0.11], seconds_per_epoch=pace) for pace in (1.0, 3.0))
    names = {"first": "a", "second": "b", "relation": "much_faster"}
    test = {**names, "kind": "cost_to_target", "measurement": "suboptimality", "target": 1e-3}
    found = verdict({**test, "cost": "simulated_time"}, a=fast, b=slow)
    assert found.verdict == "reproduced"
    assert found.evidence.startswith("simulated seconds to suboptimality ≤ 0.001: a 12")
    assert verdict({**test, "cost": "update_epoch"}, a=fast, b=slow).verdict == "not reproduced"
    order = {**names, "kind": "order", "measurement": "suboptimality", "cost": "simulated_time"}
    assert "by 20 simulated seconds" in verdict(order, a=fast, b=slow).evidence
