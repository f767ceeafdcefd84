"""The lead of one run over another at a large and at a small step: wider, narrower, or even."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.lead import LeadTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.evaluation.verdicts import judge
from fedatlas.schema.claims import Claim, ClaimTest
from fedatlas.schema.runs import Selection
from judging import verdict
from trace_factory import falling_trace, levels_trace, make_trace

NAN = np.nan
SPREAD = 10 ** np.array([-0.02, -0.01, -0.005, 0.005, 0.01, 0.02])
GROWS: dict[str, Any] = {"kind": "lead_grows_with_step", "first": "a", "second": "b"}


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
    a = at_steps({0.1: large, 0.03: 0.5, 0.01: 0.1})
    b = at_steps({0.01: 0.2, 0.1: 0.1, 0.03: 0.001})
    found = verdict(GROWS, a=a, b=b)
    assert found.outcome == outcome
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(np.log10(0.1 / large) - np.log10(2))
    assert (found.effect.unit, found.effect.smallest) == ("decades", np.log10(1.05))
    assert found.effect.seeds == 6


def test_only_steps_that_both_have_are_compared():
    a = at_steps({1.0: 1e-9, 0.1: 0.01, 0.01: 0.1})
    b = at_steps({0.1: 0.1, 0.01: 0.1, 0.001: 1e-9})
    found = verdict(GROWS, a=a, b=b)
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(1)


def test_the_evidence_tells_both_steps_and_the_change():
    a, b = at_steps({0.1: 0.01, 0.01: 0.1}), at_steps({0.1: 0.1, 0.01: 0.2})
    assert verdict(GROWS, a=a, b=b).evidence == (
        "gradient_norm by 200 rounds at effective step 0.01: a 0.1, b 0.2; gradient_norm by 200 "
        "rounds at effective step 0.1: a 0.01, b 0.1; about a fifth of the ratio of gradient_norm "
        "(0.2 to 0.2); a factor of 1.05 counts"
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
    assert "gradient_norm by 200 rounds at effective step 0.01: " in found.evidence
    assert found.effect is not None
    # 20 records of a tenth of a decade more each, over the last tenth of them.
    assert found.effect.estimate == pytest.approx(0.1 * 19)
    per_byte = verdict(GROWS | {"cost": "bytes"}, a=a, b=b)
    assert "gradient_norm by 2e+05 bytes at effective step 0.1: " in per_byte.evidence


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


def test_scores_are_compared_by_their_difference():
    def score(ends: float, step: float):
        accuracy = np.full((6, 21), ends) + np.log10(SPREAD)[:, None] / 100
        return levels_trace([0.1] * 6, step=step, test_accuracy=accuracy)

    found = verdict(
        GROWS | {"measurement": "test_accuracy"},
        a=[score(0.9, 0.1), score(0.8, 0.01)],
        b=[score(0.8, 0.1), score(0.78, 0.01)],
    )
    assert found.outcome == "reproduced"
    assert "the gap in test_accuracy: 0.08 wider" in found.evidence


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
    test = TypeAdapter(ClaimTest).validate_python(GROWS)
    claim = Claim(id="claim", source="Figure 1", statement="It holds.", test=test)
    (found,) = judge(
        "e", "p", [claim], Results(traces, choices(json.loads(json.dumps(record))), 0.1)
    )
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


def test_seeds_must_be_pairs():
    other = [
        trace.assign_coords(seed=trace["seed"] + 1) for trace in at_steps({0.1: 0.1, 0.01: 0.1})
    ]
    with pytest.raises(FedatlasError, match="are no pairs: compare equal seeds"):
        verdict(GROWS, a=at_steps({0.1: 0.1, 0.01: 0.1}), b=other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measurement": "min_max_objective"}, "must be one of"),
        ({"cost": "hours"}, "must be one of round"),
        ({"smallest_effect": 0.9}, "must be a factor above 1"),
        ({"for_each": "effective_step_size"}, "Extra inputs"),
    ],
)
def test_claims_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValidationError, match=message):
        LeadTest.model_validate(GROWS | change)


def test_it_looks_at_no_chosen_point():
    assert not LeadTest.model_validate(GROWS).of_choice
