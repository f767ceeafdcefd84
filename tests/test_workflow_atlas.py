"""The workflow across papers: one objective for all kinds of partitions, the atlas, its pages."""

import json

import numpy as np
import pytest
import xarray as xr

import fedatlas
from fedatlas.store.atlas import atlas_runs
from fedatlas.store.trace import read_trace
from workflow_copy import WorkflowCopy, runs_in

ATLAS = "results"
OWN = "results/experiments/demo-across/traces.nc"
PAGES = ["results/explorer.html", "results/summary.md"]
ACROSS = """
paper: ours
title: "One objective"
source: "a test"
dataset: breast-cancer
partition: {kind: horizontal, assignment: consecutive, clients: 45, samples: 560, test: 110}
network: {latency: 0.01}
objective: {name: logistic_l2, weight: 0.01}
rounds: 6
record_every: 2
seeds: [0, 1]
runs:
  fedavg:
    algorithm: fedavg
    hyper_parameters: {clients_per_round: 5, local_steps: 2, batch_size: 4, local_step_size: 0.1}
  tdcd:
    algorithm: tdcd
    partition: {kind: tiered, cut: {columns: 3}, clients: 5, samples: 560, test: 110}
    hyper_parameters: {local_steps: 2, batch_size: 45, step_size: 0.1}
  svrg:
    algorithm: vfb2_svrg
    partition: {kind: vertical, parties: 3, active: 2, samples: 560, test: 110, seed: 0}
    hyper_parameters: {step_size: 0.05}
selection: {measurement: objective}
figure:
  measurement: suboptimality
  costs: [exchanges, "network(latency=0.01, bandwidth=1e6, gradient=1e-6)"]
  points: selected
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return WorkflowCopy.finished(tmp_path_factory, {"across": ACROSS})


def remade(workflow: WorkflowCopy) -> list[str]:
    """What a dry run would make of runs kept together and of the pages."""
    planned = workflow.planned()
    return [file for file in planned if file.endswith(("traces.nc", "summary.md", "explorer.html"))]


def test_a_second_run_does_nothing(finished):
    assert finished.planned() == []


def test_all_traces_are_in_the_atlas_and_nothing_else(finished):
    traces = sorted((finished.results / "experiments").glob("*/traces/*/*.nc"))
    assert len(traces) == 4 + 3
    atlas = fedatlas.open_atlas(finished.folder / ATLAS)
    leaves = {node.path: node for node in atlas.to_datatree().subtree if node.has_data}
    assert len(leaves) == len(traces)
    for file in traces:
        trace = read_trace(file)
        experiment, run, point = file.parts[-4], file.parts[-2], file.stem
        node = leaves[f"/{trace.attrs['paper']}/{experiment}/{run}/{point}"]
        xr.testing.assert_identical(node.to_dataset().load(), trace)


def test_all_kinds_of_partitions_have_one_optimum_and_start_from_one_objective(finished):
    atlas = fedatlas.open_atlas(finished.folder / ATLAS)
    runs = [atlas[f"/ours/demo-across/{run}/only"] for run in ("fedavg", "tdcd", "svrg")]
    optima = {node.attrs["optima"] for node in runs}
    assert len(optima) == 1
    best = json.loads(optima.pop())
    for node in runs:
        np.testing.assert_allclose(node["objective"][:, 0], np.log(2), rtol=1e-12)
        assert node["suboptimality"][0, 0] == node["objective"][0, 0] - best["0"]
    assert len(list((finished.results / "optima").rglob("*.json"))) == 1


def test_runs_are_compared_by_what_they_spend(finished):
    atlas = fedatlas.open_atlas(finished.folder / ATLAS)
    found = fedatlas.compare(atlas, "suboptimality", ["exchanges", "bytes"], target=0.5).dataset
    assert set(found["title"].values) >= {"FedAvg", "TDCD", "VFB²-SVRG"}
    trace = read_trace(
        finished.results / "experiments" / "demo-across" / "traces" / "tdcd" / "only.nc"
    )
    # Every seed first passes the target between its first two records, on a line of logarithms.
    first, second = trace["suboptimality"].values[:, :2].T
    assert (first > 0.5).all() and (second < 0.5).all()
    share = np.log(first / 0.5) / np.log(first / second)
    tdcd = found.sel(cost="exchanges").isel(run=list(found["title"].values).index("TDCD"))
    np.testing.assert_allclose(tdcd["cost_to_target"], share * trace["round"].values[:, 1])


def test_another_title_is_written_anew_and_nothing_is_trained(workflow):
    workflow.edit("config/experiments/demo/across.yaml", "One objective", "Another title")
    planned = workflow.planned()
    assert runs_in(planned) == []
    assert [file for file in planned if file.endswith("traces.nc")] == [OWN]
    # Nor for another network.
    workflow.edit("config/experiments/demo/across.yaml", "bandwidth=1e6", "bandwidth=1e3")
    planned = workflow.planned()
    assert runs_in(planned) == []
    assert any(file.endswith("demo-across/figure.svg") for file in planned)


def test_an_edited_method_changes_its_experiments_only(workflow):
    workflow.edit_code("algorithms/tdcd")
    assert set(remade(workflow)) == {OWN, *PAGES}


def test_the_atlas_keeps_what_is_no_longer_selected(workflow):
    only = ("all", "--config", 'experiments=["demo-small"]')
    outcome = workflow.run(*only)
    assert outcome.returncode == 0, outcome.stderr
    atlas = fedatlas.open_atlas(workflow.folder / ATLAS)
    assert len(list(atlas_runs(atlas))) == 3 + 3
    page = (workflow.folder / PAGES[0]).read_text(encoding="utf-8")
    assert "demo-across" in page
    # An edit makes what is kept stale, and nothing else.
    workflow.edit_code("algorithms/tdcd")
    assert "Nothing to be done" in workflow.ask("--cores", "2", "--dry-run", *only)[1]


def test_an_edited_page_is_written_anew_and_nothing_else(workflow):
    page = next((workflow.folder / "src/fedatlas/pages/page").glob("*.js"))
    with page.open("a", encoding="utf-8") as stream:
        stream.write("\n// an edit\n")
    assert workflow.planned() == ["results/explorer", "results/explorer.html"]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("sentences", "then FedPAGE with K = 1", "FedPAGE with K = 1"),
        ("coverage", "[fedpage-fig1a], ran: paper", "[fedpage-fig1a], why: a test, ran: smaller"),
    ],
)
def test_pages_of_verdicts_follow_what_is_said_of_sentences(workflow, file, old, new):
    workflow.edit(f"config/{file}.yaml", old, new)
    pages = ["claims.csv", "claims.html", "explorer", "explorer.html", "summary.md"]
    assert workflow.planned() == [f"results/{page}" for page in pages]


def test_a_trace_that_was_damaged_later_stops_the_workflow_by_name(workflow):
    trace = workflow.trace("fedavg")
    trace.write_bytes(trace.read_bytes()[:-1000])
    kept = workflow.folder / "results/experiments/demo-small/traces.nc"
    outcome = workflow.run(str(kept.relative_to(workflow.folder)))
    assert outcome.returncode != 0
    assert "error:" in outcome.stderr and "demo-small/traces/fedavg/only.nc" in outcome.stderr
    assert "Failed: rule select_points" in outcome.stderr
    assert "log: logs/select_points/demo-small.log" in outcome.stderr
    made = "results/experiments/demo-small/selection.json"
    assert f"run it alone: snakemake {made} --cores 1" in outcome.stderr
    assert not kept.exists()  # nor is there one of other traces
