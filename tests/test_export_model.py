"""Exported models, loaded in plain numpy and torch, score prepared data as their runs recorded."""

import json
import shutil
import sys
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn import functional
from typer.testing import CliRunner

from fedatlas.cli import app
from fedatlas.data.tables import from_table
from fedatlas.errors import FedatlasError, RunFailedError
from fedatlas.schema.partitions import HorizontalPartition, TieredPartition, VerticalPartition
from fedatlas.store.trace import read_trace, write_trace
from fedatlas.training import seeds
from fedatlas.training.export import export_model
from fedatlas.training.loop import train
from prepared_files import as_dense, make_samples
from resuming import Killed
from small_federations import AGENTS, CLASSES, NORMALISATION, WORKERS, images, share_out, small

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

ROWS = {"samples": None, "test": 0.25}
CLIENTS = HorizontalPartition(clients=9, intercept=True, **ROWS)
PARTIES = VerticalPartition(parties=3, active=2, standardise=True, intercept=True, **ROWS)
OF_COLUMNS = TieredPartition(cut={"columns": 3}, clients=2, **ROWS)
NORMED = {"name": "cross_entropy", "model": "normed"}
LINEAR = {"name": "logistic_nonconvex", "weight": 0.1}
NOISE = {"name": "noisy_quadratic", "start": 2.0, "curvatures": [1.0, 3.0]}


def ran(folder, algorithm, **changes):
    """The results of a run of the method, of two seeds, and its specification."""
    spec = small(algorithm, **changes)
    shards = folder / "shards" / spec.dataset / spec.split
    shards.mkdir(parents=True)
    data = {"samples": make_samples(120, 7, density=0.8), "task": "binary"}
    if spec.objective.name in ("cross_entropy", "auc_min_max"):
        data = {"samples": images(), "shape": (1, 8, 8), "normalisation": NORMALISATION}
    if spec.objective.name == NOISE["name"]:
        data = {"samples": make_samples(50, 1, density=1.0)}
        data["samples"].features[:] -= data["samples"].features.mean()
    share_out(shards, spec.partition, **data)
    prepared = folder / "data" / spec.dataset / f"{spec.split}.parquet"
    prepared.parent.mkdir(parents=True)
    shutil.copy(shards / "train.parquet", prepared)
    train(spec, shards, spec.trace_file(folder))
    return folder, spec


@pytest.fixture(scope="module")
def fedavg(tmp_path_factory):
    """Results of a cheap run."""
    return ran(tmp_path_factory.mktemp("fedavg"), "fedavg", partition=CLIENTS)


def loaded(file):
    with np.load(file) as stored:
        arrays = dict(stored)
    return arrays, json.loads(str(arrays.pop("__metadata__")))


def prepared_rows(results, spec, seed):
    """Features and labels of the training rows and of those for testing."""
    table = pq.read_table(results / "data/toy/train.parquet")
    samples = from_table(table, json.loads(table.schema.metadata[b"fedatlas"])["features"])
    shard = results / "shards/toy/train" / spec.partition.of_seed(seed).slug / "silo-0.parquet"
    stored = pq.read_table(shard)
    told = json.loads(stored.schema.metadata[b"fedatlas"])
    tested = told["test_samples"] if "groups" not in told else told["groups"][1][1]
    ids = stored["sample_id"].to_numpy()
    for rows in (ids[: len(ids) - tested], ids[len(ids) - tested :]):
        yield as_dense(samples)[rows], samples.label[rows]


def linear_scores(arrays, about, features):
    if "standardised" in about:
        mean, scale = (np.array(about["standardised"][key]) for key in ("mean", "scale"))
        features = (features - mean) / scale
    return features @ arrays["weight"][0] + arrays.get("bias", 0.0)


def outputs(arrays, about, prefix, shape, pixels, normalisation):
    """By the network's own text."""
    network, names = about["network"], {}
    exec(network["definition"], names)
    module = names[network["name"]](tuple(shape), network["outputs"])
    state = {
        name.removeprefix(prefix): torch.tensor(array)
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    module.load_state_dict(state)
    mean, deviation = (normalisation[key][0] for key in ("mean", "deviation"))
    inputs = torch.tensor((pixels.reshape(-1, *shape) - mean) / deviation, dtype=torch.float32)
    with torch.no_grad():
        return module.eval()(inputs)


def classes(about, found, label):
    """Cross-entropy and accuracy."""
    targets = torch.tensor(np.searchsorted(about["network"]["labels"], label))
    right = (found.argmax(1) == targets).double().mean()
    return float(functional.cross_entropy(found, targets)), float(right)


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("fedavg", {"partition": CLIENTS}),
        ("vfb2_saga", {"partition": PARTIES}),
        ("vfb2_sgd", {"backend": "processes"}),
        ("dp_gradient_tracking", {}),
        ("tdcd", {"partition": OF_COLUMNS, "objective": LINEAR}),
    ],
)
def test_linear_models_are_one_weight_a_column(tmp_path, algorithm, changes):
    results, spec = ran(tmp_path, algorithm, **changes)
    told = export_model(results, "test-small", algorithm, tmp_path / "model.npz", seed=8)
    arrays, about = loaded(tmp_path / "model.npz")
    (features, label), test = prepared_rows(results, spec, 8)
    weights = np.concatenate([arrays["weight"][0], arrays.get("bias", [])])
    margins = label * linear_scores(arrays, about, features)
    objective = np.logaddexp(0, -margins).mean() + 0.1 * (weights**2 / (1 + weights**2)).sum()
    assert objective == pytest.approx(about["measured"]["objective"], rel=1e-9)
    assert abs(objective - np.log(2)) > 1e-3  # at which it starts
    right = test[1] * linear_scores(arrays, about, test[0]) > 0
    assert right.mean() == pytest.approx(about["measured"]["test_accuracy"])
    assert about["seed"] == 8 and about["specification"]["rounds"] == spec.rounds
    if "backend" in changes:
        assert "never twice alike" in told
    else:
        last = read_trace(spec.trace_file(results)).sel(seed=8).isel(record=-1)
        assert about["measured"]["objective"] == float(last.objective)
        assert "bit for bit" in told


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("growing_samples_descent", {}),
        ("tdcd", {}),
        ("tdcd", {"objective": NORMED}),
        ("fedprox", {"objective": CLASSES, "partition": AGENTS}),
    ],
)
def test_classifiers_are_loaded_by_their_names(tmp_path, algorithm, changes):
    results, spec = ran(tmp_path, algorithm, **changes)
    export_model(results, "test-small", algorithm, tmp_path / "model.npz")
    arrays, about = loaded(tmp_path / "model.npz")
    last = read_trace(spec.trace_file(results)).isel(seed=0, record=-1)
    own = {"block": [[0, 1], [0, 8], [0, 8]], "shape": (1, 8, 8)}
    own["normalisation"] = about["data"]["normalisation"]
    silos = about.get("silos", [own])
    assert len(silos) == (2 if algorithm == "tdcd" else 1)
    found = []
    for pixels, label in prepared_rows(results, spec, 3):
        whole = pixels.reshape(-1, *about["data"]["shape"])
        parts = []
        for number, silo in enumerate(silos):
            of_silo = whole[:, *(slice(*along) for along in silo["block"])]
            prefix = f"silo{number}." if algorithm == "tdcd" else ""
            own = prefix, silo["shape"], of_silo, silo["normalisation"]
            parts.append(outputs(arrays, about, *own))
        found.append(classes(about, sum(parts), label))
    (objective, accuracy), (_, test_accuracy) = found
    assert objective == pytest.approx(float(last.objective), rel=1e-6)
    assert accuracy == pytest.approx(float(last.train_accuracy))
    assert test_accuracy == pytest.approx(float(last.test_accuracy))
    if spec.objective.model == "normed":
        means = arrays["silo1.1.running_mean"]
        assert means.shape == (2,) and np.abs(means).min() > 0


def test_scorers_come_with_their_other_variables(tmp_path):
    results, spec = ran(tmp_path, "fmgda", partition=WORKERS)
    export_model(results, "test-small", "fmgda", tmp_path / "model.npz")
    arrays, about = loaded(tmp_path / "model.npz")
    last = read_trace(spec.trace_file(results)).isel(seed=0, record=-1)
    _, (pixels, label) = prepared_rows(results, spec, 3)
    normalisation = about["data"]["normalisation"]
    logits = outputs(arrays, about, "network.", (1, 8, 8), pixels, normalisation)
    scores = torch.sigmoid(logits[:, 0]).double().numpy()
    positive = label >= 5
    assert roc_auc_score(positive, scores) == pytest.approx(float(last.test_auroc))
    above = scores > (arrays["a"] + arrays["b"]) / 2
    assert (above == positive).mean() == pytest.approx(float(last.test_accuracy))
    assert arrays["w"] == pytest.approx(float(last.dual_variable))


def test_of_a_known_function_the_point_is_written(tmp_path):
    partition = AGENTS.model_copy(update={"samples": None, "test": None})
    changes = {"objective": NOISE, "partition": partition}
    tracking = {"clipping": "none"}
    results, spec = ran(tmp_path, "dp_gradient_tracking", hyper=tracking, **changes)
    export_model(results, "test-small", "dp_gradient_tracking", tmp_path / "model.npz")
    arrays, _ = loaded(tmp_path / "model.npz")
    value = (NOISE["curvatures"] * (arrays["x"] - 1) ** 2).sum() / 2
    last = read_trace(spec.trace_file(results)).isel(seed=0, record=-1)
    assert value == pytest.approx(float(last.objective), rel=1e-9)


@pytest.mark.parametrize(
    ("named", "there"),
    [
        ({"experiment": "test-smal"}, "test-small"),
        ({"run": "fedpage"}, "fedavg"),
        ({"point": "step-1"}, "only"),
        ({"seed": 4}, "3, 8"),
        ({"output": "model.pt"}, ".npz"),
    ],
)
def test_a_name_that_is_none_says_what_there_is(fedavg, tmp_path, named, there):
    asked = {"experiment": "test-small", "run": "fedavg", "output": "model.npz"} | named
    asked["output"] = tmp_path / asked["output"]
    with pytest.raises(FedatlasError) as error:
        export_model(fedavg[0], **asked)
    assert there in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def grid(fedavg, tmp_path):
    """Results of a run with two points."""
    results = shutil.copytree(fedavg[0], tmp_path / "results")
    spec = fedavg[1]
    other = spec.model_copy(update={"point": "other"})
    shutil.copy(spec.trace_file(results), other.trace_file(results))
    return results


def test_of_a_grid_the_chosen_point_is_meant(grid, tmp_path):
    with pytest.raises(FedatlasError, match="only, other"):
        export_model(grid, "test-small", "fedavg", tmp_path / "model.npz")
    chosen = {"runs": {"fedavg": {"selected": "other"}}}
    (grid / "experiments/test-small/selection.json").write_text(json.dumps(chosen))
    command = ["export-model", "test-small", "fedavg", "--results", grid, "-o", tmp_path / "m.npz"]
    printed = CliRunner().invoke(app, list(map(str, command)), catch_exceptions=False)
    assert printed.exit_code == 0 and "m.npz" in printed.output
    assert loaded(tmp_path / "m.npz")[1]["specification"]["point"] == "only"  # as it was recorded


def edited(results, spec, **attributes):
    """Change a recorded value, and attributes, of the trace."""
    file = spec.trace_file(results)
    trace = read_trace(file).assign_attrs(attributes)
    trace.objective[0, 1] *= 1.25
    write_trace(trace, file)


def test_a_trace_that_differs_without_a_reason_is_refused(fedavg, tmp_path):
    results, spec = shutil.copytree(fedavg[0], tmp_path / "results"), fedavg[1]
    edited(results, spec)
    with pytest.raises(FedatlasError, match=r"0\.2 in objective"):
        export_model(results, "test-small", "fedavg", tmp_path / "model.npz")
    assert not list(tmp_path.glob("model*"))
    edited(results, spec, source_digest="another")
    told = export_model(results, "test-small", "fedavg", tmp_path / "model.npz")
    assert "in objective" in told and "code differs" in told
    assert loaded(tmp_path / "model.npz")[1]["compared"] == told


def test_a_training_that_is_killed_goes_on(fedavg, tmp_path, monkeypatch, caplog):
    """Also where it stood behind the last record, or had only its file left to write."""
    caplog.set_level("INFO")
    monkeypatch.setenv("FEDATLAS_CHECKPOINT_EVERY", "-1")
    save, saved = seeds.write_checkpoint, []

    def exported(killed_at=None):
        saved.clear()

        def save_then_die(*arguments):
            save(*arguments)
            saved.append(1)
            if len(saved) == killed_at:
                raise Killed

        with patch.object(seeds, "write_checkpoint", save_then_die):
            export_model(fedavg[0], "test-small", "fedavg", tmp_path / "model.npz")
        (left,) = tmp_path.iterdir()
        return loaded(left)

    whole, about = exported()
    last = len(saved)
    for killed_at in (2, last - 1, last):
        (tmp_path / "model.npz").unlink()
        with pytest.raises(RunFailedError):
            exported(killed_at)
        assert [file.name for file in tmp_path.iterdir()] == ["model.npz.training"]
        caplog.clear()
        arrays, again = exported()
        assert ("resuming" in caplog.text) == (killed_at < last)
        assert again == about and arrays["weight"].tobytes() == whole["weight"].tobytes()


def test_safetensors_where_they_are_installed(fedavg, tmp_path, monkeypatch):
    with monkeypatch.context() as absent:
        absent.setitem(sys.modules, "safetensors", None)
        with pytest.raises(FedatlasError, match="pip install safetensors"):
            export_model(fedavg[0], "test-small", "fedavg", tmp_path / "model.safetensors")
    safetensors = pytest.importorskip("safetensors")
    export_model(fedavg[0], "test-small", "fedavg", tmp_path / "model.npz")
    export_model(fedavg[0], "test-small", "fedavg", tmp_path / "model.safetensors")
    arrays, about = loaded(tmp_path / "model.npz")
    with safetensors.safe_open(tmp_path / "model.safetensors", "numpy") as file:
        assert json.loads(file.metadata()["fedatlas"]) == about
        assert set(file.keys()) == set(arrays)
        assert all(np.array_equal(file.get_tensor(name), arrays[name]) for name in arrays)


@pytest.mark.parametrize("until", [{"wall_time": 1e-9}, {"gradient_norm": 0.4}])
def test_a_run_that_a_budget_or_a_target_ended_is_trained_for_as_many_rounds(tmp_path, until):
    results, spec = ran(
        tmp_path, "fedavg", partition=CLIENTS, rounds=40, record_every=2, until=until
    )
    recorded = read_trace(spec.trace_file(results))
    assert recorded["round"][:, -1].max() < 40
    for seed in spec.seeds:
        told = export_model(results, "test-small", "fedavg", tmp_path / "m.npz", seed=seed)
        assert told == "its trace equals the recorded one, bit for bit"
