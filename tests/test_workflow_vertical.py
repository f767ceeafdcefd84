"""The workflow over parties: trials, optima, audits, and what an edit reruns."""

import csv
import json

import pytest

from fedatlas.schema.network_model import NetworkModel
from fedatlas.store.trace import read_trace
from workflow_copy import WorkflowCopy, runs_in, targets

EXPERIMENT = """
paper: vfb2
title: "A small experiment over parties"
source: "a test"
dataset: breast-cancer
partition: {kind: vertical, parties: 4, active: 2, test: 0.2, standardise: true}
network: {latency: 2.0e-6, straggler: 1.4, masks: {kind: ring, fraction_bits: 40}}
objective: {name: logistic_l2, weight: 1.0e-2}
rounds: 20
record_every: 5
seeds: [0, 1]
runs:
  saga: {algorithm: vfb2_saga, hyper_parameters: {step_size: 0.01}}
  svrg: {algorithm: vfb2_svrg, hyper_parameters: {step_size: 0.05}}
  nonf:
    algorithm: vfb2_svrg
    hyper_parameters: {step_size: 0.05}
    partition: {kind: vertical, parties: 1, active: 1, test: 0.2, standardise: true}
  real:
    algorithm: vfb2_sgd
    backend: processes
    hyper_parameters: {step_size: 0.05}
    rounds: 5
validation:
  parties: [2, 3]
  step_size: 0.05
  rounds: 2
  updates: 30
  network: {seconds_per_feature: 1.0e-5, latency: 1.0e-4}
audit: true
figure: {measurement: suboptimality, costs: [simulated_time, update_epoch]}
claims:
  - id: lossless
    source: "a test"
    statement: "VFB²-SVRG is NonF"
    test: {kind: equal_final, first: svrg, second: nonf, measurement: test_accuracy,
           smallest_effect: 0.2}
"""
# Not the atlas and its pages, which other tests make.
TARGETS = targets(
    small="claims.csv figure.svg leaks.csv recovery.svg collusion.csv tree-pairs.csv trees.svg"
    " validation.svg"
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return WorkflowCopy.finished(tmp_path_factory, {"small": EXPERIMENT}, TARGETS)


def test_every_trial_has_its_own_parties_and_optimum(finished):
    shards = finished.results / "shards" / "breast-cancer" / "train"
    slugs = {folder.name for folder in shards.iterdir()}
    rows = "rows-all-standardised-test0.2"
    cuts = [f"vertical-shuffled-q{q}-m{m}" for q, m in ((4, 2), (1, 1))]
    expected = {f"{cut}-seed{seed}-{rows}" for cut in cuts for seed in (0, 1)}
    validated = {f"vertical-shuffled-q{q}-m2-seed0-{rows}" for q in (2, 3)}
    assert slugs == expected | validated
    optima = list((finished.results / "optima").glob("**/*.json"))
    assert {file.parent.name for file in optima} == {f"seed{seed}-{rows}" for seed in (0, 1)}
    assert all(json.loads(file.read_text())["gap"] < 1e-10 for file in optima)
    trace = read_trace(finished.trace("svrg"))
    assert (trace["suboptimality"][:, -1] < trace["suboptimality"][:, 0]).all()
    assert (trace["suboptimality"] > 0).all()
    assert list(trace["full_passes"][0].to_numpy()) == [0, 1, 1, 2, 2]
    error = trace["mask_error"].to_numpy()[:, -1]  # of four shares, in a ring with 40 digits
    assert ((error > 2**-43) & (error <= 4 * 2**-41 + 1e-14)).all()


def test_four_processes_are_trained_and_compared_with_their_simulation(finished):
    trace = read_trace(finished.trace("real"))
    assert list(trace["iteration"][:, -1].to_numpy()) == [227, 227]  # half an epoch of 455 rows
    assert (trace["socket_bytes"][:, -1] > trace["bytes_up"][:, -1]).all()
    with (finished.results / "experiments/demo-small/validation.csv").open() as stream:
        found = {(row["quantity"], row["parties"], row["form"]) for row in csv.DictReader(stream)}
    assert ("speed-up from 2 parties", "3", "asynchronous") in found
    times = finished.results / "experiments/demo-small/validation-times.csv"
    law = NetworkModel(compute={"kind": "measured", "file": str(times)}).compute
    assert len(law.times) == 2 * 3 * 60  # shares and updates of three parties, by 60 sums


def test_the_audit_tells_that_labels_are_not_safe(finished):
    folder = finished.results / "experiments" / "demo-small"
    with (folder / "leaks.csv").open(encoding="utf-8") as stream:
        findings = list(csv.DictReader(stream))
    told = {row["attack"]: row for row in findings}["the sign of ϑ, at the optimum"]
    assert (float(told["value"]), told["verdict"]) == (1.0, "does not stand")
    history = {row["attack"].split(",")[0]: row for row in findings}["the history of sums"]
    assert (history["who"], history["verdict"]) == ("one party", "does not stand")
    with (folder / "collusion.csv").open(encoding="utf-8") as stream:
        groups = list(csv.DictReader(stream))
    alone = [row for row in groups if row["parties"] == "4" and row["colluders"] == "1"]
    assert {row["unmasking"] for row in alone if row["masks"] == "fresh"} == {"0"}
    for name in ("trees.svg", "recovery.svg", "tree-pairs.csv"):
        assert (folder / name).stat().st_size > 0


def test_second_run_does_nothing_and_edits_rerun_what_they_touch(workflow):
    assert workflow.planned() == []
    workflow.edit_code("federations/horizontal/problem")
    assert workflow.planned() == []
    workflow.edit_code("algorithms/vfb2_saga")
    assert runs_in(workflow.planned()) == ["saga/only"]
    workflow.edit_code("training/solver")
    planned = workflow.planned()
    assert {file.split("/")[1] for file in planned if "optima" in file} == {"optima"}


def test_another_number_of_parties_keeps_rows_and_optima(workflow):
    old = "parties: 4, active: 2"
    workflow.edit("config/experiments/demo/small.yaml", old, "parties: 5, active: 2")
    planned = workflow.planned()
    assert runs_in(planned) == ["real/only", "saga/only", "svrg/only"]
    assert not [file for file in planned if "optima" in file or "q1-m1" in file]


def test_all_verdicts_follow_from_what_is_published(finished, tmp_path):
    assert "verdicts follow from what is published" in finished.verified(tmp_path / "published")
