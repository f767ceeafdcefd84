"""Verdicts follow from what is published: points, records and studies that they look at."""

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fedatlas
from atlas_factory import noisy_trace, problem
from experiment_files import config_folder
from fedatlas.cli import app
from fedatlas.code import code_digest
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.selection import select_points
from fedatlas.evaluation.verdicts import judge_claims, read_verdicts
from fedatlas.extensions import VARIABLE
from fedatlas.files import canonical_json, write_text
from fedatlas.plan.build import build_plan
from fedatlas.plan.results import selection_spec
from fedatlas.store import publishing
from fedatlas.store.experiment import Experiment
from fedatlas.store.netcdf import write_sums
from fedatlas.store.trace import write_trace

EXPERIMENT = """
paper: fedpage
title: "A small experiment"
source: "a test"
dataset: breast-cancer
partition: {kind: horizontal, assignment: consecutive, clients: 56, samples: 560}
objective: {name: robust_regression}
rounds: 2000
record_every: 10
seeds: [0, 1, 2, 3, 4, 5]
tuning_seeds: [6, 7]
figure: {measurement: gradient_norm, costs: [round], points: selected}
runs:
  fedpage:
    algorithm: fedpage
    hyper_parameters: {clients_per_round: 4, local_steps: 5}
    grid: {global_step_size: [0.1, 0.03]}
  fedavg:
    algorithm: fedavg
    hyper_parameters: {clients_per_round: 8, local_steps: 5, batch_size: 4}
    grid: {local_step_size: [0.02, 0.006]}
  unused:
    algorithm: fedavg
    hyper_parameters: {clients_per_round: 8, local_steps: 5, batch_size: 4}
    grid: {local_step_size: [0.02, 0.006]}
claims:
  - id: by-step
    source: "a test"
    statement: "FedPAGE beats FedAvg at every step"
    test: {kind: order, first: fedpage, second: fedavg, relation: faster,
           for_each: effective_step_size}
  - id: tuned
    source: "a test"
    statement: "FedPAGE needs fewer rounds"
    test: {kind: cost_to_target, first: fedpage, second: fedavg, relation: faster, target: 1.0e-2}
"""
PAIRED = {"fedpage": 0.958, "fedavg": 0.965, "unused": 0.99}
STEPS = {"0.1": 0.1, "0.03": 0.03, "0.02": 0.1, "0.006": 0.03}


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A folder with a configuration, and results of its experiment that were judged."""
    folder = tmp_path_factory.mktemp("judged")
    judge_in(folder, EXPERIMENT)
    return folder


@pytest.fixture(scope="module")
def with_published(original) -> Path:
    """The same, and the folder `out` that was published of it."""
    with contextlib.chdir(original):
        command("publish", "results", "out")
    return original


@pytest.fixture
def judged(original, tmp_path, monkeypatch) -> Path:
    """A copy of it in which a test works."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True, ignore=lambda *_: ["out"])
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results/experiments/demo-small"


@pytest.fixture
def published(with_published, judged) -> Path:
    shutil.copytree(with_published / "out", "out")
    return judged


def judge_in(tmp_path: Path, text: str, constants: str = "") -> Path:
    """The experiment's folder; constants: the table of constant predictors."""
    config = config_folder(tmp_path / "config", small=text)
    plan = build_plan(config)
    experiment, own = plan.experiments["demo-small"], tmp_path / "results/experiments/demo-small"
    files = []
    for number, spec in enumerate(plan.runs.values()):
        named = {key: getattr(spec, key) for key in ("paper", "experiment", "run", "point")}
        named["specification"] = canonical_json(spec.model_dump(mode="json"))
        named["source_digest"] = code_digest(*spec.code)
        step = STEPS[spec.point.rpartition("-")[2]]
        trace = noisy_trace(PAIRED[spec.run], seeds=8, records=201, seed=number, step=step)
        files.append(spec.trace_file(tmp_path / "results"))
        write_trace(problem(trace).assign_attrs(named), files[-1])
    said = selection_spec(plan, "demo-small")
    made = own / "selection.json", own / "traces.nc"
    select_points(files, [], experiment.selection, {}, said["heading"], said["titles"], *made)
    table = None
    if constants:
        table = own / "constants.csv"
        write_text(table, constants)
    judge_claims(
        "demo-small",
        "fedpage",
        list(experiment.claims),
        False,
        made[1],
        made[0],
        own / "claims.csv",
        constants=table,
    )
    return own


def command(*arguments: object, status: int = 0) -> str:
    found = CliRunner().invoke(app, [*map(str, arguments), "--config", "config"])
    assert found.exit_code == status, found.output
    return found.output


def test_a_budget_that_was_changed_after_a_verdict_is_in_the_evidence(judged):
    """In that of claims about the run alone; a run that is another under its name has none."""
    claims = build_plan(Path("config")).experiments["demo-small"].claims
    noted = judged / "judged-budgets.json"
    kept, files = json.loads(noted.read_text()), (judged / "traces.nc", judged / "selection.json")
    for run, dataset in (("fedavg", "breast-cancer"), ("fedpage", "another")):
        (own,) = kept[run]
        assert own["is"]["dataset"] == "breast-cancer" and own["budget"] == "rounds: 2000"
        own["budget"], own["is"]["dataset"] = "rounds: 20", dataset
    noted.write_text(json.dumps(kept))
    for _ in range(2):  # it stays
        judge_claims("demo-small", "fedpage", list(claims), False, *files, judged / "claims.csv")
        for found in read_verdicts(judged / "claims.csv"):
            runs = next(one.test.runs for one in claims if found.claim.endswith(one.id))
            told = "; budget changed: fedavg was judged at rounds: 20 before"
            assert found.evidence.endswith(told) == ("fedavg" in runs)
            assert "fedpage was judged" not in found.evidence


def test_a_step_judges_published_files_as_it_judged_the_results(judged):
    """Without what published them: the step of the workflow reads them as those of results."""
    command("publish", "results", "out", "--records", 20)
    claims = build_plan(Path("config")).experiments["demo-small"].claims
    published = Path("out/demo-small.nc.xz"), Path("out/selections/demo-small.json")
    judge_claims("demo-small", "fedpage", list(claims), False, *published, Path("again.csv"))
    kept, again = read_verdicts(judged / "claims.csv"), read_verdicts(Path("again.csv"))
    assert len(kept) == 4 and {one.outcome for one in kept} == {"reproduced"}
    for one, other in zip(kept, again, strict=True):
        assert (one.claim, one.case, one.outcome) == (other.claim, other.case, other.outcome)
        if one.effect and other.effect:
            found, expected = (
                [effect.estimate, effect.low, effect.high] for effect in (other.effect, one.effect)
            )
            np.testing.assert_allclose(found, expected, atol=0.1 * one.effect.smallest, rtol=1e-3)


@pytest.mark.usefixtures("published")
def test_points_are_published_that_claims_look_at_and_no_others():
    runs = fedatlas.open_atlas("out").runs()
    assert runs.groupby("run").size().to_dict() == {"fedpage": 2, "fedavg": 2, "unused": 1}


def test_records_are_thinned_only_as_far_as_verdicts_follow(judged):
    """Means over a window and crossings of noisy curves take more records than 20."""
    command("publish", "results", "out", "--records", 20)
    kept = fedatlas.open_atlas("out").sel("demo-small", "fedpage").sizes["record"]
    without_claims = judged / "claims.csv"
    without_claims.unlink()
    command("publish", "results", "other", "--records", 20)
    other = fedatlas.open_atlas("other").sel("demo-small", "fedpage").sizes["record"]
    assert other <= 20 < kept <= 201


@pytest.mark.usefixtures("published")
def test_verify_judges_published_verdicts_again():
    shutil.copytree("out", "all/first")
    assert "4 of 4 verdicts follow" in command("verify", "all")
    (row, *_) = json.loads(command("verify", "all/first", "--json"))
    assert (row["claim"], row["outcome"], row["why"]) == ("demo-small/by-step", "reproduced", "")


@pytest.mark.usefixtures("published")
def test_verdicts_of_a_project_follow_where_it_is_known(tmp_path, monkeypatch):
    lab = tmp_path / "lab"
    shutil.copytree("config/experiments", lab / "experiments")
    Path("config/experiments/demo/small.yaml").rename("config/experiments/demo/other.yaml")
    monkeypatch.setenv(VARIABLE, "")
    told = command("verify", "out", status=1)
    assert told.startswith("out: 0 of 4") and told.count(VARIABLE) == 1
    monkeypatch.setenv(VARIABLE, str(lab))
    assert "4 of 4 verdicts follow" in command("verify", "out")
    command("publish", "results", "theirs")
    of_project, ours = (Path(folder, "README.md").read_text() for folder in ("theirs", "out"))
    assert VARIABLE in of_project and VARIABLE not in ours


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("by-step,,", "by-stride,,", "the configuration declares no such claim"),
        ("tuned,,fedpage,a test,FedPAGE needs", "tuned,,fedpage,a test,It needs", "declared other"),
        (",reproduced,", ",contradicted,", "outcome: contradicted → reproduced"),
    ],
)
def test_verdicts_that_do_not_follow_are_listed_with_the_reason(old, new, said):
    file = Path("out/verdicts.csv")
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    assert "verdicts.csv: its SHA-256 is" in command("verify", "out", status=2)
    write_sums(Path("out"))
    assert said in command("verify", "out", status=1)


def test_a_claim_by_step_does_not_follow_from_chosen_points(judged):
    """Chosen points of thinned traces, published without verdicts."""
    kept = judged / "claims.csv"
    text = kept.read_text(encoding="utf-8")
    kept.unlink()
    command("publish", "results", "out", "--records", 20)
    write_text(Path("out/verdicts.csv"), text)
    write_sums(Path("out"))
    shutil.rmtree("results")
    told = command("verify", "out", status=1)
    assert "demo-small/by-step (3 rows): 2 of 4 configurations are there" in told
    assert "demo-small/tuned: records are thinned; " in told


def test_digits_are_left_out_only_as_far_as_verdicts_follow(judged, monkeypatch):
    """Rounded to powers of two, no lead is what it was."""
    monkeypatch.setattr(publishing, "DIGITS", (0, 6))
    command("publish", "results", "out", "--records", 20)
    (said,) = {one.heading.thinned for one in map(Experiment, Path("out").glob("*.nc.xz"))}
    assert "with 6 significant digits" in said
    assert "4 of 4 verdicts follow" in command("verify", "out")


def test_verdicts_that_do_not_follow_from_the_results_are_not_published(judged):
    kept = judged / "claims.csv"
    text = kept.read_text(encoding="utf-8")
    kept.write_text(text.replace(",reproduced,", ",undecided,"), encoding="utf-8")
    asked = CliRunner().invoke(app, ["publish", "results", "out", "--config", "config"])
    assert isinstance(asked.exception, FedatlasError) and not Path("out").exists()
    assert "outcome: undecided → reproduced" in str(asked.exception)
    command("publish", "results", "out", "--stale")


def test_verdicts_by_added_seeds_follow_though_the_configuration_adds_none(judged):
    """`fedatlas run --decide` adds seeds on its command line only."""
    plan = build_plan(Path("config"))
    judge_claims(
        "demo-small",
        "fedpage",
        list(plan.experiments["demo-small"].claims),
        True,
        judged / "traces.nc",
        judged / "selection.json",
        judged / "claims.csv",
    )
    effects = [one.effect for one in read_verdicts(judged / "claims.csv") if one.effect]
    assert effects and all(effect.seeds_added for effect in effects)
    command("publish", "results", "out")
    assert "4 of 4 verdicts follow" in command("verify", "out")


def test_what_a_constant_has_is_published_and_held_against_runs_again(tmp_path, monkeypatch):
    """A constant that is better than the run turns the verdict; without the table that is said."""
    monkeypatch.chdir(tmp_path)
    falls = """
  - id: converges
    source: "a test"
    statement: "FedPAGE converges"
    test: {kind: falls, run: fedpage, smallest_effect: 1.05}
"""
    own = judge_in(
        tmp_path, EXPERIMENT + falls, "run,measurement,value,seed\nfedpage,objective,1e-30,\n"
    )
    kept = {one.claim: one.outcome for one in read_verdicts(own / "claims.csv")}
    assert kept["demo-small/converges"] == "not testable"
    command("publish", "results", "out")
    assert "5 of 5 verdicts follow" in command("verify", "out")
    Path("out/studies/demo-small/constants.csv").unlink()
    write_sums(Path("out"))
    told = command("verify", "out", status=1)
    assert "demo-small/converges: the record of constant predictors is not there; outcome: " in told
