"""Verdicts: every kind of test, each way it can come out, and what the evidence says."""

import json
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.cost_to_target import CostToTargetTest
from fedatlas.evaluation.claims.order import OrderTest
from fedatlas.evaluation.claims.scaling import ScalingTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.evaluation.verdicts import Verdict, judge
from fedatlas.schema.claims import Claim, ClaimTest
from fedatlas.schema.selection import Selection
from trace_factory import auroc_trace, falling_trace, levels_trace, make_trace, vertical_trace

NAN = np.nan
SPREAD = np.array([0.9, 0.95, 1.0, 1.05, 1.1])  # five seeds, a few per cent apart


def verdicts(
    test: dict[str, Any], *, selected_by: str = "gradient_norm", **runs: Any
) -> list[Verdict]:
    """Judge one claim; a run is one trace or a list of traces, one per step size."""
    traces = {
        name: {
            trace.attrs["point"]: trace for trace in (given if isinstance(given, list) else [given])
        }
        for name, given in runs.items()
    }
    rule = Selection(measurement=selected_by)
    claim = Claim(
        id="claim",
        source="Figure 1",
        statement="It holds.",
        test=TypeAdapter(ClaimTest).validate_python(test),
    )
    results = Results(traces, choices(select(traces, rule)), rule.window)
    return judge("paper-figure", "paper", [claim], results)


def verdict(test: dict[str, Any], **runs: Any) -> Verdict:
    (only,) = verdicts(test, **runs)
    return only


def order(relation: str, **more: Any) -> dict[str, Any]:
    return {"kind": "order", "first": "a", "second": "b", "relation": relation, **more}


def to_target(relation: str, **more: Any) -> dict[str, Any]:
    return {"kind": "cost_to_target", "first": "a", "second": "b", "relation": relation, **more}


# --- order at equal cost ---


@pytest.mark.parametrize(
    ("relation", "ratio", "expected"),
    [
        ("faster", 0.5, "reproduced"),
        ("faster", 0.97, "inconclusive"),
        ("faster", 2.0, "not reproduced"),
        ("at_least_as_fast", 0.9, "reproduced"),
        ("at_least_as_fast", 1.1, "inconclusive"),
        ("at_least_as_fast", 1.5, "not reproduced"),
        ("much_faster", 0.3, "reproduced"),
        ("much_faster", 0.5, "inconclusive"),
        ("much_faster", 0.8, "not reproduced"),
        ("similar", 1.0, "reproduced"),
        ("similar", 1.5, "inconclusive"),
        ("similar", 1 / 1.5, "inconclusive"),
        ("similar", 2.0, "not reproduced"),
        ("similar", 0.4, "not reproduced"),
    ],
)
def test_order_by_relation(relation, ratio, expected):
    # The other way round, so that the ratio varies from seed to seed about the given one.
    a, b = levels_trace(0.01 * ratio * SPREAD), levels_trace(0.01 * SPREAD[::-1])
    assert verdict(order(relation), a=a, b=b).verdict == expected


def test_order_carries_the_claim_and_readable_numbers():
    found = verdict(order("faster"), a=levels_trace([0.01, 0.04]), b=levels_trace([0.2, 0.2]))
    assert (found.claim, found.paper) == ("paper-figure/claim", "paper")
    assert (found.source, found.statement) == ("Figure 1", "It holds.")
    assert found.evidence.startswith("gradient_norm by 200 rounds: a 0.02, b 0.2; ratio 0.1 (95 % ")
    assert found.evidence.endswith(", claimed below 1")
    # One far seed moves a mean, not a median: all numbers must be of the same kind.
    a, b = levels_trace([1e-6, 0.01, 0.01, 0.01, 0.01]), levels_trace([0.01] * 5)
    assert "a 0.00158, b 0.01; ratio 0.158" in verdict(order("faster"), a=a, b=b).evidence
    assert verdict(order("similar"), a=a, b=b).evidence.endswith("claimed 0.67 to 1.5")


def test_order_on_other_costs_uses_the_common_budget():
    # b spends ten times as much per round: at equal bytes it is a tenth as far.
    a, b = falling_trace([0.80, 0.81]), falling_trace([0.70, 0.71], cost_scale=10)
    assert verdict(order("faster"), a=a, b=b).verdict == "not reproduced"
    found = verdict(order("faster", cost="bytes"), a=a, b=b)
    assert found.verdict == "reproduced"
    assert "by 2e+05 bytes" in found.evidence
    assert "epochs" in verdict(order("faster", cost="epoch"), a=a, b=b).evidence
    assert "gradients" in verdict(order("faster", cost="gradient_evaluations"), a=a, b=b).evidence


def test_order_at_a_stated_cost():
    crossing = np.where(np.arange(21) < 10, 0.1, 1e-5)
    a, b = make_trace([crossing, 1.1 * crossing]), levels_trace([0.01, 0.011])
    assert verdict(order("faster"), a=a, b=b).verdict == "reproduced"
    early = verdict(order("faster", at=50), a=a, b=b)
    assert early.verdict == "not reproduced"
    assert "by 50 rounds" in early.evidence
    with pytest.raises(FedatlasError, match=r"at: 500.*200 rounds"):
        verdict(order("faster", at=500), a=a, b=b)


def test_order_for_each_common_step_from_large_to_small():
    a = [levels_trace(level * SPREAD, step=s) for s, level in ((0.1, 1e-3), (0.01, 0.5), (9, 1.0))]
    b = [levels_trace(0.02 * SPREAD, step=s) for s in (0.01, 0.1, 7)]
    found = verdicts(order("faster", for_each="effective_step_size"), a=a, b=b)
    assert [(v.claim, v.verdict) for v in found] == [
        ("paper-figure/claim[effective step 0.1]", "reproduced"),
        ("paper-figure/claim[effective step 0.01]", "not reproduced"),
    ]


def test_order_of_selected_points_looks_at_those_only():
    a = [levels_trace(0.9 * SPREAD, step=1), levels_trace(1e-4 * SPREAD, step=2)]
    assert verdict(order("faster"), a=a, b=levels_trace(0.01 * SPREAD)).verdict == "reproduced"


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
    stated = test or order("faster", for_each="effective_step_size")
    with pytest.raises(FedatlasError, match=message):
        verdicts(stated, a=a, b=levels_trace([0.1], step=3))


def test_a_min_max_objective_is_refused_as_no_direction_is_better():
    with pytest.raises(ValidationError, match="must be one of objective, gradient_norm"):
        OrderTest.model_validate(order("faster", measurement="min_max_objective"))


def test_one_seed_is_inconclusive_whatever_the_gap():
    found = verdict(order("faster"), a=levels_trace([1e-9]), b=levels_trace([1.0]))
    assert found.verdict == "inconclusive"
    assert "a 1e-09 (1 of 1 seeds)" in found.evidence
    assert "95 % 0 to ∞" in found.evidence
    lost = verdict(order("faster"), a=levels_trace([1e-9]), b=levels_trace([NAN]))
    assert lost.verdict == "inconclusive"


def test_deterministic_runs_are_compared_exactly():
    same, half = levels_trace([0.1] * 3), levels_trace([0.05] * 3)
    assert verdict(order("faster"), a=half, b=same).verdict == "reproduced"
    assert verdict(order("faster"), a=same, b=same).verdict == "inconclusive"  # a tie
    assert verdict(order("at_least_as_fast"), a=same, b=same).verdict == "reproduced"
    assert verdict(order("faster"), a=same, b=half).verdict == "not reproduced"


@pytest.mark.parametrize(
    ("a", "b", "expected", "evidence"),
    [
        ([NAN] * 3, [0.1, 0.11, 0.12], "not reproduced", "a none (0 of 3 seeds), b 0.11; ratio ∞,"),
        ([0.1, 0.11, 0.12], [NAN] * 3, "reproduced", "b none (0 of 3 seeds); ratio 0,"),
        ([NAN] * 3, [NAN] * 3, "inconclusive", "every seed of both diverged"),
        ([NAN] * 3, [0.1, NAN, 0.1], "inconclusive", "no ratio"),
        ([1e-3, NAN, 1e-3], [0.1, 0.1, 0.1], "inconclusive", "a 0.001 (2 of 3 seeds)"),
        ([0.1, 0.1, 0.1], [1e-3, NAN, 1e-3], "inconclusive", "(95 % 0 to 100)"),
        ([1e-3, 1e-3, 1e-3], [0.1, NAN, 0.1], "reproduced", "b 0.1 (2 of 3 seeds)"),
        ([0.1, NAN, 0.1], [1e-3, 1e-3, 1e-3], "not reproduced", "(95 % 100 to ∞)"),
        ([1e-3, NAN, 1e-3], [0.1, NAN, 0.1], "inconclusive", "95 % 0 to ∞"),
        ([1e-3, NAN, NAN], [NAN, NAN, 0.1], "inconclusive", "no ratio"),
    ],
)
def test_divergence_is_data(a, b, expected, evidence):
    found = verdict(order("faster"), a=levels_trace(a), b=levels_trace(b))
    assert found.verdict == expected
    assert evidence in found.evidence


def test_a_stated_cost_does_not_fail_runs_that_diverged():
    lost, well = levels_trace([NAN, NAN]), levels_trace([0.1, 0.1])
    assert verdict(order("faster", at=50), a=lost, b=lost).verdict == "inconclusive"
    assert verdict(order("faster", at=50), a=lost, b=well).verdict == "not reproduced"


def test_zeros_do_not_break_the_evidence():
    found = verdict(order("faster"), a=levels_trace([0.0, 1e-3, 0.0]), b=levels_trace([0.1] * 3))
    assert "ratio" in found.evidence
    assert found.verdict == "inconclusive"  # the seeds are thirteen orders of magnitude apart
    both = levels_trace([0.0, 0.0])
    assert verdict(order("similar"), a=both, b=both).verdict == "reproduced"


# --- cost to a target ---


def test_cost_to_a_stated_target():
    # 10 rounds a record: 0.1 ** 1 after 10, 0.5 ** 4 after 40.
    fast, slow = falling_trace([0.1, 0.1]), falling_trace([0.5, 0.5])
    found = verdict(to_target("much_faster", target=0.1), a=fast, b=slow)
    assert found.verdict == "reproduced"
    assert found.evidence == (
        "rounds to gradient_norm ≤ 0.1: a 10, b 40; ratio 0.25 (95 % 0.25 to 0.25), "
        "claimed below 0.5"
    )
    assert verdict(to_target("faster", target=0.1), a=slow, b=fast).verdict == "not reproduced"


def test_cost_to_the_level_that_both_reach():
    fast = falling_trace([0.5, 0.52, 0.55, 0.57, 0.6], floor=1e-5)
    slow = falling_trace([0.9, 0.905, 0.91, 0.915, 0.92], floor=0.15)
    found = verdict(to_target("much_faster"), a=fast, b=slow)
    assert "gradient_norm ≤ 0.152" in found.evidence  # the slow run's lowest median, 0.91 ** 20
    assert found.verdict == "reproduced"
    assert "b 190 (3 of 5 seeds)" in found.evidence
    assert verdict(to_target("faster"), a=slow, b=fast).verdict == "not reproduced"


def test_cost_to_target_is_inconclusive_if_seeds_overlap():
    trace = falling_trace([0.5, 0.7, 0.9])
    assert verdict(to_target("faster", target=0.2), a=trace, b=trace).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([NAN] * 3, [0.01, 0.011, 0.012], "not reproduced"),
        ([0.01, 0.011, 0.012], [NAN] * 3, "reproduced"),
        ([NAN] * 3, [NAN] * 3, "inconclusive"),
        ([NAN, NAN, 0.01], [NAN, 0.01, NAN], "inconclusive"),
    ],
)
def test_a_diverged_run_reaches_no_target(a, b, expected):
    test = to_target("at_least_as_fast", target=0.05)
    assert verdict(test, a=levels_trace(a), b=levels_trace(b)).verdict == expected


def test_a_diverged_run_sets_no_target():
    lost, well = levels_trace([NAN, 0.5, NAN]), levels_trace([0.01, 0.011, 0.012])
    found = verdict(to_target("at_least_as_fast"), a=lost, b=well)
    assert found.verdict == "inconclusive"
    assert "≤ 0.011: a none (0 of 3 seeds), b 10 (2 of 3 seeds); no ratio" in found.evidence
    nobody = verdict(to_target("at_least_as_fast"), a=lost, b=lost)
    assert nobody.verdict == "inconclusive"
    assert "a none (0 of 3 seeds)" in nobody.evidence


def test_a_target_that_one_run_never_reaches():
    fast, slow = levels_trace([1e-3] * 3), levels_trace([0.1] * 3)
    found = verdict(to_target("faster", target=0.01), a=fast, b=slow)
    assert found.verdict == "reproduced"
    assert "b none (0 of 3 seeds); ratio 0, " in found.evidence


# --- what is best at 1 ---


def auroc(*ends: float, records: int = 21, **options: Any):
    """Runs that rise at once from 0.5 to one AUROC per seed; NaN diverges."""
    values = np.repeat(np.array(ends)[:, None], records, axis=1)
    values[:, 0] = 0.5
    return auroc_trace(values, **options)


def by_auroc(test: dict[str, Any], **runs: Any) -> Verdict:
    (only,) = verdicts({"measurement": "test_auroc", **test}, selected_by="train_auroc", **runs)
    return only


def test_order_of_auroc_compares_distances_to_one_and_says_so():
    good, better = auroc(0.96, 0.96), auroc(0.98, 0.98)
    found = by_auroc(order("faster"), a=better, b=good)
    assert found.verdict == "reproduced"
    assert found.evidence == (
        "1 − test_auroc by 200 rounds: a 0.02, b 0.04; ratio 0.5 (95 % 0.5 to 0.5), claimed below 1"
    )
    assert by_auroc(order("faster"), a=good, b=better).verdict == "not reproduced"
    # Means of distances are geometric: of 0.1 and 0.4 it is 0.2.
    found = by_auroc(order("similar"), a=auroc(0.9, 0.6), b=auroc(0.8, 0.8))
    assert "1 − test_auroc by 200 rounds: a 0.2, b 0.2; ratio 1 (95 % " in found.evidence


def test_cost_to_a_target_auroc_in_its_own_units():
    rising = 1 - 0.5 * 0.8 ** np.arange(21)
    slow = auroc_trace([1 - 0.5 * 0.9 ** np.arange(21)] * 2)
    fast = auroc_trace([rising, rising])
    # 0.5 · 0.8ⁿ ≤ 0.07 from n = 9 on, 0.5 · 0.9ⁿ from n = 19 on.
    test = to_target("much_faster", target=0.93)
    found = by_auroc(test, a=fast, b=slow)
    assert found.verdict == "reproduced"
    assert found.evidence == (
        "rounds to test_auroc ≥ 0.93: a 90, b 190; ratio 0.474 (95 % 0.474 to 0.474), "
        "claimed below 0.5"
    )
    # The best that both medians reach is the slower run's end, 1 − 0.5 · 0.9²⁰ = 0.93921.
    found = by_auroc(to_target("faster"), a=fast, b=slow)
    assert found.evidence.startswith("rounds to test_auroc ≥ 0.9392: a 100, b 200; ")
    nobody = by_auroc(to_target("faster"), a=auroc(NAN, NAN), b=auroc(NAN, NAN))
    assert nobody.evidence.startswith("rounds to test_auroc ≥ 1: a none (0 of 2 seeds), ")


def test_a_target_close_to_one_keeps_its_digits():
    close = auroc(0.99996, 0.99996)
    found = by_auroc(to_target("faster"), a=close, b=close)
    assert "test_auroc ≥ 0.99996: " in found.evidence


@pytest.mark.parametrize("target", [1, 93])
def test_a_target_that_no_auroc_surpasses_is_refused(target):
    test = to_target("faster", measurement="test_auroc", target=target)
    with pytest.raises(ValidationError, match=f"target: {target} of test_auroc must lie below 1"):
        CostToTargetTest.model_validate(test)
    CostToTargetTest.model_validate({**test, "measurement": "objective"})


def test_monotone_by_auroc():
    steps = [(0.3, 0.99), (0.1, 0.9), (0.03, 0.4)]
    found = verdicts(
        {**MONOTONE, "measurement": "train_auroc"},
        selected_by="train_auroc",
        a=[auroc(end, end, step=step, objective=np.ones((2, 21))) for step, end in steps],
    )
    # Training AUROC is (1 + test AUROC) / 2; the first step ends below its start.
    assert [(v.claim.removeprefix("paper-figure/claim"), v.verdict) for v in found] == [
        ("[step 0.03]", "inconclusive"),
        ("[step 0.3 against 0.1]", "reproduced"),
    ]
    assert found[0].evidence.startswith(
        "1 − train_auroc by 200 rounds: step 0.03 0.3, 0.25 at the start; "
    )
    assert "step 0.3 0.005, step 0.1 0.05; ratio 0.1 " in found[1].evidence


def test_scaling_to_a_target_accuracy():
    def series(parties: int):
        accuracy = np.linspace([0.5, 0.5], [0.9, 0.9], 41).T
        pace = {"parties": parties, "seconds_per_epoch": 8 / parties}
        return vertical_trace(np.linspace([1, 1], [0.1, 0.1], 41).T, test_accuracy=accuracy, **pace)

    test = {
        "kind": "scaling",
        "series": ["a", "b"],
        "measurement": "test_accuracy",
        "target": 0.689,
    }
    # 0.689 is first surpassed by the 19th record after the start: 9.5 epochs of 8 and 4 seconds.
    found = verdict(test, a=series(1), b=series(2))
    assert found.verdict == "reproduced"
    assert found.evidence.startswith(
        "simulated seconds to test_accuracy ≥ 0.689: 1 party 76, 2 parties 38; slope -1 "
    )
    del test["target"]
    with pytest.raises(ValidationError, match="test_accuracy needs a 'target' of its own"):
        ScalingTest.model_validate(test)
    stated = ScalingTest.model_validate({**test, "target": 0.689})
    assert ScalingTest.model_validate(json.loads(stated.model_dump_json())) == stated


def test_a_claim_about_what_a_run_lacks_says_what_it_has():
    with pytest.raises(FedatlasError, match=r"run 'first' has no 'gradient_norm'.*test_auroc"):
        verdict(order("faster"), a=auroc(0.9), b=auroc(0.9))


# --- monotone ---

MONOTONE = {"kind": "monotone", "run": "a"}


def test_monotone_judges_each_step_against_the_next_smaller():
    steps = [(0.3, 1e-2), (0.1, 1e-3), (0.03, 1e-1)]
    found = verdicts(MONOTONE, a=[levels_trace(level * SPREAD, step=s) for s, level in steps])
    assert [(v.claim, v.verdict) for v in found] == [
        ("paper-figure/claim[step 0.1 against 0.03]", "reproduced"),
        ("paper-figure/claim[step 0.3 against 0.1]", "not reproduced"),
    ]
    assert "step 0.1 0.000997, step 0.03 0.0997; ratio 0.01 " in found[0].evidence


def test_monotone_leaves_out_a_step_that_does_not_converge_and_bridges_it():
    steps = [(0.01, 0.1), (0.1, 2.0), (1.0, 0.01), (10.0, NAN)]
    found = verdicts(MONOTONE, a=[levels_trace(level * SPREAD, step=s) for s, level in steps])
    assert [(v.claim.removeprefix("paper-figure/claim"), v.verdict) for v in found] == [
        ("[step 0.1]", "inconclusive"),
        ("[step 1 against 0.01]", "reproduced"),
        ("[step 10]", "inconclusive"),
    ]
    assert found[0].evidence == (
        "gradient_norm by 200 rounds: step 0.1 none (0 of 5 seeds), 1 at the start; it does not "
        "converge, which the claim excepts"
    )
    assert "step 10 none (0 of 5 seeds)" in found[2].evidence


def test_monotone_is_inconclusive_if_some_seeds_of_the_larger_step_diverge():
    a = [levels_trace(0.1 * SPREAD, step=1), levels_trace([0.01, 0.01, 0.01, NAN, 0.01], step=2)]
    assert verdict(MONOTONE, a=a).verdict == "inconclusive"


def test_monotone_with_every_step_diverged_still_reports():
    found = verdicts(MONOTONE, a=[levels_trace([NAN, NAN], step=s) for s in (1, 2)])
    assert [v.verdict for v in found] == ["inconclusive", "inconclusive"]


# --- selected hyper-parameters ---


def tuned(*best: float | None, grid: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)) -> list[Any]:
    """A run over the grid in which each seed does best at the given value; None: diverges."""
    return [
        levels_trace(
            [NAN if choice is None else 1e-3 if choice == value else 0.1 for choice in best],
            step=value,
            hyper_parameters={"rate": value, "batch": None},
        )
        for value in grid
    ]


def published(value: float, tolerance: float = 0.1, name: str = "rate") -> dict[str, Any]:
    return {
        "kind": "published_value",
        "run": "a",
        "hyper_parameter": name,
        "value": value,
        "tolerance": tolerance,
    }


@pytest.mark.parametrize(
    ("best", "value", "expected"),
    [
        ((0.3, 0.4, 0.3), 0.4, "reproduced"),  # 0.4 − 0.3 exceeds 0.1 by rounding alone
        ((0.3, 0.4, 0.1), 0.4, "inconclusive"),
        ((0.1, 0.2, 0.1), 0.4, "not reproduced"),
        ((0.4,), 0.4, "inconclusive"),  # one seed tells of no spread
        ((0.4, None), 0.4, "inconclusive"),
        ((None, None), 0.4, "inconclusive"),
    ],
)
def test_published_value(best, value, expected):
    assert verdict(published(value), a=tuned(*best)).verdict == expected


def test_published_value_tells_what_each_seed_chose():
    assert verdict(published(0.4), a=tuned(0.3, 0.4, 0.3, None)).evidence == (
        "a: selected rate = 0.3, by seed {0.3, 0.4, 0.3, none}; published 0.4 ± 0.1"
    )


def test_a_published_value_may_lie_within_a_mapping():
    grid = tuned(0.3, 0.4, 0.3)
    for trace in grid:
        specification = json.loads(trace.attrs["specification"])
        rate = specification["hyper_parameters"].pop("rate")
        specification["hyper_parameters"]["scheme"] = {"rate": rate}
        trace.attrs["specification"] = json.dumps(specification)
    assert verdict(published(0.4, name="scheme.rate"), a=grid).evidence == (
        "a: selected scheme.rate = 0.3, by seed {0.3, 0.4, 0.3}; published 0.4 ± 0.1"
    )


def test_hyper_parameters_that_cannot_be_compared_are_errors():
    with pytest.raises(
        FedatlasError, match="'a' has no hyper-parameter 'speed'; it has batch, rate"
    ):
        verdict(published(0.4, name="speed"), a=tuned(0.3, 0.4))
    with pytest.raises(FedatlasError, match="'batch' of run 'a' is None, not a number"):
        verdict(published(0.4, name="batch"), a=tuned(0.3, 0.4))


SELECTED = {"kind": "selected_order", "larger": "a", "smaller": "b", "hyper_parameter": "rate"}


@pytest.mark.parametrize(
    ("larger", "smaller", "expected"),
    [
        ((0.4, 0.3), (0.3, 0.2), "reproduced"),
        ((0.4, 0.3), (0.3, 0.3), "inconclusive"),
        ((0.3, 0.2), (0.3, 0.3), "not reproduced"),
        ((0.4,), (0.1,), "inconclusive"),
        ((0.4, None), (0.1, 0.1), "inconclusive"),
        ((None, None), (0.1, 0.1), "inconclusive"),
        ((0.4, 0.4), (0.4, 0.4), "inconclusive"),  # at the grid's end: could not be above
        ((0.1, 0.1), (0.4, 0.4), "inconclusive"),
    ],
)
def test_selected_order(larger, smaller, expected):
    found = verdict(SELECTED, a=tuned(*larger), b=tuned(*smaller))
    assert found.verdict == expected
    assert "largest tried 0.4" in found.evidence


def test_several_claims_are_judged_in_order():
    traces = {"a": {"p": levels_trace(0.01 * SPREAD)}, "b": {"p": levels_trace(0.1 * SPREAD)}}
    rule = Selection()
    claims = [
        Claim(id=name, source="s", statement="t", test=TypeAdapter(ClaimTest).validate_python(test))
        for name, test in (("one", order("faster")), ("two", to_target("faster", target=0.5)))
    ]
    results = Results(traces, choices(select(traces, rule)), rule.window)
    found = judge("e", "p", claims, results)
    assert [v.claim for v in found] == ["e/one", "e/two"]
    assert judge("e", "p", [], results) == []
