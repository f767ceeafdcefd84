"""The lead of one run over another in one place and in another: wider, narrower, or even."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.lead import LeadTest
from fedatlas.evaluation.constants import ConstantRow, Constants
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.schema.runs import Selection
from judging import verdict
from trace_factory import falling_trace, levels_trace, make_trace, tiered_trace

NAN = np.nan
SEEDS = 6
NOISE = 1e-3 * np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
SPREAD = 10 ** (10 * NOISE)
GROWS: dict[str, Any] = {"kind": "lead_grows_with_step", "first": "a", "second": "b"}
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


@pytest.mark.parametrize(
    ("at", "outcome"),  # in units of a round trip at either latency
    [
        ([1600, 12400], "reproduced"),  # forty rounds of the first run at both
        ([1600, 620], "not testable"),  # two rounds at the second: both are below 0.2
        ([120, 12400], "not testable"),
    ],
)
def test_runs_that_have_learnt_nothing_in_one_place_have_no_lead_there(at, outcome):
    runs = {
        "a": rising(0.01 + NOISE / 100, steps=10),
        "b": rising(3e-3 + NOISE[::-1] / 100, steps=1, records=81, every=2),
    }
    constants = Constants([ConstantRow(name, "test_accuracy", 0.2) for name in runs])
    found = judged(WIDENS | {"at": at}, constants=constants, **runs)
    assert found.outcome == outcome
    assert "best constant predictor 0.2" in found.evidence
    assert ("no better than a constant: a, b" in found.evidence) == (outcome == "not testable")


def test_the_evidence_tells_both_times_and_the_change():
    a, b = rising([0.01] * SEEDS, steps=10), rising([3e-3] * SEEDS, steps=1, records=81)
    evidence = judged(WIDENS, a=a, b=b).evidence
    assert evidence.startswith(
        "test_accuracy from 1440 to 1600 time units (t_comm = 10): a 0.48, b 0.2471; test_accuracy "
        "from 1.116e+04 to 1.24e+04 time units (t_comm = 100): a 0.48, b 0.2174; the gap in "
        "test_accuracy: 0.0297 wider (0.0297 to 0.0297); a difference of 0.005 counts; for "
        "these test rows"
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
    assert "from 360 to 400 time units (t_comm = 10): a 0.195, b 0.1368; " in declared.evidence
    assert "from 279 to 310 time units (t_comm = 100): a 0.1095, b 0.1029; " in declared.evidence
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


@pytest.mark.parametrize(
    ("lost", "why"),
    [("a", "shows no gap"), ("b", "shows no gap"), ("ab", "every seed diverged")],
)
def test_a_run_without_any_seed_shows_no_gap(lost, why):
    runs = {
        name: rising([NAN if name in lost else 0.01] * SEEDS, steps=steps)
        for name, steps in (("a", 10), ("b", 1))
    }
    found = judged(WIDENS, **runs)
    assert (found.outcome, found.effect, why in found.evidence) == ("not testable", None, True)


# --- a large step and a small one ---


def at_steps(levels: dict[float, Any], seeds: int = 6, **options: Any) -> list[Any]:
    """A run at several steps: step → level, one or one for each seed; NaN diverges."""
    spread = np.resize(SPREAD, seeds)
    return [
        levels_trace(np.broadcast_to(level, seeds) * spread, step=step, **options)
        for step, level in levels.items()
    ]


@pytest.mark.parametrize(
    ("large", "outcome"),  # the level of the first at the large step; that of the second is 0.1
    [
        (0.01, "reproduced"),
        (0.049, "smaller than claimed"),
        (0.05, "no difference"),
        (0.09, "contradicted"),
    ],
)
def test_the_lead_at_the_largest_step_is_held_against_that_at_the_smallest(large, outcome):
    # Whatever happens between: both lead by two at the small step.
    # Steps that only one has are not compared.
    a = at_steps({1.0: 1e-9, 0.1: large, 0.03: 0.5, 0.01: 0.1})
    b = at_steps({0.01: 0.2, 0.1: 0.1, 0.03: 0.001, 0.001: 1e-9})
    found = verdict(GROWS, a=a, b=b)
    assert found.outcome == outcome
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(np.log10(0.1 / large) - np.log10(2))
    assert (found.effect.unit, found.effect.smallest) == ("decades", np.log10(1.05))
    assert found.effect.seeds == 6


def test_the_evidence_tells_both_steps_and_the_change():
    a, b = at_steps({0.1: 0.01, 0.01: 0.1}), at_steps({0.1: 0.1, 0.01: 0.2})
    assert verdict(GROWS, a=a, b=b).evidence == (
        "gradient_norm from 180 to 200 rounds at effective step 0.01: a 0.1, b 0.2; gradient_norm "
        "from 180 to 200 rounds at effective step 0.1: a 0.01, b 0.1; about a fifth of the ratio "
        "of gradient_norm (0.2 to 0.2); a factor of 1.05 counts"
    )


@settings(max_examples=25, deadline=None)
@given(levels=st.lists(st.floats(1e-6, 0.5), min_size=4, max_size=4))
def test_the_lead_is_mirrored_by_swapping_runs_and_not_moved_by_a_common_factor(levels):
    a = at_steps(dict(zip((0.1, 0.01), levels[:2], strict=True)))
    b = at_steps(dict(zip((0.1, 0.01), levels[2:], strict=True)))
    one, swapped = (verdict(GROWS, a=x, b=y).effect for x, y in ((a, b), (b, a)))
    assert one is not None and swapped is not None
    assert (swapped.low, swapped.high) == pytest.approx((-one.high, -one.low))
    # Half of every level at the large step is no lead of either run.
    halved = [at_steps({0.1: x / 2, 0.01: y}) for x, y in (levels[:2], levels[2:])]
    common = verdict(GROWS, a=halved[0], b=halved[1]).effect
    assert common is not None
    assert common.estimate == pytest.approx(one.estimate, abs=1e-9)


def test_runs_are_compared_at_the_cost_that_all_four_spent():
    """Levels fall by one decade in ten records; a run that ends early sets the budget for all."""
    slow, fast = 10**-0.1, 10**-0.2
    a = [
        falling_trace([fast] * 6, records=21, step=0.1),
        falling_trace([slow] * 6, records=41, step=0.01),
    ]
    b = [falling_trace([slow] * 6, records=41, step=step) for step in (0.1, 0.01)]
    found = verdict(GROWS, a=a, b=b)
    assert "gradient_norm from 180 to 200 rounds at effective step 0.01: " in found.evidence
    assert found.effect is not None
    # 20 records of a tenth of a decade more each, over the last tenth of them.
    assert found.effect.estimate == pytest.approx(0.1 * 19)
    per_byte = verdict(GROWS | {"cost": "bytes"}, a=a, b=b)
    assert "gradient_norm from 1.8e+05 to 2e+05 bytes at effective step 0.1: " in per_byte.evidence


def test_it_is_judged_again_earlier():
    def turning(early: float, late: float, step: float):
        values = np.full((6, 21), late) * SPREAD[:, None]
        values[:, :12] = early * SPREAD[:, None]
        values[:, 0] = 1.0
        return make_trace(values, step=step)

    a = [turning(0.2, 0.01, 0.1), turning(0.1, 0.1, 0.01)]
    b = at_steps({0.1: 0.1, 0.01: 0.1})
    found = verdict(GROWS, a=a, b=b)
    assert (found.outcome, found.fragile) == ("reproduced", "contradicted at half the budget")


@pytest.mark.parametrize(
    ("small", "large", "outcome", "estimate"),  # levels of a and b at the two steps
    [
        ((0.1, 0.2), (0.1, NAN), "reproduced", np.inf),  # only the second leaves at a large step
        ((0.1, 0.2), (NAN, 0.1), "contradicted", -np.inf),
        ((NAN, 0.2), (NAN, 0.1), "not testable", None),  # the first has no lead anywhere
        ((0.1, 0.2), (NAN, NAN), "not testable", None),
        ((NAN, NAN), (NAN, NAN), "not testable", None),
        ((0.1, 0.2), (0.1, (NAN, *[0.4] * 5)), "reproduced", np.log10(2)),
        # Where both lost a seed neither shows a lead, and five others are too few.
        (((NAN, *[0.1] * 5), (NAN, *[0.2] * 5)), (0.1, 0.4), "undecided", np.log10(2)),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_seed_that_only_one_run_lost_decides_and_one_that_both_lost_does_not(
    small, large, outcome, estimate
):
    a, b = (at_steps({0.1: large[place], 0.01: small[place]}) for place in (0, 1))
    found = verdict(GROWS, a=a, b=b)
    assert found.outcome == outcome
    assert (found.effect is None) == (estimate is None)
    if found.effect is not None:
        assert found.effect.estimate == pytest.approx(estimate)


def test_how_points_were_chosen_is_told_of_both_steps():
    def tuned(step: float, local: float, level: float):
        return levels_trace(
            [level] * 6,
            run="a",
            step=step,
            point=f"step-{step}-local-{local}",
            hyper_parameters={"effective_step": step, "local": local},
        )

    grid = [tuned(s, x, x * s) for s in (0.1, 0.01) for x in (0.1, 0.2, 0.3)]
    points = {trace.attrs["point"]: trace for trace in grid}
    tuning = select({"a": points}, Selection())
    own = [grid[0], grid[3]]
    for trace, step in zip(own, (0.1, 0.01), strict=True):
        trace.attrs["point"] = f"step-{step}"
    traces = {
        "a": {trace.attrs["point"]: trace for trace in own},
        "b": {trace.attrs["point"]: trace for trace in at_steps({0.1: 0.1, 0.01: 0.1})},
    }
    record = select(traces, Selection(), {"a": tuning}, {"a": ["effective_step"]})
    assert LeadTest(**WIDENS).of_choice and not LeadTest(**GROWS).of_choice
    (found,) = LeadTest(**GROWS).judge(Results(traces, choices(record)))
    told = "a chosen among 3 points; b not tuned; a at the edge of its grid in local"
    assert found.evidence.endswith(f"; at step 0.01: {told}; at step 0.1: {told}")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((0.3, 0.03), "'a' and 'b' share no effective step size"),
        ((0.1, 0.03), "'a' and 'b' share one effective step size"),
    ],
)
def test_there_must_be_two_common_steps(steps, message):
    a, b = at_steps({0.1: 0.1, 0.01: 0.1}), at_steps(dict.fromkeys(steps, 0.1))
    with pytest.raises(FedatlasError, match=message):
        verdict(GROWS, a=a, b=b)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (WIDENS | {"costs": ["latency(10)"]}, "costs"),
        (WIDENS | {"costs": ["latency(10)", "latency(10)"]}, r"costs: latency\(10\) stands twice"),
        (WIDENS | {"costs": ["latency(10)", "hours"]}, "must be one of round"),
        (WIDENS | {"measurement": "min_max_objective"}, "must be one of"),
        (WIDENS | {"at": [10]}, "at"),
        (WIDENS | {"at": [0, 10]}, "greater than 0"),
        (GROWS | {"measurement": "min_max_objective"}, "must be one of"),
        (GROWS | {"cost": "hours"}, "must be one of round"),
        (GROWS | {"smallest_effect": 0.9}, "must be a factor above 1"),
        (GROWS | {"for_each": "effective_step_size"}, "Extra inputs"),
    ],
)
def test_claims_that_make_no_sense_are_refused(test, message):
    with pytest.raises(ValidationError, match=message):
        LeadTest.model_validate(test)


@pytest.mark.parametrize(
    ("at_zero", "told"),
    [(("a", 1), "at most"), (("b", 1), "at least"), (("a", 0), "at least"), (("b", 0), "at most")],
)
def test_a_lead_with_a_level_at_the_floor_is_a_bound(at_zero, told):
    """Ratios of a to b at the larger step over those at the smaller one."""
    runs = {
        run: [
            levels_trace(0.0 * SPREAD if (run, place) == at_zero else 0.1 * SPREAD, step=step)
            for place, step in enumerate((0.1, 0.2))
        ]
        for run in ("a", "b")
    }
    found = verdict(GROWS, selected_by="objective", **runs)
    assert f"; {told} " in found.evidence and found.effect.bound == told
