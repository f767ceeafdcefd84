"""`fedatlas run --decide`: which seeds are added, when they end, and what a plan makes of them."""

import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from experiment_files import BASE, config_folder, plan_of_all
from fedatlas.cli import app
from fedatlas.cli.deciding import Deciding, look, next_number, to_decide
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.verdicts import read_verdicts, verdicts_to_csv
from fedatlas.plan.build import build_plan
from fedatlas.plan.results import claims_spec
from verdict_factory import effect, verdict
from workflow_copy import EXPERIMENT, WorkflowCopy

ORDER = {
    "id": "order",
    "source": "Figure 1",
    "statement": "One is faster",
    "test": {"kind": "order", "first": "one", "second": "two", "relation": "faster"},
}
#: `tuning` chooses a step on the seeds 3 and 5; `shown` shows and judges the runs of `base`.
GIVEN = {"clients_per_round": 4, "local_steps": 5, "batch_size": 4}
FEDAVG = {"algorithm": "fedavg", "hyper_parameters": GIVEN}
FIXED = {"algorithm": "fedavg", "hyper_parameters": GIVEN | {"local_step_size": 0.1}}
TUNING = BASE | {
    "seeds": [3, 5],
    "runs": {"one": FEDAVG | {"grid": {"local_step_size": [0.1, 0.2]}}},
}
TUNED = BASE | {"runs": {"one": {"algorithm": "fedavg", "tuned_in": "demo-tuning"}, "two": FIXED}}
OTHER = BASE | {"runs": {"two": FIXED}}
SHOWN = {"paper": "ours", "title": "shown", "source": "Figure 2", "runs_of": "demo-base"}


@pytest.fixture
def config(tmp_path):
    shown = SHOWN | {"claims": [ORDER]}
    return config_folder(tmp_path, base=TUNED, tuning=TUNING, shown=shown, other=OTHER)


# --- the plan ---


def test_added_seeds_are_the_next_numbers_and_none_that_tuned(config):
    plan = build_plan(config, added_seeds={"demo-base": 3})
    assert plan.experiments["demo-base"].seeds == (0, 1, 2, 4, 6)
    assert plan.run("demo-base", "two", "only").seeds == (0, 1, 2, 4, 6)
    # Of whatever shows these runs, too, and of nothing else.
    assert plan.experiments["demo-shown"].seeds == (0, 1, 2, 4, 6)
    told = {name: one.seeds_added for name, one in plan.experiments.items()}
    assert {name for name, added in told.items() if added} == {"demo-base", "demo-shown"}
    assert claims_spec(plan, "demo-shown")["seeds_added"]


def test_verdicts_count_as_looked_at_before_a_seed_is_added(config):
    plan = build_plan(config, names=["demo-shown"], added_seeds={"demo-base": 0})
    shown = plan.experiments["demo-shown"]
    assert (shown.seeds, shown.seeds_added) == ((0, 1), True)


def test_seeds_are_added_to_what_trains_only(config):
    for name, message in (
        ("demo-shown", r"'added_seeds': 'demo-shown' shows the runs of 'demo-base'"),
        ("demo-bas", r"'added_seeds': 'demo-bas': there is no such experiment; .*demo-base"),
    ):
        with pytest.raises(FedatlasError, match=message):
            build_plan(config, added_seeds={name: 1})


def test_what_trains_the_runs_of_claims_gets_the_seeds(config):
    (found,) = to_decide(build_plan(config), ["demo-*"])
    assert found == Deciding("demo-base", ("demo-shown",), 2)
    assert {each.name for each in to_decide(plan_of_all(), ["fedpage-fig2a"])} == {"fedpage-fig2a"}


# --- how many ---


def undecided(needed: int | None, estimate: float = 0.1, seeds: int = 6, name: str = "x"):
    measured = effect(estimate, -0.05, 0.3, needed=needed, seeds=seeds)
    return verdict(f"demo-base/{name}", "undecided", effect=measured)


@pytest.mark.parametrize(
    ("needed", "expected"), [([7], 7), ([9, 8], 8), ([30], 9), ([None], 9), ([30, None], 9)]
)
def test_as_many_seeds_are_added_as_the_next_claim_needs_or_half_more(needed, expected):
    assert next_number([undecided(each) for each in needed], 6) == expected


def judged(folder, *verdicts):
    file = folder / "experiments" / "demo-base" / "claims.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(verdicts_to_csv(verdicts), encoding="utf-8")


BOTH = [Deciding("demo-base", ("demo-base",), 6)]


def test_seeds_are_added_until_all_is_decided(tmp_path):
    judged(tmp_path, undecided(8), verdict("demo-base/y", effect=effect(p=0.01)))
    after, said = look(BOTH, {"demo-base": 0}, tmp_path, 24)
    assert after == {"demo-base": 2}
    assert said[0] == "demo-base: 6 seeds, 1 of 2 claims decided"
    assert "  demo-base/y: reproduced" in said
    assert any("demo-base/x: undecided" in line and "8 needed" in line for line in said)
    judged(tmp_path, verdict("demo-base/x", effect=effect(p=0.01)))
    assert look(BOTH, {"demo-base": 2}, tmp_path, 24)[0] == {"demo-base": 2}


def test_the_budget_of_seeds_is_the_end(tmp_path):
    judged(tmp_path, undecided(30))
    assert look(BOTH, {"demo-base": 0}, tmp_path, 7)[0] == {"demo-base": 1}
    after, said = look(BOTH, {"demo-base": 1}, tmp_path, 7)
    assert after == {"demo-base": 1} and said[-1] == "  no more seeds: the budget is used up"
    # Nor is one below what is declared a reason to take seeds away.
    assert look(BOTH, {"demo-base": 0}, tmp_path, 3)[0] == {"demo-base": 0}


def test_cases_of_a_decided_claim_ask_for_no_seeds(tmp_path):
    """One that is contradicted decides what is claimed of all."""
    whole = verdict("demo-base/x", "contradicted")
    cases = [
        verdict("demo-base/x", "contradicted", "step 1", effect=effect(p=0.001)),
        verdict("demo-base/x", "undecided", "step 2", effect=effect(0.1, -0.1, 0.3, needed=9)),
    ]
    judged(tmp_path, whole, *cases)
    assert look(BOTH, {"demo-base": 0}, tmp_path, 24)[0] == {"demo-base": 0}


def test_contradicted_cases_that_do_not_stand_yet_ask_for_seeds(tmp_path):
    case = verdict("demo-base/x", "contradicted", "step 1", effect=effect(p=0.02))
    judged(tmp_path, verdict("demo-base/x", "undecided"), case, replace(case, case="step 2"))
    assert look(BOTH, {"demo-base": 0}, tmp_path, 24)[0] == {"demo-base": 3}


def test_what_no_seed_would_decide_is_left(tmp_path):
    judged(tmp_path, undecided(None, estimate=math.inf))
    after, said = look(BOTH, {"demo-base": 0}, tmp_path, 24)
    assert after == {"demo-base": 0}
    assert said[-1] == "  no more seeds: no seed would decide the rest"


def test_a_claim_that_runs_cannot_test_asks_for_no_seeds_and_says_why(tmp_path):
    why = "below resolution: runs end too early to tell; more rounds may tell"
    judged(tmp_path, verdict("demo-base/x", "not testable", effect=effect(), why=why))
    after, said = look(BOTH, {"demo-base": 0}, tmp_path, 24)
    assert after == {"demo-base": 0}
    assert said == [
        "demo-base: 6 seeds, 0 of 1 claims decided",
        f"  no seeds are added for demo-base/x: not testable; {why}",
    ]


def test_a_run_without_added_seeds_says_that_it_leaves_them_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def found(seeds_added):
        measured = effect(p=0.01, seeds_added=seeds_added)
        judged(tmp_path / "results", verdict("demo-base/x", effect=measured))

    def told(after):
        found(True)
        monkeypatch.setattr("fedatlas.cli.run._call", lambda _: found(after))
        return CliRunner().invoke(app, ["run", "demo-base"]).stdout

    line = "demo-base: judged by a fixed number of seeds, those declared; --decide adds the others."
    assert line in told(False).splitlines()
    assert line not in told(True)


# --- the workflow ---


def test_seeds_are_added_and_earlier_ones_are_not_trained_again(tmp_path):
    copy = WorkflowCopy.create(tmp_path / "copy")
    at_least = EXPERIMENT.replace("relation: faster", "relation: at_least_as_fast")
    copy.experiment.write_text(at_least.replace("seeds: [0, 1]", "seeds: {from: 0, to: 5}", 1))
    asked = ("run", "demo-small", "--cores", "1", "--decide", "--most-seeds", "7")
    outcome = copy.fork("fedatlas", *asked)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    lines = outcome.stdout.splitlines()
    assert "demo-small: 6 seeds, 0 of 1 claims decided" in lines
    assert any(line.startswith("demo-small: 7 seeds") for line in lines)
    (found,) = read_verdicts(copy.results / "experiments" / "demo-small" / "claims.csv")
    assert found.effect.seeds == 7 and found.effect.seeds_added
    assert "holds whenever seeds stop being added" in found.evidence
    log = next((copy.folder / "logs").glob("**/fedavg/only.log")).read_text()
    assert "1 of 7 seeds are to train" in log
    # With the configuration that was printed last there is nothing to do.
    asked = ("--config", 'experiments=["demo-small"]', 'added_seeds={"demo-small":1}')
    assert copy.planned(*asked) == []
    assert "stale" not in copy.fork("fedatlas", "verify").stdout
