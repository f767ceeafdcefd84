"""The workflow over min–max problems: tuning in one experiment, judging in two others."""

import json

import numpy as np
import pytest

from fedatlas.federations.shards import read_shard
from fedatlas.store.trace import read_trace
from workflow_copy import EVALUATION, WorkflowCopy, files_of, runs_in, targets

EXPERIMENTS = {
    "grid": """
paper: fmgda
title: "Steps"
source: "a test"
dataset: digits
partition: &partition
  kind: horizontal
  assignment: shuffled
  clients: 4
  test: 0.2
  binary: {positive: {from: 5, to: 9}, keep_negative: 0.2}
objective: &objective {name: auc_min_max, model: cnn_8x8}
rounds: 3
record_every: 3
seeds: [7]
runs:
  fmgda:
    algorithm: fmgda
    hyper_parameters:
      {local_steps: 2, batch_size: 5, dual_step_size: 0.01, primal_momentum: 0.1, dual_momentum: 1}
    grid: {primal_step_size: [0.3, 0.00001]}
  sgda:
    algorithm: local_sgda
    hyper_parameters: {local_steps: 2, batch_size: 5, dual_step_size: 0.01, primal_step_size: 0.2}
selection: {measurement: train_auroc}
figure: {kind: final, measurement: train_auroc}
""",
    "grid-end": """
paper: fmgda
title: "The same steps by where they end"
source: "a test"
runs_of: demo-grid
selection: {measurement: train_auroc, window: 0.01}
figure: {kind: final, measurement: train_auroc}
""",
    "small": """
paper: fmgda
title: "A small experiment"
source: "a test"
dataset: digits
partition:
  kind: horizontal
  assignment: shuffled
  clients: 4
  test: 0.2
  binary: {positive: {from: 5, to: 9}, keep_negative: 0.2}
objective: {name: auc_min_max, model: cnn_8x8}
rounds: 4
record_every: 2
seeds: [0, 1]
runs:
  fmgda: {algorithm: fmgda, tuned_in: demo-grid-end, hyper_parameters: {local_steps: 3}}
  sgda: {algorithm: local_sgda, tuned_in: demo-grid}
selection: {measurement: train_auroc}
figure: {measurement: test_auroc, costs: [round], points: selected}
claims:
  - id: higher
    source: "a test"
    statement: "FMGDA ends higher"
    test: {kind: highest, run: fmgda, among: [sgda], measurement: test_auroc}
""",
    "table": """
paper: fmgda
title: "A small table"
source: "a test"
runs_of: demo-small
selection: {measurement: train_auroc}
figure: {kind: final, measurement: test_auroc, published: {fmgda: 0.9}}
""",
}
# Not the atlas and its pages, which other tests make.
TARGETS = targets(
    small="claims.csv figure.svg table.csv",
    table="claims.csv figure.svg table.csv",
)
BINARY = "binary: {positive: {from: 5, to: 9}, keep_negative: 0.2}"
OBJECTIVE = "{name: auc_min_max, model: cnn_8x8}"
TUNED = ["fmgda/tuned", "sgda/tuned"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return WorkflowCopy.finished(tmp_path_factory, EXPERIMENTS, TARGETS)


def test_runs_take_what_another_experiment_chose(finished):
    selection = json.loads(
        (finished.results / "experiments" / "demo-grid" / "selection.json").read_text()
    )
    assert selection["runs"]["fmgda"]["selected"] == "primal_step_size-0.3"
    for name in ("demo-small", "demo-table"):  # how that was done travels with the choice
        own = json.loads((finished.results / "experiments" / name / "selection.json").read_text())
        assert own["runs"]["fmgda"]["tried"] == 2
        assert own["runs"]["fmgda"]["at_edge"] == ["primal_step_size"]
        assert own["runs"]["sgda"]["tried"] == 1
    with (finished.results / "experiments" / "demo-small" / "claims.csv").open() as file:
        assert "fmgda chosen among 2 points; sgda not tuned; fmgda at the edge" in file.read()
    trace = read_trace(finished.trace("fmgda", "tuned"))
    taken = json.loads(trace.attrs["specification"])["hyper_parameters"]
    assert (taken["primal_step_size"], taken["dual_momentum"]) == (0.3, 1)
    assert taken["local_steps"] == 3  # declared, which goes before
    assert list(trace["seed"].to_numpy()) == [0, 1]
    assert json.loads(trace.attrs["versions"])["torch"]
    assert (trace["status"] == "ok").all()


def test_costs_are_those_of_the_method(finished):
    trace = read_trace(finished.trace("fmgda", "tuned"))
    np.testing.assert_array_equal(trace["round"][0], [0, 2, 4])
    np.testing.assert_array_equal(trace["iteration"][0], [0, 6, 12])
    # Two gradients a step on 4 workers' 5 samples; B = b q = 15 of each at first.
    np.testing.assert_array_equal(trace["gradient_evaluations"][0], [0, 300, 540])
    numbers = 2 * 4 * (4241 + 3) * 4  # float32 up: θ and u, w and v, of 4 workers
    np.testing.assert_array_equal(trace["bytes_up"][0], [0, 2 * numbers, 4 * numbers])


def test_shards_hold_binary_thinned_rows_and_whole_test_rows(finished):
    shards = finished.results / "shards" / "digits" / "train"
    tested = set()
    for seed in (7, 0, 1):  # each has rows of its own
        (silo,) = shards.glob(f"*-seed{seed}-*/silo-0.parquet")
        data = read_shard(silo)
        assert set(data.samples.label) == {-1.0, 1.0}
        assert data.metadata["positive_rate"] == (data.samples.label > 0).mean() > 0.8
        assert len(data.test) == 359
        assert 0.42 < (data.test.label > 0).mean() < 0.58
        assert not set(data.test.sample_id) & set(data.samples.sample_id)
        tested.add(tuple(data.test.sample_id))
    assert len(tested) == 3


def test_another_experiments_runs_are_not_trained_twice(finished):
    table = finished.results / "experiments" / "demo-table"
    assert not (table / "traces").exists()
    assert {file.name for file in table.iterdir()} == EVALUATION


def test_second_run_does_nothing_and_edits_rerun_what_they_touch(workflow):
    assert workflow.planned() == []
    workflow.edit_code(
        "federations/horizontal/cpu_engine",
        "federations/vertical/network",
        "architectures/recurrent",
    )
    assert workflow.planned() == []
    workflow.edit_code("algorithms/fmgda")
    planned = workflow.planned()
    points = ["fmgda/primal_step_size-0.3", "fmgda/primal_step_size-1e-05"]
    # What is tuned may be chosen anew, so all tuned runs wait for the selection.
    assert set(points) | {"fmgda/tuned"} <= set(runs_in(planned))
    assert "sgda/only" not in runs_in(planned)
    assert files_of("demo-table", planned) == EVALUATION


def test_an_edited_network_reruns_its_runs(workflow):
    workflow.edit_code("architectures/convolutional")
    assert set(TUNED) < set(runs_in(workflow.planned()))


def test_an_edited_claim_or_figure_trains_nothing(workflow):
    experiments = "config/experiments/demo"
    workflow.edit(f"{experiments}/small.yaml", "FMGDA ends higher", "FMGDA ends highest")
    planned = workflow.planned()
    assert (runs_in(planned), files_of("demo-small", planned)) == ([], {"claims.csv"})
    workflow.edit(f"{experiments}/table.yaml", "fmgda: 0.9", "fmgda: 0.8")
    planned = workflow.planned()
    assert runs_in(planned) == []
    assert files_of("demo-table", planned) == {"figure.png", "figure.svg"}


def test_what_only_data_can_tell_stops_before_training(workflow):
    workflow.edit("config/experiments/demo/small.yaml", "{from: 5, to: 9}", "[11]")
    outcome = workflow.run("results/experiments/demo-small/claims.csv")
    assert outcome.returncode != 0
    logs = [file.read_text() for file in (workflow.folder / "logs" / "shard").glob("*.log")]
    message = "binary.positive names the label 11, which no row has; labels are 0, 1, 2"
    assert any(message in log for log in logs), logs


def test_all_verdicts_follow_from_what_is_published(finished, tmp_path):
    assert "verdicts follow from what is published" in finished.verified(tmp_path / "published")
