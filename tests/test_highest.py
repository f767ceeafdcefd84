"""Claims that one run is the best of several."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedatlas.evaluation.claims.highest import HighestTest
from fedatlas.evaluation.constants import ConstantRow, Constants
from judging import outcomes, verdict, verdicts
from trace_factory import auroc_trace

NAN = np.nan
NOISE = np.array([-2e-3, 1e-3, 0.0, -1e-3, 2e-3, 0.0])
RIVALS = ("b", "c", "d")


def highest(*among: str, **more: Any) -> dict[str, Any]:
    return {"kind": "highest", "run": "a", "among": among, "measurement": "test_auroc", **more}


def rising(ends: Any, **options: Any):
    """An AUROC that rises evenly from 0.5 to one end per seed, in 40 rounds; NaN diverges."""
    values = np.linspace(np.full(len(ends), 0.5), np.asarray(ends, dtype=float), 5).T
    return auroc_trace(values, **options)


def judged(test: dict[str, Any], **runs: Any) -> dict[str, str]:
    return outcomes(test, selected_by="train_auroc", **runs)


def test_at_each_record_the_least_lead_counts():
    """Ahead of b by 0.1 on the mean, but behind it at one record of every seed."""
    first = np.tile([0.5, 0.7, 0.8, 0.9, 0.95], (6, 1))
    other = first - 0.1
    for seed in range(6):
        other[seed, 1 + seed % 4] = first[seed, 1 + seed % 4] + 0.02
    runs = {"a": auroc_trace(first), "b": auroc_trace(other)}
    along = highest("b", cost="round")
    assert judged(along | {"window": 1}, **runs)[""] == "reproduced"
    each = verdict(along | {"each_record_from": 0.1}, selected_by="train_auroc", **runs)
    assert each.outcome == "contradicted"
    assert each.effect.estimate == pytest.approx(-0.02)
    later = verdict(along | {"each_record_from": 0.9}, selected_by="train_auroc", **runs)
    assert later.effect.estimate == pytest.approx(0.1)  # of seeds 0, 1, 2, 4 and 5


def test_highest_has_a_verdict_of_its_own_and_one_per_rival():
    runs = {"a": rising([0.95] * 6), "b": rising([0.9] * 6), "c": rising([0.8] * 6)}
    cases = verdicts(highest("b", "c", at_end=True), selected_by="train_auroc", **runs)
    assert [(case.case, case.outcome) for case in cases] == [
        ("", "reproduced"),
        ("against b", "reproduced"),
        ("against c", "reproduced"),
    ]
    assert cases[0].evidence == "test_auroc at the end: a reproduced against b, c; not tuned"
    assert cases[0].effect == cases[1].effect  # of the closest rival
    assert cases[1].evidence == (
        "test_auroc at the end: a 0.95, b 0.9; test_auroc 0.05 higher (0.05 to 0.05); "
        "a difference of 0.005 counts; for these test rows; not tuned"
    )


@pytest.mark.parametrize(
    ("leads", "expected"),
    [
        ((0.02, 0.03, 0.02), "reproduced"),
        ((0.02, 0.0, 0.02), "no difference"),
        ((0.02, 0.005, 0.02), "undecided"),
        # Six seeds contradict one rival; that any of three does, they cannot.
        ((0.02, -0.02, 0.01), "undecided"),
    ],
)
def test_highest_is_better_than_every_rival(leads, expected):
    rivals = {
        run: rising(0.9 - lead + NOISE[::-1]) for run, lead in zip(RIVALS, leads, strict=True)
    }
    assert judged(highest(*RIVALS), a=rising(0.9 + NOISE), **rivals)[""] == expected


def test_holms_correction_is_paid_for_any_rival():
    rivals = {run: rising(np.full(7, 0.9)) for run in "bc"}
    found = judged(highest("b", "c"), a=rising(np.full(7, 0.8)), **rivals)
    assert set(found.values()) == {"contradicted"}  # 2 · 2⁻⁷ is below 2.5 %
    one = judged(highest("b"), a=rising([0.8] * 6), b=rising([0.9] * 6))
    assert one[""] == "contradicted"


@settings(max_examples=20, deadline=None)
@given(ends=st.lists(st.tuples(*[st.floats(0.6, 0.99)] * 3), min_size=6, max_size=8, unique=True))
def test_each_rival_is_judged_as_better_final_judges_it(ends):
    runs = dict(zip("abc", (rising(column) for column in zip(*ends, strict=True)), strict=True))
    cases = judged(highest("b", "c"), **runs)
    for rival in "bc":
        test = {
            "kind": "better_final",
            "first": "a",
            "second": rival,
            "measurement": "test_auroc",
        }
        alone = verdict(test, selected_by="train_auroc", a=runs["a"], **{rival: runs[rival]})
        assert cases[f"against {rival}"] == alone.outcome


def test_highest_along_a_cost_compares_areas_under_curves():
    # a rises at once and ends below b: means over 40 rounds by trapezoids of 10 rounds each are
    # (0.7 + 0.9 + 0.9 + 0.9) / 4 = 0.85 and (0.55 + 0.65 + 0.75 + 0.875) / 4 = 0.70625.
    a = auroc_trace([[0.5, 0.9, 0.9, 0.9, 0.9]] * 6)
    b = auroc_trace([[0.5, 0.6, 0.7, 0.8, 0.95]] * 6)
    case = verdicts(highest("b", cost="round", window=1), selected_by="train_auroc", a=a, b=b)[1]
    assert case.outcome == "reproduced"
    assert "mean test_auroc up to 40 rounds: a 0.85, b 0.7062; test_auroc 0.144" in case.evidence
    # Unless declared, over the last tenth: from 0.89 to 0.95 for b.
    late = verdicts(highest("b", cost="round"), selected_by="train_auroc", a=a, b=b)[1]
    assert late.outcome == "contradicted"
    assert "mean test_auroc from 36 to 40 rounds: a 0.9, b 0.92; " in late.evidence
    ends = verdicts(highest("b"), selected_by="train_auroc", a=a, b=b)
    assert ends[0].outcome == "contradicted"
    assert ends[1].fragile == "reproduced at half the budget, reproduced at 0.71 of the budget"


def test_means_end_where_the_cheapest_run_does_and_begin_where_all_have_a_record():
    a = auroc_trace([[0.5, 0.9, 0.9, 0.9, 0.9]] * 6)
    b = auroc_trace([[0.5, 0.6, 0.7, 0.8, 0.95]] * 6, cost_scale=0.5)
    c = auroc_trace([[0.5, 0.8, 0.8]] * 6)
    test = highest("b", "c", cost="round", window=1)
    _, against_b, against_c = verdicts(test, selected_by="train_auroc", a=a, b=b, c=c)
    # Means are over 20 rounds: (0.7 + 0.9) / 2, (0.55 + 0.65) / 2 and (0.65 + 0.8) / 2.
    assert "mean test_auroc up to 20 rounds: a 0.8, b 0.6; " in against_b.evidence
    assert "mean test_auroc up to 20 rounds: a 0.8, c 0.725; " in against_c.evidence
    # By bytes b pays half, and is by c's 20 kB where it ends, after 40 rounds.
    test = highest("b", "c", cost="bytes", window=1)
    _, against_b, _ = verdicts(test, selected_by="train_auroc", a=a, b=b, c=c)
    assert "up to 2e+04 bytes: a 0.8, b 0.7062; " in against_b.evidence
    late = auroc_trace([[0.4, 0.5]] * 6, schedule=[50, 60])
    (alone,) = verdicts(highest("b", cost="round"), selected_by="train_auroc", a=a, b=late)
    assert alone.outcome == "not testable"
    assert "no cost that all spent" in alone.evidence


@pytest.mark.parametrize("more", [{}, {"cost": "round"}])
def test_highest_with_seeds_that_are_lost(more):
    well, lost = rising([0.91] * 7), rising([NAN] * 7)
    assert judged(highest("b", **more), a=well, b=lost)[""] == "reproduced"
    assert judged(highest("b", **more), a=lost, b=well)[""] == "contradicted"
    # Ten seeds spare one.
    some, ten = rising([0.95] * 9 + [NAN]), rising([0.91] * 10)
    assert judged(highest("b", **more), a=some, b=ten)[""] == "reproduced"
    risen = rising([0.95] * 7, objective=np.linspace([1] * 7, [2] * 7, 5).T)
    assert judged(highest("b", **more), a=risen, b=well)[""] == "reproduced"


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (highest(), "at least 1"),
        (highest("b", "a"), "among: 'a' is the run itself"),
        (highest("b", "b"), "among: a rival is listed twice in b, b"),
        (highest("b", measurement="objective"), "must be one of train_accuracy, test_accuracy"),
        (highest("b", at_end=True, cost="round"), "at_end: true and cost: round exclude"),
        (highest("b", at_end=False), "Input should be True"),
        (highest("b", each_record_from=0.1), "needs 'cost: round'"),
        (highest("b", window=0.5), "window: needs a 'cost'"),
        (highest("b", cost="fortnight"), "must be one of round"),
    ],
)
def test_claims_of_highest_that_make_no_sense_are_refused(test, message):
    with pytest.raises(ValidationError, match=message):
        HighestTest.model_validate(test)


def test_only_runs_that_are_better_than_a_constant_are_compared():
    runs = {"a": rising([0.9] * 6), "b": rising([0.504] * 6), "c": rising([0.8] * 6)}
    rows = [ConstantRow(run, "test_auroc", 0.5) for run in runs]
    known = {"constants": Constants(rows), "selected_by": "train_auroc"}
    found = verdicts(highest("b", "c"), **known, **runs)
    assert [case.outcome for case in found] == ["reproduced", "not testable", "reproduced"]
    assert found[1].evidence.startswith(
        "training not reproduced: b no better than a constant; test_auroc at the end: a 0.9, b 0.5"
    )
    assert "; best constant predictor 0.5;" in found[2].evidence
    (own,) = verdicts(highest("a", run="b"), **known, a=runs["a"], b=runs["b"])[1:]
    assert own.outcome == "not testable"
    assert judged(highest("b"), **runs)["against b"] == "reproduced"  # nothing is known


def test_every_choice_of_graphs_has_a_verdict_with_its_drift():
    runs = {"a": rising([0.9] * 6), "b": rising([0.8] * 6), "c": rising([0.7] * 6)}
    drift = np.array([[0.5, 1.0], [0.0, 0.0], [np.nan, np.nan]])
    budgets = xr.Dataset({"drift": (("case", "iteration"), drift)}, {"run": ("case", list("abc"))})
    test = {
        "kind": "highest_by_graph",
        "graphs": {
            "one pair": {"run": "a", "among": ["b", "c"]},
            "rings": {"run": "c", "among": ["b"]},
        },
        "measurement": "test_auroc",
    }
    found = verdicts(test, selected_by="train_auroc", budgets=budgets, **runs)
    assert [(case.case, case.outcome) for case in found[-4:]] == [
        ("over one pair", "reproduced"),
        ("over one pair, against b", "reproduced"),
        ("over one pair, against c", "reproduced"),
        ("over rings", "contradicted"),
    ]
    assert found[-4].evidence.endswith("noise gathered in x̄: a 1.00, b 0.00, c not known")
