"""The workflow over silos: cut, shared out, trained, timed afterwards, rerun where it must be."""

import json

import numpy as np
import pytest

from fedatlas.evaluation.levels import cost_axis
from fedatlas.store.trace import read_trace
from workflow_copy import WorkflowCopy, runs_in, targets

EXPERIMENTS = {
    "small": """
paper: tdcd
title: "A small experiment"
source: "a test"
dataset: digits
partition: {kind: tiered, cut: {width: 2}, clients: 4, test: 0.2}
objective: {name: cross_entropy, model: linear}
rounds: 6
record_every: 2
seeds: [0, 1]
tuning_seeds: [7]
runs:
  one-step:
    algorithm: tdcd
    rounds: 12
    record_every: 6
    hyper_parameters: {local_steps: 1, batch_size: 100}
    grid: {step_size: [0.01, 0.05]}
  two-steps:
    algorithm: tdcd
    hyper_parameters: {local_steps: 2, batch_size: 100, step_size: 0.05}
  quarters:
    algorithm: tdcd
    partition: {kind: tiered, cut: {height: 2, width: 2}, clients: 3, test: 0.2}
    hyper_parameters: {local_steps: 2, batch_size: 100, step_size: 0.05, labels: first_silo}
selection: {measurement: objective}
figure: {measurement: objective, costs: [iteration, "latency(10)"], points: selected}
claims:
  - id: faster
    source: "a test"
    statement: "Two steps are faster in time"
    test:
      kind: order
      first: two-steps
      second: one-step
      relation: faster
      measurement: objective
      cost: "latency(10)"
""",
    "shown": """
paper: tdcd
title: "One of its runs by another latency"
source: "a test"
runs_of: demo-small
only: [one-step, two-steps]
selection: {measurement: objective}
figure: {measurement: test_top5_accuracy, costs: ["latency(10, 1000)"], points: selected}
""",
    "network": """
paper: tdcd
title: "The same runs on a declared network"
source: "a test"
runs_of: demo-small
selection: {measurement: objective}
figure:
  measurement: objective
  costs: ["network(latency=0.05, bandwidth=1e6, gradient=1e-5)"]
  points: selected
""",
}
# Not the atlas and its pages, which other tests make.
TARGETS = targets(small="claims.csv figure.svg", shown="figure.svg", network="figure.svg")
RUNS = ["one-step/step_size-0.01", "one-step/step_size-0.05", "quarters/only", "two-steps/only"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return WorkflowCopy.finished(tmp_path_factory, EXPERIMENTS, TARGETS)


def test_silos_have_files_of_their_own(finished):
    shards = finished.results / "shards" / "digits" / "train"
    found = {
        folder.name: sorted(file.name for file in folder.iterdir()) for folder in shards.iterdir()
    }
    silos = {"width2-k4": 2, "height2-width2-k3": 4}
    assert found == {
        f"tiered-{cut}-seed{seed}-test0.2": [
            "manifest.json",
            *(f"silo-{silo}.parquet" for silo in range(number)),
        ]
        for cut, number in silos.items()
        for seed in ((0, 1, 7) if cut == "width2-k4" else (0, 1))
    }
    manifest = json.loads((shards / "tiered-width2-k4-seed0-test0.2/manifest.json").read_text())
    assert [len(silo["clients"]) for silo in manifest["silos"]] == [4, 4]


def test_traces_count_rounds_steps_and_trips(finished):
    one, two = (
        read_trace(finished.trace("one-step", "step_size-0.05")),
        read_trace(finished.trace("two-steps")),
    )
    np.testing.assert_array_equal(one["iteration"][0], [0, 6, 12])
    np.testing.assert_array_equal(two["iteration"][1], [0, 4, 8, 12])
    np.testing.assert_array_equal(two["epoch"][0], two["iteration"][0] * 100 / 1438)
    # 3 t_comm + Q for every round (TDCD section 5.2).
    np.testing.assert_allclose(cost_axis(one, "latency(10)")[0], [0, 6 * 31, 12 * 31])
    np.testing.assert_allclose(cost_axis(two, "latency(10)")[0], [0, 2 * 32, 4 * 32, 6 * 32])
    # 100 samples of halves of 8 × 8 pixels; ten outputs, float32. The slowest of four clients has
    # at least a quarter of them, and half of the model's parameters.
    parameters, embeddings = 10 * 33, 100 * 10 * 4
    models = 4 * (4 * parameters + 8 * 100) + 4 * 4 * parameters
    for trace, steps in ((one, 1), (two, 2)):
        rounds = trace["round"]
        np.testing.assert_array_equal(trace["sequential_messages"], 5 * rounds)
        of_round = models + (1 + 2 + 1) * embeddings
        np.testing.assert_array_equal(trace["sequential_bytes"], of_round * rounds)
        least = steps * 100 / 4 / 2
        assert (trace["sequential_gradients"] >= least * rounds).all()
        assert (trace["sequential_gradients"] < 2 * least * rounds)[:, 1:].all()
        network = "network(latency=0.05, bandwidth=1e6, gradient=1e-3)"
        of_gradients = 1e-3 * trace["sequential_gradients"]
        expected = (5 * 0.05 + of_round / 1e6) * rounds + of_gradients
        np.testing.assert_allclose(cost_axis(trace, network), expected)
    quarters = read_trace(finished.trace("quarters"))
    assert quarters["hub_client_trips"][0, -1] == 6 * (1 + 2 * 2)
    assert quarters["hub_hub_trips"][0, -1] == 6 * 2


def test_another_latency_redraws_and_judges_again_and_trains_nothing(workflow):
    folder = "config/experiments/demo"
    workflow.edit(f"{folder}/shown.yaml", "latency(10, 1000)", "latency(5)")
    workflow.edit(f"{folder}/small.yaml", 'cost: "latency(10)"', 'cost: "latency(7)"')
    planned = workflow.planned()
    assert not runs_in(planned)
    assert "results/experiments/demo-shown/figure.svg" in planned
    assert "results/experiments/demo-small/claims.csv" in planned
    assert "results/experiments/demo-small/figure.svg" not in planned


def test_another_network_redraws_its_figure_and_nothing_else(workflow):
    file = "config/experiments/demo/network.yaml"
    workflow.edit(file, "network(latency=0.05, bandwidth=1e6", "network(latency=5, bandwidth=1e3")
    figure = "results/experiments/demo-network/figure"
    remade = set(workflow.planned())
    assert remade == {f"{figure}.png", f"{figure}.svg"}


def test_second_run_does_nothing_and_edits_rerun_what_they_touch(workflow):
    assert not workflow.planned()
    workflow.edit_code("federations/decentralised/numpy_engines", "architectures/recurrent")
    assert not workflow.planned()
    workflow.edit_code("architectures/linear")
    assert runs_in(workflow.planned()) == RUNS


def test_all_verdicts_follow_from_what_is_published(finished, tmp_path):
    assert "verdicts follow from what is published" in finished.verified(tmp_path / "published")
