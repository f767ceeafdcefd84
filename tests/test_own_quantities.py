"""Measurements and costs that files declare, of a project and of the package."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import fedatlas
from experiment_files import BASE, load
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.quantities import unit_of_losses
from fedatlas.federations.context import FederationContext
from fedatlas.federations.parts import Predicted
from fedatlas.measurements import Cost
from fedatlas.schema.declared import _counted, quantity_class
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.quantities import AXES, COSTS, LARGER_IS_BETTER, LEVELS, MEASUREMENTS
from fedatlas.store.experiment import (
    Experiment,
    ExperimentHeading,
    StoredPoint,
    join_traces,
    write_experiment,
)
from fedatlas.store.table import NUMBERS
from fedatlas.training.loop import train
from outside_project import open_project, whole_files
from small_federations import NORMALISATION, images, share_out, small, small_shards

CLIENTS = [f"client_accuracy_{of}" for of in ("mean", "worst", "decile", "spread")]
STAR = {
    "rounds": 20, "record_every": 10, "seeds": 2,
    "partition": {"kind": "horizontal", "clients": 20, "samples": 560},
    "objective": {"name": "logistic_l2", "weight": 1e-3},
    "clients_per_round": 5, "local_steps": 5, "batch_size": 4, "local_step_size": 0.1,
}  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    return open_project(tmp_path / "lab", whole_files("adding/measurement"), monkeypatch)


def test_accuracies_by_client_are_those_of_a_loop_over_clients():
    random = np.random.default_rng(0)
    sizes = np.array([3, 0, 1, 40, 7, 0])  # clients without samples have no accuracy
    right = random.random(sizes.sum()) < 0.6
    offsets = np.append(0, np.cumsum(sizes))
    predicted = Predicted(np.zeros(len(right)), np.zeros(len(right)), right, offsets)
    problem = SimpleNamespace(predicted=lambda point, rows: predicted)
    own = [part.mean() for part in np.split(right, offsets[1:-1]) if len(part)]
    assert len(own) == 4
    expected = [np.mean(own), min(own), np.quantile(own, 0.1), np.std(own)]
    found = [quantity_class(name)().measure(problem, None) for name in CLIENTS]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("network", [False, True])
def test_what_a_model_predicts_has_the_accuracies_that_are_measured(tmp_path, network):
    if network:
        partition = HorizontalPartition(clients=6, test=0.2, assignment="shuffled")
        objective = {"name": "cross_entropy", "model": "linear"}
        shards = share_out(tmp_path, partition, images(), (1, 8, 8), normalisation=NORMALISATION)
    else:
        partition, objective = HorizontalPartition(clients=12), small("fedavg").objective
        shards = small_shards(tmp_path, "fedavg")
    changes = {"partition": partition, "objective": objective, "measurements": CLIENTS}
    spec, points = small("fedavg", **changes), []
    trace = train(spec, shards, tmp_path / "trace.nc", keep=points.append)
    context = FederationContext(spec, shards, "cpu")
    for seed, point, place in zip(spec.seeds, points, (0, 1), strict=True):
        problem = context.seed_run(seed).problem
        for rows in ("train", "test") if network else ("train",):
            found = problem.predicted(point, rows)
            accuracy = trace[f"{rows}_accuracy"].to_numpy()[place, -1]
            assert found.right.mean() == pytest.approx(accuracy)
            assert len(found.labels) == found.offsets[-1] == len(found.outputs)
        if not network:
            with pytest.raises(FedatlasError, match="no test rows are kept"):
                problem.predicted(point, "test")
    for name in CLIENTS:
        assert trace[name].attrs["long_name"].startswith("accuracy on a client's training samples")


def test_rows_of_parties_are_predicted_side_by_side(project, tmp_path):
    """Compared with a loop over pairs, and with the accuracies that are measured anyway."""
    spec, points = small("vfb2_sgd", measurements=["test_roc_area"]), []
    shards = small_shards(tmp_path, "vfb2_sgd")
    trace = train(spec, shards, tmp_path / "trace.nc", keep=points.append)
    problem = FederationContext(spec, shards, "cpu").seed_run(spec.seeds[0]).problem
    found = problem.predicted(points[0], "test")
    pairs = [
        float(a > b) + 0.5 * float(a == b)
        for a in found.outputs[found.labels > 0]
        for b in found.outputs[found.labels < 0]
    ]
    assert trace["test_roc_area"].to_numpy()[0, -1] == pytest.approx(np.mean(pairs))
    for rows in ("train", "test"):
        found = problem.predicted(points[0], rows)
        assert found.right.mean() == pytest.approx(trace[f"{rows}_accuracy"].to_numpy()[0, -1])
        assert found.offsets.tolist() == [0, len(found.outputs)] == [0, len(found.labels)]
    with pytest.raises(FedatlasError, match="no validation rows are kept: parties have"):
        problem.predicted(points[0], "validation")


def test_what_runs_measure_is_listed_as_far_as_their_labels_allow(project, tmp_path):
    own = {"figure": {"measurement": "disagreement"}}
    with pytest.raises(FedatlasError) as raised:
        load(tmp_path, one=BASE | own)
    listed = str(raised.value).partition("name one of ")[2].split(", ")
    assert "client_loss_worst" in listed and "test_accuracy" in listed
    assert "test_rmse" not in listed and "test_roc_area" not in listed


def test_files_of_a_project_are_measurements_and_costs_like_any_other(project, tmp_path):
    assert {"client_loss_worst", *CLIENTS} <= set(LEVELS) & set(MEASUREMENTS)
    assert "client_loss_worst" not in LARGER_IS_BETTER
    assert "client_accuracy_worst" in LARGER_IS_BETTER
    assert {"joules"} <= set(COSTS) & set(AXES) & set(NUMBERS)
    asked = ["client_loss_worst", "joules"]
    trace = fedatlas.train("fedavg", "breast-cancer", measurements=asked, **STAR)
    usual = fedatlas.train("fedavg", "breast-cancer", **STAR)
    assert "measurements" not in usual.attrs["specification"]
    assert set(trace.variables) - set(usual.variables) == set(asked)
    for name in set(usual.variables) - {"wall_time"}:  # nothing that is asked is counted
        np.testing.assert_array_equal(trace[name], usual[name])
    joules = 1e-6 * trace["gradient_evaluations"] + 2e-6 * (trace["bytes_up"] + trace["bytes_down"])
    np.testing.assert_allclose(trace["joules"], joules, rtol=1e-15)
    assert "joules" in trace.coords and trace["joules"].attrs["units"] == "J"
    assert (trace["client_loss_worst"] >= trace["objective"] - 1e-3).all()
    ended = fedatlas.train(
        "fedavg", "breast-cancer", until={"joules": 0.02, "client_loss_worst": 1e-4}, **STAR
    )
    assert json.loads(ended.attrs["ended_by"]) == {"0": "joules", "1": "joules"}
    spec = json.loads(trace.attrs["specification"])
    assert spec["measurements"] == asked

    heading = ExperimentHeading(
        paper="ours", experiment="e", title="t", source="s", notes="", dataset="breast-cancer"
    )
    path = tmp_path / "traces.nc"
    write_experiment(join_traces(heading, [StoredPoint(trace, "t", True)]), path)
    read = Experiment(path).trace("fedavg", "only")
    np.testing.assert_array_equal(read["joules"], trace["joules"])
    np.testing.assert_array_equal(read["client_loss_worst"], trace["client_loss_worst"])


def test_axes_have_units_and_prefixes_of_bytes_and_seconds_only():
    def declared(units):
        return _counted(type("Money", (Cost,), {"title": "money spent", "units": units}))

    told = {units: (declared(units).label, declared(units).ticks) for units in ("EUR", "1")}
    assert told == {"EUR": ("money spent (EUR)", None), "1": ("money spent", None)}
    assert (declared("byte").ticks, declared("s").ticks) == ("B", "s")


def test_ratios_are_compared_of_what_is_logarithmic_and_differences_of_other_declared_ones(project):
    assert unit_of_losses("client_loss_worst") == unit_of_losses("objective") == "decades"
    assert unit_of_losses("client_accuracy_spread") == "client_accuracy_spread"


def test_an_experiment_records_what_it_looks_at_and_lists(project, tmp_path):
    content = BASE | {
        "measurements": ["client_accuracy_worst"],
        "figure": {"measurement": "client_loss_worst", "costs": ["joules"]},
        "until": {"client_accuracy_mean": 0.9},
    }
    (experiment,) = load(tmp_path, one=content).values()
    expected = ("client_accuracy_mean", "client_accuracy_worst", "client_loss_worst", "joules")
    assert experiment.measurements_of("one") == expected


AGENTS = {"graphs": {"states": {"kind": "ring", "weights": "metropolis"}}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"measurements": ["objective"]}, "must be a file of 'measurements': client_accuracy_dec"),
        (AGENTS | {"measurements": ["joules"]}, "no run here has 'joules': measurements/joules.py"),
        (AGENTS | {"figure": {"measurement": "client_loss_worst"}}, "is for the federations horiz"),
    ],
)
def test_what_no_run_has_is_refused(project, tmp_path, changes, message):
    with pytest.raises(FedatlasError, match=message):
        load(tmp_path, one=BASE | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class A(Measurement):\n    title = 'a'\n", "a.py: A must define measure"),
        ("class A(Cost):\n    def spent(self, *_): return 1\n", "a.py: A must define title"),
        ("class A(Measurement:\n", r"a.py, line 2"),
        ("", "a.py: must define a subclass of Quantity"),
    ],
)
def test_a_file_that_declares_nothing_sound_is_named(tmp_path, monkeypatch, text, message):
    head = "from fedatlas.measurements import Cost, Measurement\n"
    open_project(tmp_path / "lab", {"measurements/a.py": head + text}, monkeypatch)
    with pytest.raises(FedatlasError, match=message):
        load(tmp_path, one=BASE)


OF_STATE = """
from fedatlas.measurements import Cost

class Shares(Cost):
    title = "what a method counts itself"
    methods = ("counting",)

    def spent(self, counted, problem, state):
        return {}
"""
COUNTING = """
from dataclasses import dataclass
from typing import Any

from fedatlas.algorithms.fedavg import FedAvg

@dataclass(frozen=True)
class State:
    x: Any
    shares: float = 0.0

class Counting(FedAvg):
    title = "FedAvg that counts"
    source = "ours"

    def start(self, problem, network, x0):
        return State(x0)

    def round(self, state, problem, network, random):
        moved = super().round(state, problem, network, random)
        return State(moved.x, state.shares + 2.5)
"""


def test_a_method_keeps_what_it_alone_can_count_in_its_state(tmp_path, monkeypatch):
    files = {"methods/counting.py": COUNTING}
    files["measurements/shares.py"] = OF_STATE.format("state.shares")
    files["measurements/falling.py"] = OF_STATE.format("-state.shares")
    open_project(tmp_path / "lab", files, monkeypatch)
    trace = fedatlas.train("counting", "breast-cancer", measurements=["shares"], **STAR)
    np.testing.assert_array_equal(trace["shares"], [[0, 25, 50]] * 2)
    with pytest.raises(FedatlasError, match=r"no run here has 'shares'.*for the methods counting"):
        fedatlas.train("fedavg", "breast-cancer", measurements=["shares"], **STAR)
    with pytest.raises(FedatlasError, match=r"falling.py: falls from -?0 to -25 by round 10"):
        fedatlas.train("counting", "breast-cancer", measurements=["falling"], **STAR)


OF_ONE = """
from fedatlas.measurements import Measurement

class A(Measurement):
    title = "a"

    def measure(self, problem, point):
        return {}
"""


def test_what_is_no_finite_number_is_named_with_its_round(tmp_path, monkeypatch):
    text = OF_ONE.format("float('nan') if point.any() else 1")
    open_project(tmp_path / "lab", {"measurements/a.py": text}, monkeypatch)
    with pytest.raises(FedatlasError, match=r"measurements/a.py: gives nan after round 10"):
        fedatlas.train("fedavg", "breast-cancer", measurements=["a"], **STAR)


def test_a_file_cannot_have_the_name_of_what_all_runs_have(tmp_path, monkeypatch):
    files = {"measurements/objective.py": OF_ONE.format(1)}
    open_project(tmp_path / "lab", files, monkeypatch)
    with pytest.raises(FedatlasError, match=r"objective.py: fedatlas records 'objective' of its"):
        load(tmp_path, one=BASE)
