"""The lead of one run over another under two costs: wider, narrower, or as it was."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.lead import LeadTest
from judging import verdict
from trace_factory import tiered_trace

NAN = np.nan
SEEDS = 6
NOISE = 1e-3 * np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
WIDENS: dict[str, Any] = {
    "kind": "gap_widens",
    "first": "a",
    "second": "b",
    "measurement": "test_accuracy",
    "costs": ["latency(10)", "latency(100)"],
}


def rising(rates: Any, *, steps: int, records: int = 41, every: int = 1, **options: Any):
    """A run over silos whose accuracy rises by so much a round from 0.1, for each seed."""
    rounds = every * np.arange(records)
    accuracy = 0.1 + np.asarray(rates, dtype=float)[:, None] * rounds
    objective = np.where(np.isnan(accuracy), NAN, 2 - accuracy)
    objective[:, 0] = 2 - 0.1
    return tiered_trace(
        objective,
        local_steps=steps,
        schedule=rounds.tolist(),
        test_accuracy=np.where(np.isnan(objective), NAN, np.nan_to_num(accuracy, nan=0.1)),
        **options,
    )


def by_window(rate: float, time: float, of_round: float, window: float = 0.1) -> float:
    """The mean accuracy over the last tenth of a time, on a line from 0.1."""
    return 0.1 + rate * time * (1 - window / 2) / of_round


def judged(test: dict[str, Any], **runs: Any):
    return verdict(test, selected_by="objective", **runs)


@pytest.mark.parametrize(
    ("slow", "expected"),  # what Q = 1 gains in a round
    [
        (3e-3, "reproduced"),
        (1e-4, "smaller than claimed"),
        (0.0, "no difference"),  # it has learned nothing by either time
        (-3e-3, "contradicted"),
    ],
)
def test_the_gap_widens_by_what_the_lost_rounds_of_the_slower_run_are_worth(slow, expected):
    a = rising(0.01 + NOISE / 100, steps=10)
    b = rising(slow + NOISE[::-1] / 100, steps=1, records=81, every=2)
    found = judged(WIDENS, a=a, b=b)
    assert found.outcome == expected
    # 40 rounds of 40 or 310 units: 51.6 or 41.2 rounds of 31 or 301 units.
    lead = [
        by_window(0.01, 40 * of_ten, of_ten) - by_window(slow, 40 * of_ten, of_one)
        for of_ten, of_one in ((40, 31), (310, 301))
    ]
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(lead[1] - lead[0], abs=1e-4)
    assert (found.effect.unit, found.effect.smallest) == ("test_accuracy", 0.005)


def test_the_evidence_tells_both_times_and_the_change():
    a, b = rising([0.01] * SEEDS, steps=10), rising([3e-3] * SEEDS, steps=1, records=81)
    evidence = judged(WIDENS, a=a, b=b).evidence
    assert evidence.startswith(
        "test_accuracy by 1600 time units (t_comm = 10): a 0.48, b 0.2471; test_accuracy by "
        "1.24e+04 time units (t_comm = 100): a 0.48, b 0.2174; the gap in test_accuracy: 0.0297 "
        "wider (0.0297 to 0.0297); a difference of 0.005 counts; for these test rows"
    )


@settings(max_examples=25, deadline=None)
@given(
    rates=st.lists(st.floats(1e-3, 9e-3), min_size=SEEDS, max_size=SEEDS),
    steps=st.integers(2, 40),
)
def test_swapping_costs_mirrors_the_gap_and_equal_rounds_leave_it(rates, steps):
    a, b = rising(rates, steps=steps), rising(rates[::-1], steps=1, records=400)
    one = judged(WIDENS, a=a, b=b).effect
    back = judged(WIDENS | {"costs": WIDENS["costs"][::-1]}, a=a, b=b).effect
    swapped = judged(WIDENS, a=b, b=a).effect
    assert one is not None and back is not None and swapped is not None
    for other in (back, swapped):
        assert (other.low, other.high) == pytest.approx((-one.high, -one.low))
    same = judged(WIDENS, a=a, b=rising(rates[::-1], steps=steps))
    assert same.outcome == "no difference"


def test_a_stated_time_is_compared_at_and_must_have_been_spent():
    a, b = rising([0.01] * SEEDS, steps=10), rising([3e-3] * SEEDS, steps=1, records=81)
    declared = judged(WIDENS | {"at": [400, 310]}, a=a, b=b)
    # The first by 10 of its rounds and 12.9 of the second, the second by 1 and 1.03.
    assert "by 400 time units (t_comm = 10): a 0.195, b 0.1368; " in declared.evidence
    assert "by 310 time units (t_comm = 100): a 0.1095, b 0.1029; " in declared.evidence
    assert declared.outcome == "contradicted"
    with pytest.raises(FedatlasError, match=r"'at: 2000' lies beyond 1600 time units \(t_comm"):
        judged(WIDENS | {"at": [2000, 310]}, a=a, b=b)


def test_a_gap_of_losses_is_one_of_ratios():
    def falling(rate: float, **options: Any):
        values = 2 * np.full((SEEDS, 1), rate) ** np.arange(41)
        return tiered_trace(values, schedule=range(41), **options)

    a, b = falling(0.9, local_steps=10), falling(0.95, local_steps=1)
    found = judged(WIDENS | {"measurement": "objective"}, a=a, b=b)
    assert found.effect is not None
    assert found.effect.unit == "decades"
    assert "times the ratio of objective (" in found.evidence
    # The slower run ends after 40 rounds; by then the faster one took 31, or 38.8, of its own.
    more = 40 * 301 / 310 - 40 * 31 / 40
    assert found.effect.estimate == pytest.approx(-np.log10(0.9) * more * 0.95)


@pytest.mark.parametrize(
    ("a", "b", "outcome", "seeds"),
    [
        ((0.01,) * 6, (3e-3,) * 5 + (NAN,), "undecided", 6),
        ((0.01,) * 5 + (NAN,), (3e-3,) * 6, "undecided", 6),
        ((0.01,) * 8 + (NAN,), (3e-3,) * 9, "reproduced", 9),
        ((0.01,) * 5 + (NAN,), (3e-3,) * 5 + (NAN,), "undecided", 6),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_lost_seed_shows_no_widening(a, b, outcome, seeds):
    found = judged(WIDENS, a=rising(a, steps=10), b=rising(b, steps=1, records=81))
    assert found.outcome == outcome
    assert found.effect is not None
    assert found.effect.seeds == seeds


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_run_without_any_seed_shows_no_gap(lost):
    runs = {
        name: rising([NAN if name == lost else 0.01] * SEEDS, steps=steps)
        for name, steps in (("a", 10), ("b", 1))
    }
    found = judged(WIDENS, **runs)
    assert (found.outcome, found.effect) == ("not testable", None)


def test_runs_that_were_all_lost_cannot_be_compared():
    lost = [NAN] * SEEDS
    found = judged(WIDENS, a=rising(lost, steps=10), b=rising(lost, steps=1))
    assert (found.outcome, "every seed diverged" in found.evidence) == (
        "not testable",
        True,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"costs": ["latency(10)"]}, "costs"),
        ({"costs": ["latency(10)", "latency(10)"]}, r"costs: latency\(10\) stands twice"),
        ({"costs": ["latency(10)", "hours"]}, "must be one of round"),
        ({"measurement": "min_max_objective"}, "must be one of"),
        ({"at": [10]}, "at"),
        ({"at": [0, 10]}, "greater than 0"),
    ],
)
def test_gaps_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValidationError, match=message):
        LeadTest.model_validate(WIDENS | change)
