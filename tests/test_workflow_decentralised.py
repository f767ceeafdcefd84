"""The workflow over agents on graphs: budgets in traces, and experiments that train nothing."""

import csv
import json

import numpy as np
import pytest

from fedatlas.evaluation.tables import read_budgets
from fedatlas.store.trace import read_trace
from workflow_copy import EVALUATION, WorkflowCopy, files_of, runs_in, targets

SCHEME = "{name: s2, alpha: 0.1, beta: 0.1, gamma: 0.1, samples_base: 1.5, p_zeta: 0.9, p_eta: 0.9}"
EXPERIMENTS = {
    "small": f"""
paper: dpgt
title: "A small experiment"
source: "a test"
dataset: digits
partition: {{kind: horizontal, assignment: shuffled, clients: 3, test: 0.2}}
objective: {{name: cross_entropy, model: cnn_8x8}}
graphs:
  states: {{kind: directed_ring, weights: received}}
  trackers: {{kind: edges, edges: [[1, 0, 1], [2, 1, 1], [0, 2, 1]]}}
rounds: 4
record_every: 2
seeds: [0, 1]
runs:
  tracking:
    algorithm: dp_gradient_tracking
    hyper_parameters: {{clipping: none, horizon: 4, scheme: {SCHEME}}}
  quantised:
    algorithm: quantised_gradient_descent
    graphs: {{states: {{kind: ring, weights: metropolis}}}}
    hyper_parameters: {{clipping: l1, coupling: 0.1, step_size: 0.1, samples: 6, noise: 0.1}}
selection: {{measurement: train_accuracy}}
figure: {{measurement: test_accuracy, costs: [round, epsilon], points: selected}}
""",
    "shown": """
paper: dpgt
title: "One of its runs"
source: "a test"
runs_of: demo-small
only: [tracking]
selection: {measurement: train_accuracy}
figure: {measurement: test_accuracy_of_agents, costs: [round], points: selected}
""",
    "spent": """
extends: demo-small
title: "What its runs spend"
trained: false
budgets: {samples: 400, dimension: 4538, last_horizon: 8}
privacy_audit: {samples: 6, curvatures: [0], runs: 200}
runs:
  tracking:
    algorithm: dp_gradient_tracking
    hyper_parameters:
      clipping: none
      horizon: 4
      scheme:
        {name: s2, alpha: 0.1, beta: 0.1, gamma: 0.1, samples_base: 1.5, p_zeta: 0.9, p_eta: 0.9}
claims:
  - id: falls
    source: "a test"
    statement: "Budgets fall"
    test: {kind: budget_falls, run: tracking, from_horizon: 4}
  - id: stands
    source: "a test"
    statement: "Nothing refutes it"
    test: {kind: audit_stands, run: tracking}
""",
}
# Not the atlas and its pages, which other tests make.
TARGETS = targets(
    small="claims.csv figure.svg table.csv graphs.svg",
    shown="claims.csv figure.svg table.csv",
    spent="claims.csv budgets.svg conditions.csv privacy-audit.csv graphs.svg",
)
OF_BUDGETS = {"budgets.nc", "budgets.svg", "budgets.png", "conditions.csv", "privacy-audit.csv"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return WorkflowCopy.finished(tmp_path_factory, EXPERIMENTS, TARGETS)


def made(workflow, experiment):
    folder = workflow.results / "experiments" / f"demo-{experiment}"
    return {file.name for file in folder.iterdir() if file.is_file()}


def test_traces_carry_what_was_sent_and_what_was_spent(finished):
    trace = read_trace(finished.trace("tracking"))
    assert (trace["status"] == "ok").all()
    np.testing.assert_array_equal(trace["round"][0], [0, 2, 4])
    # Over 3 + 3 edges, 4,538 numbers of 4 bytes; m = ⌊1.5⁴⌋ + 1 = 6 samples, twice in round 0.
    np.testing.assert_array_equal(trace["bytes_sent"][0], [0, 2 * 6 * 4538 * 4, 4 * 6 * 4538 * 4])
    np.testing.assert_array_equal(trace["gradient_evaluations"][0], [0, 3 * 18, 5 * 18])
    budgets = read_budgets(finished.results / "experiments" / "demo-spent" / "budgets.nc")
    first = budgets["epsilon"].isel(case=0).to_numpy()
    np.testing.assert_allclose(trace["epsilon"][1], [0, first[1], first[3]])
    assert trace.attrs["privacy_statement"].startswith("assumes C = 1")
    quantised = read_trace(finished.trace("quantised"))
    assert "being cut to C/2" in quantised.attrs["privacy_statement"]
    assert float(quantised["bytes_sent"][0, -1]) < 4 * 6 * 4538 * 4  # in fewer bits


def test_what_is_made_of_every_kind_of_experiment(finished):
    assert made(finished, "small") == EVALUATION | {"graphs.svg", "graphs.png"}
    assert made(finished, "shown") == EVALUATION
    graphs = {"graphs.svg", "graphs.png"}
    selected = {"selection.json", "traces.nc", "claims.csv"}
    assert made(finished, "spent") == selected | OF_BUDGETS | graphs
    assert not (finished.results / "experiments" / "demo-spent" / "traces").exists()
    selection = json.loads(
        (finished.results / "experiments" / "demo-shown" / "selection.json").read_text()
    )
    assert list(selection["runs"]) == ["tracking"]


def test_budgets_are_judged_without_training(finished):
    with (finished.results / "experiments" / "demo-spent" / "claims.csv").open() as stream:
        falls, stands = csv.DictReader(stream)
    assert falls["claim"] == "demo-spent/falls" and "horizons 4 to 8" in falls["evidence"]
    assert stands["claim"] == "demo-spent/stands"
    assert stands["outcome"] == "not testable"


def test_second_run_does_nothing_and_edits_rerun_what_they_touch(workflow):
    assert workflow.planned() == []
    workflow.edit_code("federations/min_max/engine", "algorithms/fmgda")
    assert workflow.planned() == []
    workflow.edit_code("federations/decentralised/numpy_engines")
    # Linear agents belong to the same setting, whichever engine a run takes.
    assert set(runs_in(workflow.planned())) == {"tracking/only", "quantised/only"}


def test_an_edited_method_reruns_its_runs_and_its_budgets(workflow):
    workflow.edit_code("algorithms/quantised_gradient_descent")
    planned = workflow.planned()
    assert runs_in(planned) == ["quantised/only"]
    assert files_of("demo-spent", planned) == set()  # has no such run
    workflow.edit_code("algorithms/dp_gradient_tracking")
    planned = workflow.planned()
    assert set(runs_in(planned)) == {"tracking/only", "quantised/only"}
    assert files_of("demo-spent", planned) >= OF_BUDGETS


def test_an_edited_figure_of_graphs_or_budgets_trains_nothing(workflow):
    workflow.edit_code("figures/graphs")
    planned = workflow.planned()
    assert runs_in(planned) == []
    assert files_of("demo-small", planned) == {
        "graphs.svg",
        "graphs.png",
    }
    workflow.edit_code("figures/privacy")
    planned = workflow.planned()
    assert runs_in(planned) == []
    assert {"budgets.svg", "budgets.png"} <= files_of("demo-spent", planned)
    assert "budgets.nc" not in files_of("demo-spent", planned)


def test_more_samples_than_an_agent_has_stop_with_the_reason(workflow):
    workflow.edit("config/experiments/demo/small.yaml", "samples: 6", "samples: 600")
    outcome = workflow.run("results/experiments/demo-small/traces/quantised/only.nc")
    assert outcome.returncode != 0
    log = (workflow.folder / "logs" / "train" / "demo-small" / "quantised" / "only.log").read_text()
    assert "600 distinct samples cannot be drawn" in log and "Traceback" not in log


def test_all_verdicts_follow_from_what_is_published(finished, tmp_path):
    assert "verdicts follow from what is published" in finished.verified(tmp_path / "published")
