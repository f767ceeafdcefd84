"""Losses in files: beside plain loops and torch, in every federation; what refuses and reruns."""

import re

import numpy as np
import pytest
import torch
from torch.nn import functional

import fedatlas
from fedatlas.arithmetic.kernels.formulas import LinearModel
from fedatlas.arithmetic.network_losses import network_loss
from fedatlas.arithmetic.samples import Samples
from fedatlas.code import code_digest
from fedatlas.errors import FedatlasError
from fedatlas.extensions import VARIABLE, open_projects
from fedatlas.federations.context import _claimed
from fedatlas.federations.shards import ClientSamples
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.objectives import _losses
from fedatlas.schema.models import validated
from fedatlas.schema.objectives import LinearObjective, Objective, objective_classes
from fedatlas.schema.partitions import TieredPartition
from fedatlas.studies.leaks import derivatives
from fedatlas.theory.constants import constants_of
from fedatlas.training.rehearsal import rehearse_without_data
from fedatlas.training.solver import solve
from outside_project import open_project, whole_files, write_project
from small_federations import small

FILES = whole_files("adding/objective")
POISSON = FILES["objectives/poisson.py"]
HUBER = {"name": "huber", "weight": 0.1, "parameters": {"delta": 0.4}}
SILOS = TieredPartition(cut={"columns": 2}, clients=3, samples=40, test=0.25)
STEPS = {"clients_per_round": 4, "local_steps": 2, "batch_size": None, "local_step_size": 0.2}


@pytest.fixture
def project(tmp_path, monkeypatch):
    return open_project(tmp_path, FILES, monkeypatch)


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    features = random.standard_normal((40, 3))
    return features, features @ [1.0, -2.0, 0.5] + random.standard_normal(40)


def huber(x, features, label, delta=0.4, weight=0.1):
    """Value and gradient, from Huber's two cases."""
    r = features @ x - label
    small = np.abs(r) <= delta
    value = np.where(small, r**2 / 2, delta * np.abs(r) - delta**2 / 2).mean()
    gradient = features.T @ np.where(small, r, delta * np.sign(r)) / len(r) + weight * x
    return value + weight * x @ x / 2, gradient


def by_hand(rows, rounds):
    """FedAvg with four clients of ten rows, two full local steps of 0.2."""
    features, label = (part.reshape(4, 10, -1) for part in rows)
    x = np.zeros(3)
    for _ in range(rounds):
        yield huber(x, *rows)[0]
        ends = []
        for own, told in zip(features, label[..., 0], strict=True):
            y = x
            for _ in range(2):
                y = y - 0.2 * huber(y, own, told)[1]
            ends.append(y)
        x = np.mean(ends, axis=0)


@pytest.mark.parametrize("compiles", [True, False])
def test_fedavg_follows_a_plain_loop(rows, compiles, tmp_path, monkeypatch, caplog):
    """Also where numba cannot compile the file."""
    if not compiles:
        text = (fedatlas.objectives.own_losses()["huber"].file).read_text("utf-8")
        text = text.replace("return max(", "return {0: max}[0](")
        files = {"objectives/other.py": text.replace("delta: float", "delta")}
        open_project(tmp_path, files, monkeypatch)
    objective = HUBER | {"name": "huber" if compiles else "other"}
    partition = {"kind": "horizontal", "clients": 4}
    asked = {"partition": partition, "objective": objective, "rounds": 5, "optimum": True} | STEPS
    trace = fedatlas.train("fedavg", rows, **asked)
    np.testing.assert_allclose(trace.objective[0], [*by_hand(rows, 6)], rtol=1e-13)
    assert ("numba cannot compile derivative" in caplog.text) != compiles
    least = float(trace.objective[0, 0] - trace.suboptimality[0, 0])
    best, found = solve(PartyRows(*rows, np.array([0, 3])), LinearObjective(**HUBER))
    assert abs(huber(best, *rows)[0] - least) < 1e-12 and found.gap < 1e-10
    assert np.linalg.norm(huber(best, *rows)[1]) < 1e-6


def test_rows_in_any_layout_and_constants(rows):
    features, label = rows
    objective = LinearObjective(**HUBER)
    model = LinearModel(features, label, objective)
    np.testing.assert_allclose(model.smoothness, (features**2).sum(1).max() + 0.1)
    data = ClientSamples(Samples.numbered(label, features), np.arange(0, 41, 10), {}, None)
    constants = constants_of(data, objective)
    assert constants.convexity == 0.1 and objective.loss.steepest == 0.4
    without = LinearObjective(name="huber", nonsmooth={"name": "l1", "weight": 0.1})
    assert objective.has_constants and not without.has_constants
    assert hash(objective) == hash(LinearObjective(**HUBER)) and objective != without
    with pytest.raises(FedatlasError, match="no attack knows the loss huber"):
        derivatives(objective.loss, label, label)


def test_a_gpu_that_is_asked_for_computes_what_it_knows():
    """Runs with others stay on the CPU: nothing looks for a GPU then."""
    for objective in (HUBER, {"name": "logistic", "nonsmooth": {"name": "l1", "weight": 0.1}}):
        assert _claimed(small("fedavg", objective=objective), "cuda:7") == "cpu"
    with pytest.raises(FedatlasError, match="cuda:7"):
        _claimed(small("fedavg", objective={"name": "logistic"}), "cuda:7")


@pytest.mark.parametrize(
    "method", ["scaffold", "vfb2_svrg", "afsvrg_vp", "gaussian_gradient_descent", "tdcd"]
)
def test_every_federation_takes_it(method):
    changes = {"partition": SILOS} if method == "tdcd" else {}
    told = rehearse_without_data(small(method, objective=HUBER, **changes))
    assert "does what a method promises" in told


def test_parties_share_its_derivative(rows):
    partition = {"kind": "vertical", "parties": 3, "active": 1}
    asked = {"objective": HUBER, "rounds": 160, "step_size": 0.15, "partition": partition}
    trace = fedatlas.train("vfb2_svrg", rows, optimum=True, **asked)
    assert abs(trace.suboptimality[0, -1]) < 1e-9 < trace.suboptimality[0, 0]


def test_the_example_of_counts_stands_in_the_page(tmp_path, monkeypatch):
    """As printed, in the project's folder; what is predicted is exp(z)."""
    open_project(tmp_path / "other", {"papers.yaml": "{}"}, monkeypatch)
    monkeypatch.delenv(VARIABLE)
    monkeypatch.chdir(write_project(tmp_path / "own", FILES))
    random = np.random.default_rng(0)
    features = random.standard_normal((200, 5)) / 3
    counts = random.poisson(np.exp(features @ [1.0, -1.0, 0.5, 0.0, 0.0])).astype(float)
    trace = fedatlas.train(
        "fedavg", {"train": (features, counts), "test": (features, counts)}, rounds=100,
        partition={"kind": "horizontal", "clients": 10, "test": "test"}, optimum=True,
        objective={"name": "poisson", "weight": 0.1},
        clients_per_round=10, local_steps=1, local_step_size=1.0)  # fmt: skip
    assert abs(trace.suboptimality[0, -1]) < 1e-9
    model = LinearModel(features, counts, LinearObjective(name="poisson", weight=0.1))
    best, _ = solve(PartyRows(features, counts, np.array([0, 5])), model._objective)
    told = np.sqrt(np.mean((np.exp(features @ best) - counts) ** 2))
    np.testing.assert_allclose(trace.test_rmse[0, -1], told, rtol=1e-4)


def test_a_network_learns_by_a_loss_in_torch(project):
    objective = validated(Objective, {"name": "smoothed_cross_entropy", "model": "linear"}, "here")
    label = np.array([0.0, 1, 2, 1])
    given = Samples.numbered(label, np.zeros((4, 2)))
    loss = network_loss(objective, "toy", given, None, torch.device("cpu"))
    outputs, targets = torch.randn(2, 4, 3), loss.targets(torch.tensor(label)).expand(2, 4)
    smooth = 0.9 * functional.one_hot(targets, 3) + 0.1 / 3
    np.testing.assert_allclose(
        loss.slopes(outputs, targets), outputs.softmax(-1) - smooth, atol=1e-6
    )
    random = np.random.default_rng(0)
    rows = random.standard_normal((30, 4)).astype(np.float32), np.arange(30) % 3.0
    asked = {"partition": {"kind": "horizontal", "clients": 3}, "rounds": 3}
    steps = STEPS | {"clients_per_round": 3}
    trace = fedatlas.train("fedavg", rows, objective=objective.model_dump(), **asked | steps)
    assert trace.objective[0, -1] < trace.objective[0, 0] and "train_accuracy" in trace


CAUCHY = """
import math
convex = True
def value(margin, label):
    return math.log1p(margin**2)
def derivative(margin, label):
    return 2 * margin / (1 + margin**2)
"""
WRONG = {
    r"derivative is -1, but value rises at the rate -3": (
        "return math.exp(margin) -",
        "return 2 -",
    ),
    "no loss may be below 0": (" + constant", ""),
    "more than the declared curvature, 1": ("convex = True", "curvature = 1.0"),
    "more than the declared steepest, 2": ("convex = True", "steepest = 2.0"),
    "derivative falls": (POISSON, CAUCHY),
    "must be finite": ("return math.exp(margin) -", "return math.nan *"),
}


@pytest.mark.parametrize("told", WRONG)
def test_a_wrong_file_is_refused_with_the_margin(told, tmp_path, monkeypatch):
    text = POISSON.replace(*WRONG[told])
    open_project(tmp_path, {"objectives/wrong.py": text}, monkeypatch)
    place = rf"wrong\.py: at the margin -?[\d.]+ and the label [-\d.]+: .*{told}"
    with pytest.raises(FedatlasError, match=place):
        rehearse_without_data(small("fedavg", objective={"name": "wrong", "weight": 0.1}))


REFUSED = {
    "must define derivative": "def value(margin, label):\n    return 0\n",
    "labels must be one of numbers, counts, signs": POISSON.replace("counts", "words"),
    "convex must be a literal": POISSON.replace("True", "not False"),
    "must have the same parameters": POISSON.replace("value(margin, label", "value(z, y, a=1"),
    "value takes 2 arguments without a default": POISSON.replace("(margin, label)", "(z, y, a)"),
    "line 4: ": "\n\n\ndef value(:\n",
}  # fmt: skip


@pytest.mark.parametrize("told", REFUSED)
def test_a_file_that_is_no_loss_is_refused(told, tmp_path, monkeypatch):
    open_project(tmp_path, {"objectives/wrong.py": REFUSED[told]}, monkeypatch)
    with pytest.raises(FedatlasError, match=rf"wrong\.py.*{told}"):
        objective_classes()


def test_names_and_keys_are_refused_by_what_there_is(project, tmp_path, monkeypatch):
    with pytest.raises(FedatlasError, match=r"'name', value 'no': must be one of .*huber.*poisson"):
        validated(Objective, {"name": "no"}, "here")
    with pytest.raises(FedatlasError, match="'parameters' has no, which huber lacks; it has delta"):
        validated(Objective, {"name": "huber", "parameters": {"no": 1}}, "here")
    with pytest.raises(FedatlasError, match="unknown key 'weigt'; similar: weight"):
        validated(Objective, {"name": "poisson", "weigt": 1}, "here")
    with pytest.raises(FedatlasError, match=re.escape("needs labels 0, 1, 2, …")):
        fedatlas.train(
            "fedavg", (np.ones((4, 1)), np.array([0.5, 1, 2, 3])), rounds=1,
            partition={"kind": "horizontal", "clients": 2}, objective={"name": "poisson"},
            clients_per_round=1, local_steps=1, local_step_size=0.1)  # fmt: skip
    open_project(tmp_path / "two", {"objectives/logistic_l2.py": POISSON}, monkeypatch)
    with pytest.raises(FedatlasError, match=r"logistic_l2'.*rename the file"):
        objective_classes()


def test_an_edit_reruns_what_uses_it(project):
    """A run's digest, and its optimum's, have the file; those of other objectives do not."""

    def digests():
        open_projects([project])
        _losses.cache_clear()
        code_digest.__globals__["_digest"].cache_clear()
        code_digest.__globals__["_sources"].cache_clear()
        runs = [small("fedavg", objective={"name": name, **more}) for name, more in NAMED.items()]
        return [code_digest(*run.code) for run in runs] + [
            code_digest("fedatlas.training.solver", *run.objective.code) for run in runs
        ]

    before = digests()
    own = project / "objectives/poisson.py"
    own.write_text(own.read_text("utf-8").replace("math.exp(margin) -", "math.exp(1 * margin) -"))
    changed = [one != two for one, two in zip(before, digests(), strict=True)]
    assert changed == [True, False, False, False] * 2


NAMED = {
    "poisson": {"weight": 0.1},
    "huber": {},
    "logistic_l2": {"weight": 0.1},
    "smoothed_cross_entropy": {"model": "linear"},
}
