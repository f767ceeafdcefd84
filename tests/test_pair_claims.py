"""Claims that compare two runs: each way they can come out, and what the evidence says."""

from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.evaluation.verdicts import judge
from fedatlas.schema.claims import Claim, ClaimTest
from fedatlas.schema.runs import Selection
from judging import outcomes, verdict, verdicts
from trace_factory import (
    auroc_trace,
    ending_trace,
    falling_trace,
    levels_trace,
    make_trace,
    vertical_trace,
)

NAN = np.nan
SIX = np.ones(6)
SPREAD = np.array([0.95, 0.97, 0.99, 1.01, 1.03, 1.05])  # six seeds, a few per cent apart
NOISE = np.array([-2e-3, 1e-3, 0.0, -1e-3, 2e-3, 0.0])


def order(relation: str, **more: Any) -> dict[str, Any]:
    return {"kind": "order", "first": "a", "second": "b", "relation": relation, **more}


def to_target(relation: str, target: float, **more: Any) -> dict[str, Any]:
    names = {"kind": "cost_to_target", "first": "a", "second": "b"}
    return {**names, "relation": relation, "target": target, **more}


def final(kind: str, measurement: str = "test_accuracy", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "first": "a", "second": "b", "measurement": measurement, **more}


# --- order at equal cost ---


@pytest.mark.parametrize(
    ("relation", "ratio", "expected"),
    [
        ("faster", 0.5, "reproduced"),
        ("faster", 0.97, "undecided"),
        ("faster", 2.0, "contradicted"),
        ("at_least_as_fast", 0.9, "reproduced"),
        ("at_least_as_fast", 1.0, "undecided"),
        ("at_least_as_fast", 1.5, "contradicted"),
        ("much_faster", 0.3, "reproduced"),
        ("much_faster", 0.5, "undecided"),
        ("much_faster", 0.8, "smaller than claimed"),
        ("much_faster", 1.0, "no difference"),
        ("much_faster", 2.5, "contradicted"),
        ("similar", 1.0, "reproduced"),
        ("similar", 1.5, "undecided"),
        ("similar", 1 / 1.5, "undecided"),
        ("similar", 2.0, "contradicted"),
        ("similar", 0.4, "contradicted"),
    ],
)
def test_order_by_relation(relation, ratio, expected):
    # The other way round, so that the ratio varies from seed to seed about the given one.
    a, b = levels_trace(0.01 * ratio * SPREAD), levels_trace(0.01 * SPREAD[::-1])
    assert verdict(order(relation), a=a, b=b).outcome == expected


def test_several_claims_are_judged_in_order():
    traces = {"a": {"p": levels_trace(0.01 * SPREAD)}, "b": {"p": levels_trace(0.1 * SPREAD)}}
    claims = [
        Claim.model_validate({"id": name, "source": "s", "statement": "t", "test": test})
        for name, test in (("one", order("faster")), ("two", to_target("faster", 0.5)))
    ]
    results = Results(traces, choices(select(traces, Selection())), 0.1)
    assert [found.claim for found in judge("e", "p", claims, results)] == ["e/one", "e/two"]
    assert judge("e", "p", [], results) == []


def test_a_claim_on_the_end_looks_at_the_end_only():
    """First behind along nearly all rounds, then far ahead."""
    a = make_trace(np.outer(SPREAD, [1.0] + [0.9] * 36 + [1e-3] * 4))
    b = make_trace(np.outer(SPREAD[::-1], [1.0] + [0.3] * 40))
    assert verdict(order("faster", window=0.1), a=a, b=b).outcome == "reproduced"
    assert verdict(order("faster", window=1), a=a, b=b).outcome == "contradicted"


def test_the_smallest_effect_is_declared():
    a, b = levels_trace(0.01 * 0.7 * SIX), levels_trace(0.01 * SIX)
    assert verdict(order("faster"), a=a, b=b).outcome == "reproduced"
    larger = verdict(order("faster", smallest_effect=2), a=a, b=b)
    assert larger.outcome == "smaller than claimed"
    printed = verdict(order("faster", published_effect=3), a=a, b=b)
    assert printed.outcome == "smaller than claimed"
    assert "a factor of 1.05 counts; the paper's is 3" in printed.evidence


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (order("faster", smallest_effect=0.5), "smallest_effect: 0.5 must be a factor above 1"),
        (order("faster", published_effect=0.33), "published_effect: 0.33 must be a factor above"),
        (order("similar", published_effect=2), "published_effect: the claim is not about a lead"),
        (order("faster", published_effect=-1), "greater than 0"),
        (order("faster", measurement="min_max_objective"), "must be one of objective, gradient"),
        (order("faster", at=10, share=0.5), "'at' and 'share' both"),
        (order("faster", quantity="end"), "Extra inputs"),
        (final("better_final", "min_max_objective"), "must be one of objective"),
        (final("better_final", cost="round"), "Extra inputs"),
        (final("equal_final"), "Field required"),
        (to_target("faster", None), "Field required"),
        (to_target("faster", 1, measurement="test_auroc"), "1 of test_auroc must lie below"),
        (to_target("faster", 93, measurement="test_auroc"), "93 of test_auroc must lie below"),
        (to_target("faster", 9e-11, measurement="suboptimality"), "to which f. is known"),
        (to_target("faster", 1e-300, measurement="suboptimality"), "to which f. is known"),
        ({"kind": "order", "first": "a", "second": "b"}, "Field required"),
        ({"kind": "ordre", "first": "a", "second": "b"}, "must be one of audit_stands"),
    ],
)
def test_claims_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(ClaimTest).validate_python(change)


@pytest.mark.parametrize("kind", [name for name, of in ClaimTest.classes().items() if of.kinds])
def test_a_kind_has_its_keys_only_and_comes_back_from_its_dump(kind):
    """Whatever a class knows besides is none of the kind's."""
    own, whole = ClaimTest.classes()[kind].kinds[kind], set(ClaimTest.classes()[kind].model_fields)
    assert {*own.requires, *own.takes, *own.sets} <= whole
    with pytest.raises(ValidationError) as found:
        ClaimTest.classes()[kind].model_validate(
            {"kind": kind} | dict.fromkeys(whole - set(own.keys), 7)
        )
    wrong = {error["loc"][0]: error["type"] for error in found.value.errors()}
    assert wrong == dict.fromkeys(whole - set(own.keys), "extra_forbidden") | dict.fromkeys(
        own.requires, "missing"
    )


def test_order_carries_the_claim_and_readable_numbers():
    found = verdict(order("faster"), a=levels_trace(0.02 * SIX), b=levels_trace(0.2 * SIX))
    assert (found.claim, found.case, found.paper) == ("paper-figure/claim", "", "paper")
    assert (found.source, found.statement, found.question) == ("Figure 1", "It holds.", "paper")
    assert found.evidence == (
        "gradient_norm by 200 rounds: a 0.02, b 0.2; about a tenth of the gradient_norm "
        "(0.1 to 0.1); a factor of 1.05 counts; not tuned"
    )
    assert found.effect is not None
    assert (found.effect.estimate, found.effect.seeds, found.effect.unit) == (1, 6, "decades")


def test_order_on_other_costs_uses_the_common_budget():
    # b spends ten times as much per round: at equal bytes it is a tenth as far.
    a, b = falling_trace(0.8 * SIX), falling_trace(0.7 * SIX, cost_scale=10)
    assert verdict(order("faster"), a=a, b=b).outcome == "contradicted"
    found = verdict(order("faster", cost="bytes"), a=a, b=b)
    assert found.outcome == "reproduced"
    assert "by 2e+05 bytes" in found.evidence


def test_order_does_not_depend_on_how_often_a_run_is_recorded():
    """A run of few records was judged where it stood long before the budget."""
    often = falling_trace(0.8 * SPREAD, records=41)
    seldom = often.isel(record=[0, 15, 40])
    short = falling_trace(0.8 * SPREAD, records=31)
    for pair in ((seldom, short), (short, seldom)):
        found = verdict(order("faster"), a=pair[0], b=pair[1])
        assert found.outcome == "no difference"
        assert found.effect.estimate == pytest.approx(0, abs=1e-9)


def test_order_at_a_stated_cost_and_fragile_where_another_budget_says_otherwise():
    crossing = np.where(np.arange(21) < 10, 0.1, 1e-5)
    a, b = make_trace([crossing] * 6), levels_trace(0.01 * SIX)
    found = verdict(order("faster"), a=a, b=b)
    assert (found.outcome, found.fragile) == ("reproduced", "")
    early = verdict(order("faster", at=50), a=a, b=b)
    assert (early.outcome, early.fragile) == ("contradicted", "")
    assert "by 50 rounds" in early.evidence
    middle = verdict(order("faster", at=130), a=a, b=b)
    assert (middle.outcome, middle.fragile) == ("reproduced", "contradicted at half the budget")
    with pytest.raises(FedatlasError, match=r"at: 500.*200 rounds"):
        verdict(order("faster", at=500), a=a, b=b)


def test_order_for_each_common_step_from_large_to_small():
    a = [levels_trace(level * SPREAD, step=s) for s, level in ((0.1, 1e-3), (0.01, 0.5), (9, 1.0))]
    b = [levels_trace(0.02 * SPREAD, step=s) for s in (0.01, 0.1, 7)]
    found = verdicts(order("faster", for_each="effective_step_size"), a=a, b=b)
    assert [(v.case, v.outcome) for v in found] == [
        ("", "undecided"),  # six seeds contradict one of two, not any of two
        ("effective step 0.1", "reproduced"),
        ("effective step 0.01", "contradicted"),
    ]
    assert found[0].evidence == "2 cases: 1 reproduced, 1 contradicted"
    assert found[0].effect is None


@pytest.mark.parametrize(
    ("test", "steps", "message"),
    [
        ({}, [1], "'a' and 'b' share no effective step size"),
        ({}, [2, 2], "'a' has two points of effective step size 2"),
        ({"kind": "monotone", "run": "a"}, [1], "'a' has one step size"),
    ],
)
def test_steps_that_cannot_be_compared_are_an_error(test, steps, message):
    a = [levels_trace([0.1], step=step, point=str(n)) for n, step in enumerate(steps)]
    declared = test or order("faster", for_each="effective_step_size")
    with pytest.raises(FedatlasError, match=message):
        verdicts(declared, a=a, b=levels_trace([0.1], step=3))


def test_fewer_than_six_seeds_decide_nothing_and_say_what_would():
    found = verdict(order("faster"), a=levels_trace([1e-9] * 5), b=levels_trace([1.0] * 5))
    assert found.outcome == "undecided"
    assert "(0 to ∞)" in found.evidence
    assert found.effect.needed == 6


def test_looks_widen_the_interval():
    a, b = levels_trace(0.5 * SPREAD), levels_trace(SIX)
    assert verdict(order("faster"), a=a, b=b).outcome == "reproduced"
    twice = verdict(order("faster"), a=a, b=b, looks=2)
    assert twice.outcome == "undecided"
    assert twice.effect.needed == 7


@pytest.mark.parametrize(
    ("a", "b", "expected", "evidence"),
    [
        ([NAN] * 6, 0.1 * SPREAD, "contradicted", "gradient_norm (the first has no value)"),
        (0.1 * SPREAD, [NAN] * 6, "reproduced", "gradient_norm (the second has no value)"),
        ([NAN] * 6, [NAN] * 6, "not testable", "every seed diverged"),
        ([1e-3] * 5 + [NAN], [0.1] * 6, "undecided", "a 0.001 (5 of 6 seeds)"),
        # One lost seed vetoes nothing.
        ([1e-3] * 9 + [NAN], [0.1] * 10, "reproduced", "a 0.001 (9 of 10 seeds)"),
        ([0.1] * 10, [1e-3] * 9 + [NAN], "contradicted", "100 times the gradient_norm (100 to 100"),
        ([1e-3] * 6, [0.1] * 4 + [NAN] * 2, "reproduced", "b 0.1 (4 of 6 seeds)"),
    ],
)
def test_lost_seeds_count_as_ranks(a, b, expected, evidence):
    found = verdict(order("faster"), a=levels_trace(a), b=levels_trace(b))
    assert found.outcome == expected
    assert evidence in found.evidence


def test_costs_that_no_two_runs_share_cannot_be_compared():
    a, late = levels_trace(SIX), make_trace([[1.0, 0.1]] * 6, schedule=[300, 400])
    found = verdict(order("faster"), a=a, b=late)
    assert found.outcome == "not testable"
    assert "no cost that all spent" in found.evidence


def test_accuracies_are_compared_by_their_difference():
    a, b = ending_trace(0.90 + NOISE), ending_trace(0.88 - NOISE)
    test = order("faster", measurement="test_accuracy", cost="epoch")
    found = verdict(test, selected_by="objective", a=a, b=b)
    assert found.outcome == "reproduced"
    assert found.effect.unit == "test_accuracy"
    assert "; test_accuracy 0.0" in found.evidence
    assert " higher (" in found.evidence
    small = {**test, "smallest_effect": 0.05}
    assert verdict(small, selected_by="objective", a=a, b=b).outcome == "smaller than claimed"


# --- cost to a target ---


def test_cost_to_a_target():
    fast, slow = falling_trace([0.1] * 6), falling_trace([0.5] * 6)
    found = verdict(to_target("much_faster", 0.1), a=fast, b=slow)
    assert found.outcome == "reproduced"
    # 0.5 to the 3.32 is 0.1.
    assert found.evidence.startswith(
        "rounds to gradient_norm ≤ 0.1: a 10, b 33.2; 0.301 times the rounds (0.301 to 0.301)"
    )
    assert verdict(to_target("faster", 0.1), a=slow, b=fast).outcome == "contradicted"


@pytest.mark.parametrize("every", [5, 10])
def test_uneven_records_win_nothing(every):
    """Identical runs, one recorded rarely: the cost of its records is no cost of the method."""
    often = falling_trace(0.93 * SPREAD**0.2, records=101)
    seldom = often.isel(record=slice(0, None, every))
    for pair in ((often, seldom), (seldom, often)):
        found = verdict(to_target("faster", 0.05), a=pair[0], b=pair[1])
        assert found.outcome in {"no difference", "not testable"}


def test_what_records_are_too_far_apart_to_tell_is_not_told():
    a = make_trace([[1.0, 0.01]] * 6, schedule=[0, 100])
    b = make_trace([[1.0, 0.02]] * 6, schedule=[0, 100])
    found = verdict(to_target("faster", 0.1), a=a, b=b)
    assert found.outcome == "not testable"
    assert "; below resolution: records are too far apart to tell" in found.evidence


def test_a_verdict_that_hangs_on_the_target_is_fragile():
    a = make_trace([10.0 ** -np.minimum(np.arange(41) / 8, 2)] * 6)
    b = make_trace([10.0 ** -(np.arange(41) / 16)] * 6)
    found = verdict(to_target("faster", 0.02), a=a, b=b)
    assert found.outcome == "reproduced"
    assert found.fragile == "contradicted at a third of the target"


def test_a_run_that_ended_too_early_may_have_arrived_in_time():
    """It reached nothing by its end, and may still be the faster one."""
    short = falling_trace([0.9] * 6, records=6)
    long = falling_trace([0.97] * 6, records=101)
    for pair in ((short, long), (long, short)):
        found = verdict(to_target("faster", 0.2), a=pair[0], b=pair[1])
        assert found.outcome == "not testable"
        assert "end too early" in found.evidence
    # Whoever has not arrived by four times the other's cost is slower.
    slow = falling_trace([0.999] * 6, records=101)
    fast = falling_trace([0.9] * 6, records=26)
    assert verdict(to_target("faster", 0.2), a=fast, b=slow).outcome == "reproduced"


def test_seeds_are_paired_by_name():
    a, b = levels_trace(0.5 * SPREAD), levels_trace(SPREAD)
    other = b.assign_coords(seed=b["seed"] + 10)
    with pytest.raises(FedatlasError, match=r"are no pairs: compare equal seeds"):
        verdict(order("faster"), a=a, b=other)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([NAN] * 6, 0.01 * SPREAD, "contradicted"),
        (0.01 * SPREAD, [NAN] * 6, "reproduced"),
        ([NAN] * 6, [NAN] * 6, "not testable"),
        ([NAN] * 5 + [0.01], [0.01] + [NAN] * 5, "undecided"),
    ],
)
def test_a_diverged_run_reaches_no_target(a, b, expected):
    found = verdict(to_target("at_least_as_fast", 0.05), a=levels_trace(a), b=levels_trace(b))
    assert found.outcome == expected


def test_a_start_that_meets_the_target_tells_nothing():
    a = levels_trace(SIX)
    found = verdict(to_target("faster", 2.0), a=a, b=a)
    assert (found.outcome, found.evidence) == (
        "not testable",
        "rounds to gradient_norm ≤ 2: a starts there; not tuned",
    )


def test_targets_of_what_is_best_at_one_are_in_its_own_units():
    slow = auroc_trace([1 - 0.5 * 0.9 ** np.arange(41)] * 6)
    fast = auroc_trace([1 - 0.5 * 0.8 ** np.arange(41)] * 6)
    test = to_target("much_faster", 0.93, measurement="test_auroc")
    found = verdict(test, selected_by="train_auroc", a=fast, b=slow)
    # ln(0.14) over ln(0.8) and ln(0.9) records, of ten rounds each.
    assert found.evidence.startswith("rounds to test_auroc ≥ 0.93: a 88.1, b 187; 0.472 times")
    assert found.outcome == "reproduced"


# --- where runs end ---


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (0.0, "reproduced"),
        (-0.002, "reproduced"),
        (0.005, "undecided"),
        (-0.005, "undecided"),
        (0.01, "contradicted"),
        (-0.01, "contradicted"),
    ],
)
@pytest.mark.parametrize("measurement", ["test_accuracy", "test_rmse"])
def test_equal_final_is_equivalence_within_the_smallest_effect(measurement, gap, expected):
    a, b = (
        ending_trace(0.8 + gap + NOISE, measurement),
        ending_trace(0.8 + NOISE[::-1], measurement),
    )
    test = final("equal_final", measurement, smallest_effect=0.005)
    assert verdict(test, selected_by="objective", a=a, b=b).outcome == expected


@pytest.mark.parametrize(
    ("measurement", "a", "b", "expected"),
    [
        ("test_accuracy", 0.9, 0.8, "reproduced"),
        ("test_accuracy", 0.8, 0.9, "contradicted"),
        ("test_accuracy", 0.8, 0.8, "no difference"),
        ("test_rmse", 0.1, 0.2, "reproduced"),
        ("test_rmse", 0.2, 0.1, "contradicted"),
    ],
)
def test_better_final_knows_which_direction_is_better(measurement, a, b, expected):
    runs = {"a": ending_trace(a * SIX, measurement), "b": ending_trace(b * SIX, measurement)}
    assert (
        verdict(final("better_final", measurement), selected_by="objective", **runs).outcome
        == expected
    )


def test_a_lead_below_what_the_paper_prints_is_smaller_than_claimed():
    """What FMGDA printed: a lead of 0.0013; with differences below 0.0001 it is excluded."""
    a, b = ending_trace(0.9301 + 0.01 * NOISE), ending_trace(0.93 - 0.01 * NOISE)
    test = final("better_final", smallest_effect=0.0005, published_effect=0.0013)
    found = verdict(test, selected_by="objective", a=a, b=b)
    assert found.outcome == "smaller than claimed"
    a = ending_trace(0.93 - 0.01 * NOISE)
    assert verdict(test, selected_by="objective", a=a, b=b).outcome == "no difference"


def test_test_rows_are_said_to_be_these_or_widen_the_interval():
    """Twenty per cent drawn anew by every seed overlap; rows that never change are these rows."""
    a, b = ending_trace(0.9 + NOISE), ending_trace(0.885 - NOISE)
    fixed = verdict(final("better_final"), selected_by="objective", a=a, b=b)
    assert "; for these test rows" in fixed.evidence
    anew = {"test": 0.2, "seed": None}
    a, b = (ending_trace(0.9 + NOISE, split=anew), ending_trace(0.885 - NOISE, split=anew))
    resampled = verdict(final("better_final"), selected_by="objective", a=a, b=b)
    assert "these test rows" not in resampled.evidence
    assert resampled.effect.low < fixed.effect.low
    assert resampled.effect.high > fixed.effect.high


def test_a_level_below_what_is_known_is_told_as_a_bound():
    a, b = (vertical_trace(np.outer(SIX, [0.3, end])) for end in (-1e-13, 1e-3))
    found = verdict(final("better_final", "suboptimality"), a=a, b=b)
    assert found.evidence.startswith("suboptimality at the end: a ≤ 1e-10, b 0.001;")
    a, b = (make_trace(np.outer(SIX, [0.3, end])) for end in (0.0, 1e-3))
    found = verdict(final("better_final", "gradient_norm"), a=a, b=b)
    assert "a ≤ 2.22e-16, b 0.001;" in found.evidence
    # Costs that are small are no such levels.
    cheap = vertical_trace(np.array([[1.0, 0.1]] * 6), epochs=1e-11)
    dear = vertical_trace(np.array([[1.0, 0.1]] * 6), epochs=1e-8)
    asked = to_target("faster", 0.2, measurement="suboptimality", cost="update_epoch")
    assert "≤" not in verdict(asked, a=cheap, b=dear).evidence.partition(":")[2]


def test_fragile_ends():
    values = np.linspace(0.5, 0.9, 41)
    late = np.where(np.arange(41) < 30, 0.5, 0.95)
    falling = np.tile(np.linspace(0.3, 0.01, 41), (6, 1))
    a = vertical_trace(falling, test_accuracy=np.tile(late, (6, 1)))
    b = vertical_trace(falling, test_accuracy=np.tile(values, (6, 1)))
    found = verdict(final("better_final"), selected_by="objective", a=a, b=b)
    assert found.outcome == "reproduced"
    assert found.fragile == "contradicted at half the budget"


def test_a_claim_about_what_a_run_lacks_says_what_it_has():
    lacking = auroc_trace([[0.5, 0.9]] * 6)
    with pytest.raises(FedatlasError, match=r"run 'first' has no 'gradient_norm'.*test_auroc"):
        verdict(order("faster"), selected_by="train_auroc", a=lacking, b=lacking)


# --- monotone ---

MONOTONE = {"kind": "monotone", "run": "a"}


def test_monotone_judges_each_step_against_the_next_smaller():
    steps = [(0.3, 1e-2), (0.1, 1e-3), (0.03, 1e-1)]
    found = outcomes(MONOTONE, a=[levels_trace(level * SPREAD, step=s) for s, level in steps])
    assert found == {
        "": "undecided",  # likewise
        "step 0.1 against 0.03": "reproduced",
        "step 0.3 against 0.1": "contradicted",
    }


def test_equal_steps_are_not_faster():
    """It used to be tested whether a larger step is at least as fast."""
    a = [levels_trace(0.01 * SPREAD, step=step) for step in (0.1, 0.2)]
    assert verdict(MONOTONE, a=a).outcome == "no difference"


def test_monotone_leaves_out_a_step_that_does_not_converge_and_bridges_it():
    steps = [(0.01, 0.1), (0.1, 2.0), (1.0, 0.01), (10.0, NAN)]
    found = verdicts(MONOTONE, a=[levels_trace(level * SPREAD, step=s) for s, level in steps])
    assert [(v.case, v.outcome) for v in found] == [
        ("", "reproduced"),
        ("step 0.1", "not testable"),
        ("step 1 against 0.01", "reproduced"),
        ("step 10", "not testable"),
    ]
    assert found[1].evidence == (
        "gradient_norm by 200 rounds: step 0.1 none (0 of 6 seeds), 1 at the start; it does not "
        "converge, which the claim excepts"
    )


def test_a_share_of_the_cost_is_judged_as_that_cost():
    """The first is ahead for the first half only."""
    ahead = np.where(np.arange(41) < 20, 0.1, 1.0)
    a = make_trace(SPREAD[:, None] * ahead)
    b = make_trace(SPREAD[:, None] * np.full(41, 0.3))
    assert verdict(order("faster", share=0.4), a=a, b=b).outcome == "reproduced"
    whole = verdict(order("faster"), a=a, b=b)
    assert whole.outcome == "contradicted"
    by_share, by_cost = (
        verdict(order("faster", **at), a=a, b=b) for at in ({"share": 0.25}, {"at": 100})
    )
    assert by_share.effect == by_cost.effect


def test_a_target_that_is_passed_by_chance_is_not_kept():
    """One record below the target, and back: only what stays counts."""
    values = np.repeat(SPREAD[:, None], 21, 1)
    early, late = values.copy(), values.copy()
    early[:, 3] = 0.1
    early[:, 15:] = 0.1
    late[:, 8:] = 0.1
    runs = {"a": make_trace(early), "b": make_trace(late)}
    assert verdict(to_target("faster", 0.3), **runs).outcome == "reproduced"
    kept = verdict(to_target("faster", 0.3, stays=True), **runs)
    assert kept.outcome == "contradicted"
    assert "for good" in kept.evidence


@pytest.mark.parametrize(
    ("end", "expected"),
    [(0.4, "reproduced"), (0.999, "smaller than claimed"), (1.5, "contradicted")],
)
def test_a_run_falls_by_a_factor_or_does_not(end, expected):
    test = {"kind": "falls", "run": "a", "measurement": "objective", "smallest_effect": 1.11}
    trace = levels_trace(np.sqrt(end) * np.ones(6))
    assert verdict(test, a=trace).outcome == expected
    assert "at the start" in verdict(test, a=trace).evidence
