"""Claims of theorems, judged on runs that lie within and outside their conditions."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiment_files import config_folder
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.bounds import Row
from fedatlas.evaluation.claims.compared import ComparisonTest
from fedatlas.evaluation.claims.study_value import StudyValueTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import by_run, choices, select
from fedatlas.evaluation.verdicts import judge, surviving, under_test
from fedatlas.plan.build import build_plan
from fedatlas.schema.claims import CaseOutcome, Claim
from fedatlas.schema.runs import Selection
from trace_factory import levels_trace
from workflow_copy import EXPERIMENT

SIX = 1 + np.linspace(0, 0.01, 6)


def within(run: str, point: str, **more: Any) -> Row:
    return Row(
        *(run, point, "Theorem 1", "as printed", True, "", "", 2.0),
        **{"step": 0.1, "largest_step": 0.5, "step_factor": 0.2, **more},
    )


def beyond(run: str, point: str, factor: float = 1e5, **more: Any) -> Row:
    step = replace(within(run, point), largest_step=0.1 / factor, step_factor=factor)
    return replace(step, covered=False, **more)


def results(first: Any, second: Any, *theorems: Row) -> Results:
    traces = by_run([levels_trace(first * SIX, run="a"), levels_trace(second * SIX, run="b")])
    points = {run: next(iter(own)) for run, own in traces.items()}
    placed = [replace(row, point=points[row.run]) for row in theorems]
    return Results(traces, choices(select(traces, Selection())), theory=placed)


def judged(found: Results, theorem: str | None = "Theorem 1") -> CaseOutcome:
    test = ComparisonTest(kind="order", first="a", second="b", relation="faster")
    claim = Claim(
        id="faster", source="Theorem 1", statement="It is.", covered_by=theorem, test=test
    )
    return judge("e", "p", [claim], found)[0]


@pytest.mark.parametrize(("first", "second"), [(1e-3, 1e-2), (1e-2, 1e-3), (1e-2, 1e-2)])
def test_a_run_outside_a_theorem_says_nothing_of_it_whatever_it_shows(first, second):
    alone = judged(results(first, second), None)
    covered = judged(results(first, second, within("a", "")))
    assert (covered.outcome, covered.evidence) == (alone.outcome, alone.evidence)
    outside = judged(results(first, second, beyond("a", "")))
    assert outside.outcome == "not covered" and not outside.fragile
    assert outside.evidence.startswith(
        "outside the conditions of Theorem 1: a (as printed): step 0.1, 1e+05 times the largest "
        f"that is covered, 1e-06; beyond it: {alone.evidence}"
    )
    assert outside.effect.estimate == alone.effect.estimate and outside.effect.p is None
    assert under_test([alone]) and not under_test([outside]) and not surviving([outside])


def test_one_version_of_a_theorem_suffices_and_rivals_have_others():
    proof = {"version": "constants of its proof"}
    rows = [beyond("a", ""), replace(within("a", ""), **proof)]
    assert judged(results(1e-3, 1e-2, *rows)).outcome == "reproduced"
    one = judged(results(1e-3, 1e-2, *rows), "Theorem 1 (as printed)")  # where the claim names it
    assert one.outcome == "not covered"
    rows = [beyond("a", "", 1e5), beyond("a", "", 30, **proof)]
    nearer = judged(results(1e-3, 1e-2, *rows, replace(beyond("b", ""), theorem="Theorem 2")))
    assert "a (constants of its proof): step 0.1, 30 times the largest" in nearer.evidence
    assert "b (" not in nearer.evidence
    lacking = judged(results(1e-3, 1e-2, beyond("a", "", 0.5, lacks="noise decays too slowly")))
    assert "a (as printed): noise decays too slowly; beyond it" in lacking.evidence


def test_of_a_claim_about_all_points_one_outside_is_enough():
    traces = by_run([levels_trace(0.1 * SIX / step, run="a", step=step) for step in (1.0, 10.0)])
    (small, large) = traces["a"]
    claim = Claim(
        id="larger",
        source="Theorem 1",
        statement="It is.",
        covered_by="Theorem 1",
        test=ComparisonTest(kind="monotone", run="a"),
    )

    def found(*rows: Row) -> CaseOutcome:
        chosen = choices(select(traces, Selection()))
        return judge("e", "p", [claim], Results(traces, chosen, theory=rows))[0]

    assert found(within("a", small), within("a", large)).outcome == "reproduced"
    one = found(within("a", small), beyond("a", large, 7))
    assert one.outcome == "not covered"
    assert "a at 1 of 2 points, nearest (as printed): step 0.1, 7 times" in one.evidence


def test_a_theorem_that_the_table_lacks_is_an_error():
    with pytest.raises(FedatlasError, match="claim 'faster': covered_by: no theorem 'Lemma 1'"):
        judged(results(1e-3, 1e-2, within("a", "")), "Lemma 1")
    bare = results(1e-3, 1e-2)
    with pytest.raises(FedatlasError, match="needs the study 'theory'"):
        judged(Results(bare.traces, bare.chosen))


def test_a_reason_may_stand_for_the_table():
    test = StudyValueTest(kind="not_covered", reason="steps are 100 times Corollary 1's")
    (found,) = test.judge(Results({}, {}))
    assert (found.outcome, found.evidence) == ("not covered", test.reason)


def test_a_claim_of_a_theorem_needs_the_table(tmp_path):
    about = EXPERIMENT + "    covered_by: Theorem 4.1\n"
    with pytest.raises(FedatlasError, match="covered_by needs 'theory: true'"):
        build_plan(config_folder(tmp_path / "without", small=about))
    assert build_plan(config_folder(tmp_path / "with", small=about + "theory: true\n"))
