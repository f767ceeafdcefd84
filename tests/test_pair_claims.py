"""Claims that compare two runs: each way they can come out, and what the evidence says."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.evaluation.verdicts import judge
from fedatlas.pages.claim_rows import claim_rows
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


def spends(**more: Any) -> dict[str, Any]:
    """As many rounds of `a` take fewer bytes than those of `b`."""
    names = {"kind": "spends", "first": "a", "second": "b"}
    return {**names, "relation": "faster", "cost": "bytes", **more}


def final(kind: str, measurement: str = "test_accuracy", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "first": "a", "second": "b", "measurement": measurement, **more}


# --- order at equal cost ---


# First behind along nearly all rounds, then far ahead.
BEHIND = {
    "a": make_trace(np.outer(SPREAD, [1.0] + [0.9] * 36 + [1e-3] * 4)),
    "b": make_trace(np.outer(SPREAD[::-1], [1.0] + [0.3] * 40)),
}
#: One record of the first is below the target, and then it is back.
BACK = {
    "a": make_trace(np.outer(SPREAD, [1.0] * 3 + [0.1] + [1.0] * 11 + [0.1] * 6)),
    "b": make_trace(np.outer(SPREAD, [1.0] * 8 + [0.1] * 13)),
}


def levels(a: Any, b: Any) -> dict[str, Any]:
    return {"a": levels_trace(a), "b": levels_trace(b)}


def ends(a: Any, b: Any, measurement: str = "test_accuracy") -> dict[str, Any]:
    return {"a": ending_trace(a, measurement), "b": ending_trace(b, measurement)}


def spent(a: float, b: float) -> dict[str, Any]:
    """Runs that are recorded at the start and at the end only, and their bytes."""
    pair = (("a", a), ("b", b))
    return {x: levels_trace(SIX, records=2, schedule=[0, 200], cost_scale=y) for x, y in pair}


def falling(a: float, b: float) -> dict[str, Any]:
    return {"a": falling_trace([a] * 6), "b": falling_trace([b] * 6)}


def ratio(middle: float) -> dict[str, Any]:
    # The other way round, so that the ratio varies from seed to seed about the given one.
    return levels(0.01 * middle * SPREAD, 0.01 * SPREAD[::-1])


ACCURACY = order("faster", measurement="test_accuracy", cost="epoch")
FASTER, NOT_SLOWER = order("faster"), to_target("at_least_as_fast", 0.05)
RMSE = final("better_final", "test_rmse")
#: What FMGDA printed: a lead of 0.0013; with differences below 0.0001 it is excluded.
PRINTED = final("better_final", smallest_effect=0.0005, published_effect=0.0013)
#: By relation: the outcome of a ratio of levels.
RELATED = {
    "faster": {0.5: "reproduced", 0.97: "undecided", 2.0: "contradicted"},
    "at_least_as_fast": {0.9: "reproduced", 1.0: "undecided", 1.5: "contradicted"},
    "much_faster": {
        0.3: "reproduced", 0.5: "undecided", 0.8: "smaller than claimed", 1.0: "undecided",
        1.5: "contradicted", 2.5: "contradicted",
    },
    "similar": {
        1.0: "undecided", 1.5: "contradicted", 1 / 1.5: "contradicted",
    },
}  # fmt: skip
FALLS = {"kind": "falls", "run": "a", "measurement": "objective", "smallest_effect": 1.11}

DIVERGES = FALLS | {"kind": "diverges"}


@pytest.mark.parametrize(
    ("test", "runs", "outcome", "evidence"),
    [
        *(
            (order(relation), ratio(ratio_of), outcome, "")
            for relation, outcomes in RELATED.items()
            for ratio_of, outcome in outcomes.items()
        ),
        (order("faster", window=0.1), BEHIND, "reproduced", ""),
        (order("faster", window=1), BEHIND, "contradicted", ""),
        # Fewer than six seeds decide nothing.
        (FASTER, levels([1e-9] * 5, [1.0] * 5), "undecided", "(0 to ∞)"),
        # Lost seeds count as ranks; one vetoes nothing.
        (FASTER, levels([NAN] * 6, 0.1 * SPREAD), "contradicted", "(the first has no value)"),
        (FASTER, levels(0.1 * SPREAD, [NAN] * 6), "reproduced", "(the second has no value)"),
        (FASTER, levels([NAN] * 6, [NAN] * 6), "not testable", "every seed diverged"),
        (FASTER, levels([1e-3] * 5 + [NAN], [0.1] * 6), "undecided", "a 0.001 (5 of 6 seeds)"),
        (FASTER, levels([1e-3] * 9 + [NAN], [0.1] * 10), "reproduced", "a 0.001 (9 of 10 seeds)"),
        (FASTER, levels([0.1] * 10, [1e-3] * 9 + [NAN]), "contradicted",
         "100 times the gradient_norm (100 to 100"),
        (FASTER, levels([1e-3] * 6, [0.1] * 4 + [NAN] * 2), "reproduced", "b 0.1 (4 of 6 seeds)"),
        (FASTER, {"a": levels_trace(SIX), "b": make_trace([[1.0, 0.1]] * 6, schedule=[300, 400])},
         "not testable", "no cost that all spent"),
        # Accuracies are compared by their difference.
        (ACCURACY, ends(0.90 + NOISE, 0.88 - NOISE), "reproduced", " higher ("),
        (ACCURACY | {"smallest_effect": 0.05}, ends(0.90 + NOISE, 0.88 - NOISE),
         "smaller than claimed", "; test_accuracy 0.0"),
        # 0.5 to the 3.32 is 0.1.
        (to_target("much_faster", 0.1), falling(0.1, 0.5), "reproduced",
         "rounds to gradient_norm ≤ 0.1: a 10, b 33.2; 0.301 times the rounds (0.301 to 0.301)"),
        (to_target("faster", 0.1), falling(0.5, 0.1), "contradicted", ""),
        # ln(0.14) over ln(0.8) and ln(0.9) records, of ten rounds each.
        (to_target("much_faster", 0.93, measurement="test_auroc"),
         {x: auroc_trace([1 - 0.5 * r ** np.arange(41)] * 6) for x, r in (("a", 0.8), ("b", 0.9))},
         "reproduced", "rounds to test_auroc ≥ 0.93: a 88.1, b 187; 0.472 times"),
        (to_target("faster", 0.1),
         {x: make_trace([[1, y]] * 6, schedule=[0, 100]) for x, y in (("a", 0.01), ("b", 0.02))},
         "not testable", "; below resolution: records are too far apart to tell"),
        (to_target("faster", 2.0), levels(SIX, SIX), "not testable",
         "rounds to gradient_norm ≤ 2: a starts there; not tuned"),
        # A diverged run reaches no target.
        (NOT_SLOWER, levels([NAN] * 6, 0.01 * SPREAD), "contradicted", ""),
        (NOT_SLOWER, levels(0.01 * SPREAD, [NAN] * 6), "reproduced", ""),
        (NOT_SLOWER, levels([NAN] * 6, [NAN] * 6), "not testable", ""),
        (NOT_SLOWER, levels([NAN] * 3 + [0.01] * 3, [0.01] + [NAN] * 5), "undecided", ""),
        # What most seeds do not reach, more seeds do not tell.
        (NOT_SLOWER, levels([NAN] * 5 + [0.01], [0.01] + [NAN] * 5), "not testable",
         "rounds to gradient_norm ≤ 0.05: under most seeds neither run arrives; at best a none"),
        (to_target("faster", 0.99, measurement="test_accuracy", cost="update_epoch"),
         ends(0.75 * SIX, [0.5] * 3 + [0.7] * 3), "not testable",
         "test_accuracy ≥ 0.99: neither run arrives; at best a 0.75, b 0.6127; not tuned"),
        # 200 rounds of 1,000 bytes, however rarely they are recorded.
        (spends(), spent(1.0, 1.2), "reproduced", "bytes of 200 rounds: a 2e+05, b 2.4e+05;"),
        (spends(smallest_effect=1.5), spent(1.0, 1.2), "smaller than claimed", ""),
        (spends(), spent(1.2, 1.0), "contradicted", ""),
        # A target that is passed by chance is not kept.
        (to_target("faster", 0.3), BACK, "reproduced", ""),
        (to_target("faster", 0.3, stays=True), BACK, "contradicted", "for good"),
        (final("better_final"), ends(0.9 * SIX, 0.8 * SIX), "reproduced", ""),
        (final("better_final"), ends(0.8 * SIX, 0.9 * SIX), "contradicted", ""),
        (final("better_final"), ends(0.8 * SIX, 0.8 * SIX), "no difference", ""),
        (RMSE, ends(0.1 * SIX, 0.2 * SIX, "test_rmse"), "reproduced", ""),
        (RMSE, ends(0.2 * SIX, 0.1 * SIX, "test_rmse"), "contradicted", ""),
        (PRINTED, ends(0.9301 + 0.01 * NOISE, 0.93 - 0.01 * NOISE), "smaller than claimed", ""),
        (PRINTED, ends(0.93 - 0.01 * NOISE, 0.93 - 0.01 * NOISE), "no difference", ""),
        (FALLS, {"a": levels_trace(np.sqrt(0.4) * SIX)}, "reproduced", "at the start"),
        (FALLS, {"a": levels_trace(np.sqrt(0.999) * SIX)}, "smaller than claimed", ""),
        (FALLS, {"a": levels_trace(np.sqrt(1.5) * SIX)}, "contradicted", "at the start"),
        (DIVERGES, {"a": levels_trace(np.sqrt(1.5) * SIX)}, "reproduced", "at the start"),
        (DIVERGES, {"a": levels_trace([NAN] * 6)}, "reproduced", ""),
        (DIVERGES, {"a": levels_trace(np.sqrt(0.4) * SIX)}, "contradicted", "a at the end 0.4"),
        (DIVERGES, {"a": levels_trace(np.sqrt([1.5] * 3 + [0.4] * 3))}, "undecided", ""),
    ],
)  # fmt: skip
def test_a_quantity_of_two_runs(test, runs, outcome, evidence):
    found = verdict(test, selected_by="objective", **runs)
    assert found.outcome == outcome
    assert evidence in found.evidence


@given(st.floats(60, 200), st.floats(1.1, 2), st.integers(20, 80))
def test_records_as_close_as_is_said_do_tell(arrives, slower, every):
    """Exponential curves, which straight lines of levels join."""

    def recorded(every):
        rounds = np.arange(0, 801, every)
        curves = {"a": arrives, "b": slower * arrives}
        runs = {
            x: make_trace([10.0 ** (-rounds / at)] * 6, schedule=rounds) for x, at in curves.items()
        }
        return verdict(to_target("faster", 0.1), **runs)

    found = recorded(every)
    if found.outcome == "not testable":
        closer = int(re.search(r"between; record_every: (\d+) would tell", found.evidence)[1])
        assert closer < every and recorded(closer).outcome == "reproduced"
    else:
        assert found.outcome == "reproduced"


def exponentials(a: Any, b: Any, rounds: int) -> dict[str, Any]:
    """Curves that reach 0.1 at these rounds, (seeds,), with a record of every round."""
    along = np.arange(rounds + 1)
    curves = {"a": np.asarray(a), "b": np.asarray(b)}
    return {
        x: make_trace(10.0 ** (-along / at[:, None]), schedule=along) for x, at in curves.items()
    }


def test_what_would_tell_is_said_by_what_is_missing_and_is_true():
    def said(runs, target=0.1, relation="faster"):
        found = verdict(to_target(relation, target), **runs)
        if found.outcome != "not testable":
            return found.outcome
        assert f"; {found.why}; not tuned" in found.evidence
        return found.why.removeprefix("below resolution: ")

    coarse = exponentials(2.5 * SIX, 3.5 * SIX, 40)
    assert said(coarse) == (
        "a record of every round is too coarse to tell; a harder target, which is reached later, "
        "may tell"
    )
    assert said(coarse, 1e-6) == "reproduced"
    ends_early = {
        **exponentials(900 * SIX, 30 * SIX, 31), "b": exponentials(SIX, 30 * SIX, 40)["b"]
    }  # fmt: skip
    assert said(ends_early, relation="at_least_as_fast") == (
        "runs end too early to tell; more rounds may tell"
    )
    longer = exponentials(900 * SIX, 30 * SIX, 40)
    assert said(longer, relation="at_least_as_fast") == "contradicted"
    # One seed of six is near the border, but not the typical one.
    late = 20.5 * SPREAD
    ratios = np.array([1.07, 1.4, 1.5, 1.4, 1.5, 1.4])
    few = exponentials(late, late * ratios, 60)
    assert said(few).endswith(
        "a harder target, which is reached later, may tell, and so may more seeds"
    )
    more = np.repeat(late, 2) + np.arange(12) / 100
    ratios = np.repeat(ratios, 2) * np.array([1, 1.2] * 6)
    assert said(exponentials(more, more * ratios, 80)) == "reproduced"


def test_records_tell_beside_the_papers_own_lead():
    """Surely ahead, and not surely by less than the paper prints."""
    ratios = np.array([1.25, 1.3, 1.35, 1.38, 1.4, 1.45])
    runs = exponentials(400 * SPREAD, 400 * SPREAD * ratios, 700)
    assert verdict(to_target("faster", 0.1, published_effect=1.5), **runs).outcome == "reproduced"


def test_verdicts_that_hang_on_the_target_or_the_budget_are_fragile():
    a = make_trace([10.0 ** -np.minimum(np.arange(41) / 8, 2)] * 6)
    b = make_trace([10.0 ** -(np.arange(41) / 16)] * 6)
    found = verdict(to_target("faster", 0.02), a=a, b=b)
    assert (found.outcome, found.fragile) == ("reproduced", "contradicted at a third of the target")
    late = np.where(np.arange(41) < 30, 0.5, 0.95)
    a, b = (
        vertical_trace([np.linspace(0.3, 0.01, 41)] * 6, test_accuracy=[values] * 6)
        for values in (late, np.linspace(0.5, 0.9, 41))
    )
    found = verdict(final("better_final"), selected_by="objective", a=a, b=b)
    # 0.71 of 40 rounds is before the 30th, from which on a is ahead.
    told = "contradicted at half the budget, contradicted at 0.71 of the budget"
    assert (found.outcome, found.fragile) == ("reproduced", told)


def test_several_claims_are_judged_in_order():
    traces = {"a": {"p": levels_trace(0.01 * SPREAD)}, "b": {"p": levels_trace(0.1 * SPREAD)}}
    claims = [
        Claim.model_validate({"id": name, "source": "s", "statement": "t", "test": test})
        for name, test in (("one", order("faster")), ("two", to_target("faster", 0.5)))
    ]
    results = Results(traces, choices(select(traces, Selection())))
    assert [found.claim for found in judge("e", "p", claims, results)] == ["e/one", "e/two"]
    assert judge("e", "p", [], results) == []


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


def test_what_runs_spend_is_compared_over_as_many_rounds():
    runs = {x: levels_trace(SIX, records=n, run=x) for x, n in (("a", 3), ("b", 2))}
    with pytest.raises(FedatlasError, match="over as many rounds; a has 20, b has 10"):
        verdict(spends(), **runs)


def test_order_carries_the_claim_and_readable_numbers():
    found = verdict(order("faster"), a=levels_trace(0.02 * SIX), b=levels_trace(0.2 * SIX))
    assert (found.claim, found.case, found.paper) == ("paper-figure/claim", "", "paper")
    assert (found.source, found.statement, found.question) == ("Figure 1", "It holds.", "ours")
    assert found.evidence == (
        "gradient_norm from 180 to 200 rounds: a 0.02, b 0.2; about a tenth of the gradient_norm "
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
    assert "from 1.8e+05 to 2e+05 bytes" in found.evidence


def test_order_at_a_stated_cost_and_fragile_where_another_budget_says_otherwise():
    crossing = np.where(np.arange(21) < 10, 0.1, 1e-5)
    a, b = make_trace([crossing] * 6), levels_trace(0.01 * SIX)
    found = verdict(order("faster"), a=a, b=b)
    assert (found.outcome, found.fragile) == ("reproduced", "")
    early = verdict(order("faster", at=50), a=a, b=b)
    assert (early.outcome, early.fragile) == ("contradicted", "")
    assert "from 45 to 50 rounds" in early.evidence
    middle = verdict(order("faster", at=130), a=a, b=b)
    told = "contradicted at half the budget, contradicted at 0.71 of the budget"
    assert (middle.outcome, middle.fragile) == ("reproduced", told)
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


def test_seeds_that_were_added_widen_the_interval():
    a, b = levels_trace(0.5 * SPREAD), levels_trace(SIX)
    assert verdict(order("faster"), a=a, b=b).outcome == "reproduced"
    added = verdict(order("faster"), a=a, b=b, seeds_added=True)
    assert added.outcome == "undecided"
    assert added.effect.needed == 7
    seven = [levels_trace(np.linspace(level, 1.1 * level, 7)) for level in (0.5, 1.0)]
    decided = verdict(order("faster"), a=seven[0], b=seven[1], seeds_added=True)
    assert decided.outcome == "reproduced"
    assert "holds whenever seeds stop being added" in decided.evidence
    few = verdict(order("faster"), a=levels_trace([1e-9] * 5), b=levels_trace([1.0] * 5))
    assert (few.outcome, few.effect.needed) == ("undecided", 7)


# --- cost to a target ---


@pytest.mark.parametrize("every", [5, 10])
def test_uneven_records_win_nothing(every):
    """Identical runs, one recorded rarely: the cost of its records is no cost of the method."""
    often = falling_trace(0.93 * SPREAD**0.2, records=101)
    seldom = often.isel(record=slice(0, None, every))
    for pair in ((often, seldom), (seldom, often)):
        found = verdict(to_target("faster", 0.05), a=pair[0], b=pair[1])
        assert found.outcome in {"no difference", "not testable"}


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


def test_runs_that_are_the_same_do_not_differ_however_far_apart_records_are():
    a, b = (levels_trace(0.01 * SPREAD, records=4, schedule=[0, 50, 100, 200]) for _ in "ab")
    found = verdict(to_target("faster", 0.05), a=a, b=b)
    assert found.outcome == "no difference"
    assert "; both runs are the same at every record" in found.evidence


def test_costs_that_no_seed_changes_are_one_observation():
    pair = (("a", 1.0), ("b", 1.2))
    runs = {x: levels_trace(0.01 * SPREAD, records=2, cost_scale=y) for x, y in pair}
    found = verdict(spends(), **runs)
    assert found.outcome == "reproduced"
    assert (found.effect.seeds, found.effect.repeats) == (1, 5)
    assert found.effect.p is None and "all 6 seeds coincide: one observation" in found.evidence


def test_a_level_below_what_is_known_is_told_as_a_bound():
    a, b = (vertical_trace(np.outer(SIX, [0.3, end])) for end in (-1e-13, 1e-3))
    found = verdict(final("better_final", "suboptimality"), a=a, b=b)
    assert found.evidence.startswith(
        "suboptimality at the end: a ≤ 1e-10, b 0.001; at most 1e-07 times the suboptimality ("
    )
    assert claim_rows([found])[0].effect.startswith("at most 1e-07 times (")
    found = verdict(final("better_final", "suboptimality"), a=b, b=a)
    assert "; at least 1e+07 times the suboptimality (" in found.evidence
    mixed = vertical_trace(np.array([[0.3, 0.0]] + [[0.3, 1e-4]] * 5))
    found = verdict(final("better_final", "suboptimality"), a=a, b=mixed)
    assert "; about 1e-06 times the suboptimality (" in found.evidence
    a, b = (make_trace(np.outer(SIX, [0.3, end])) for end in (0.0, 1e-3))
    found = verdict(final("better_final", "gradient_norm"), a=a, b=b)
    assert "a ≤ 2.22e-16, b 0.001;" in found.evidence
    # Where both lie there, nobody knows their ratio.
    a, b = (vertical_trace(np.outer(SIX, [0.3, end, end])) for end in (-1e-13, 1e-11))
    asked = {"kind": "order", "first": "a", "second": "b", "relation": "faster", "window": 0.1}
    asked |= {"cost": "update_epoch", "measurement": "suboptimality"}
    found = verdict(asked, a=a, b=b)
    assert found.outcome == "not testable"
    assert "both runs have arrived at 1e-10" in found.evidence
    # Costs that are small are no such levels.
    cheap = vertical_trace(np.array([[1.0, 0.1]] * 6), epochs=1e-11)
    dear = vertical_trace(np.array([[1.0, 0.1]] * 6), epochs=1e-8)
    asked = to_target("faster", 0.2, measurement="suboptimality", cost="update_epoch")
    assert "≤" not in verdict(asked, a=cheap, b=dear).evidence.partition(":")[2]


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
        ("step 0.1", "not covered"),
        ("step 1 against 0.01", "reproduced"),
        ("step 10", "not covered"),
    ]
    assert found[1].evidence == (
        "gradient_norm from 180 to 200 rounds: step 0.1 none (0 of 6 seeds), 1 at the start; it "
        "does not converge, which the claim excepts"
    )


def test_a_larger_step_may_be_faster_to_a_level_though_it_ends_higher():
    """Its noise floor is not its speed."""
    curves = {0.3: [1.0, 0.1, 0.01] + [0.01] * 38, 0.1: 10.0 ** -np.linspace(0, 3, 41)}
    a = [make_trace(np.outer(SPREAD, curve), step=step) for step, curve in curves.items()]
    assert verdict(MONOTONE, a=a).outcome == "contradicted"
    test = {"kind": "monotone_to_target", "run": "a", "target": 0.05}
    found = verdict(test, a=a)
    assert found.outcome == "reproduced"
    assert found.evidence.startswith("step 0.3 against 0.1: rounds to gradient_norm ≤ 0.05: step")
    assert found.horizon.startswith("target: ")
    # Below its floor it never arrives.
    assert verdict(test | {"target": 0.005}, a=a).outcome == "contradicted"


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
