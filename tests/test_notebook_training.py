"""`fedatlas.train`: one run from arrays or a data set, without a workflow."""

import importlib
import inspect
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_digits

import fedatlas
from fedatlas.algorithms import algorithm_class, algorithm_names
from fedatlas.algorithms.fedavg import FedAvg, State
from fedatlas.errors import FedatlasError

RIDGE = {"name": "ridge_regression", "weight": 0.1}
LOGISTIC = {"name": "logistic_l2", "weight": 0.1}
CLIENTS = {"kind": "horizontal", "clients": 4}
STEPS = {"clients_per_round": 4, "local_steps": 1, "local_step_size": 0.1}


class Halved(FedAvg):
    """Moves the server by half of what FedAvg does."""

    def round(self, state, problem, network, random):
        return State((state.x + super().round(state, problem, network, random).x) / 2)


class Peeking(FedAvg):
    """Takes what clients find without the network."""

    def round(self, state, problem, network, random):
        clients = random.sample(problem.clients, self.clients_per_round)
        network.broadcast(state.x, to=clients)
        g = problem.gradient(state.x, problem.minibatches(random, clients, None))
        network.gather(g)
        return State(state.x - 0.1 * g.mean(0))


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    features = random.standard_normal((40, 3))
    return features, features @ [1.0, -2.0, 0.5] + 0.1 * random.standard_normal(40)


def trained(method, data, **changes):
    asked = {"partition": CLIENTS, "objective": RIDGE, "rounds": 5} | STEPS | changes
    return fedatlas.train(method, data, **asked)


def test_a_partition_that_does_not_fit_is_told_by_its_key(rows):
    partition = {**CLIENTS, "assignment": "dirichlet", "concentration": 1.0}
    with pytest.raises(
        FedatlasError, match=r"^fedatlas\.train: key 'partition\.assignment': assig"
    ):
        trained("fedavg", rows, partition=partition)


def test_full_rounds_of_one_step_are_gradient_descent(rows):
    features, label = rows
    x, expected = np.zeros(3), []
    for _ in range(6):
        apart = features @ x - label
        expected.append(np.mean(apart**2) + 0.05 * x @ x)
        x = x - 0.1 * (2 * features.T @ apart / 40 + 0.1 * x)
    trace = trained("fedavg", rows, seeds=[3, 7], optimum=True)
    np.testing.assert_allclose(trace.objective.sel(seed=3), expected, rtol=1e-12)
    assert trace.seed.values.tolist() == [3, 7]
    solution = np.linalg.solve(2 * features.T @ features / 40 + 0.1 * np.eye(3),
                               2 * features.T @ label / 40)  # fmt: skip
    least = np.mean((features @ solution - label) ** 2) + 0.05 * solution @ solution
    np.testing.assert_allclose(trace.suboptimality[0], expected - least, atol=1e-12)


@pytest.mark.parametrize("weights", ["equal", "size"])
def test_sub_optimality_is_that_of_the_clients_as_they_count(rows, weights):
    """Of seven clients of 40 rows some have one more."""
    asked = {"partition": CLIENTS | {"clients": 7, "test": 0.2, "assignment": "shuffled"}}
    asked["objective"] = RIDGE | {"client_weights": weights}
    trace = trained("fedavg", rows, rounds=300, optimum=True, clients_per_round=7, **asked)
    assert abs(trace.suboptimality[0, -1]) < 1e-9 < trace.suboptimality[0, 0]


def test_sparse_rows_and_labels_0_and_1_are_the_same_as_others(rows):
    features, label = rows[0], np.sign(rows[1])
    found = [
        trained("fedavg", data, objective=LOGISTIC).objective.values
        for data in (
            (features, label),
            (sparse.coo_matrix(features), label),
            (features, label > 0),
        )
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-12)


def test_rows_by_split_are_kept_for_testing(rows):
    features, label = rows[0], np.sign(rows[1])
    data = {"train": (features, label), "test": (features[:10], label[:10])}
    trace = trained("fedavg", data, objective=LOGISTIC, partition=CLIENTS | {"test": "test"})
    assert trace.test_accuracy[0, -1] > 0.8


def test_threads_of_the_process_change_no_number(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    random = np.random.default_rng(0)
    rows = random.normal(size=(2000, 40)).astype(np.float32), random.integers(0, 10, 2000)
    classes = {"name": "cross_entropy", "model": "linear"}
    before, digests = torch.get_num_threads(), set()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        trace = trained("fedavg", rows, objective=classes, partition=CLIENTS)
        digests.add(trace.attrs["values_digest"])
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    assert len(digests) == 1


def test_networks_take_images_and_classes():
    digits = load_digits()
    trace = fedatlas.train(
        "growing_samples_descent",
        (digits.images[:200, None] / 16, digits.target[:200]),
        partition={"kind": "horizontal", "clients": 3},
        objective={"name": "cross_entropy", "model": "linear"},
        graphs={"states": {"kind": "ring", "weights": "metropolis"}},
        rounds=30, record_every=30,
        coupling=0.5, step_size=0.3, samples=16, clipping="none", noise=1e-3,
    )  # fmt: skip
    assert trace.train_accuracy[0, -1] > trace.train_accuracy[0, 0] + 0.3


def test_a_class_of_a_notebook_is_rehearsed_and_trained(rows):
    trace = trained(Halved, rows)
    slower = trained("fedavg", rows, local_step_size=0.05)
    np.testing.assert_allclose(trace.objective, slower.objective, rtol=1e-12)
    assert trace.attrs["algorithm"].endswith(":Halved")
    with pytest.raises(FedatlasError, match="the server's model depends on"):
        trained(Peeking, rows)


def test_the_first_pages_method_trains_as_it_stands(tmp_path, monkeypatch):
    page = (Path(__file__).parent.parent / "docs" / "start.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    (tmp_path / "first_page.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    plt.switch_backend("agg")
    trace = importlib.import_module("first_page").trace
    plt.close("all")
    assert (trace.suboptimality[:, -1] < trace.suboptimality[:, 0] / 10).all()


@pytest.mark.parametrize(
    ("method", "change", "told"),
    [
        ("fedavgg", {}, "unknown algorithm 'fedavgg'.*similar: fedavg"),
        ("fedavg", {"local_step": 3}, "fedatlas.train: runs.fedavg.hyper_parameters.*local_step"),
        ("fedavg", {"objective": LOGISTIC}, "needs labels ±1, but notebook is a regression"),
        ("fedavg", {"partition": {"kind": "horizontal", "clients": 50}}, "50 .*40"),
        ("fedavg", {"clients_per_round": 5}, "'clients_per_round' is 5.* only 4 clients"),
    ],
)
def test_what_does_not_fit_is_said(rows, method, change, told):
    with pytest.raises(FedatlasError, match=told):
        trained(method, rows, **change)


def test_a_class_within_a_function_is_refused(rows):
    class Inner(FedAvg):
        pass

    with pytest.raises(FedatlasError, match="Inner is defined within a function"):
        trained(Inner, rows)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda x, y: (x, y[1:]), r"shape \(40, 3\) and labels \(39,\)"),
        (lambda x, y: (np.where(x > 2, np.nan, x), y), "infinite or not a number"),
        (lambda x, y: (x.reshape(40, 3, 1), y), "with an objective that has a 'model'"),
    ],
)
def test_rows_that_are_none_are_refused(rows, spoil, told):
    with pytest.raises(FedatlasError, match=f"data, split 'train': .*{told}"):
        trained("fedavg", spoil(*rows))


def test_data_that_must_be_fetched_first_say_how(tmp_path):
    with pytest.raises(FedatlasError, match=r"`snakemake .*data/a9a/train.parquet --cores 1`"):
        trained("fedavg", "a9a", objective=LOGISTIC, results=tmp_path)


def test_no_hyper_parameter_has_the_name_of_an_argument():
    own = set(inspect.signature(fedatlas.train).parameters)
    for name in algorithm_names():
        assert not own & set(algorithm_class(name).model_fields), name
