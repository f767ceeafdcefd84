"""Logs of other programs: files that these wrote themselves, by benchmarks/peers/make_logs.py.

Each holds accuracies that rise by an eighth a round, from a start of each run, and seeds a
hundredth apart; benchopt and IOHprofiler log functions of their own.
"""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import fedatlas
from fedatlas.errors import FedatlasError

LOGS = Path(__file__).parent / "logs"
STARTS = {"fedavg": 0.1, "scaffold": 0.2}


def imported(kind: str, **mapping):
    atlas = fedatlas.import_runs(LOGS / kind, **mapping)
    return {run: atlas.sel(kind, run) for run in atlas.names(f"ours/{kind}")}


@pytest.mark.parametrize(
    ("kind", "columns", "runs"),
    [
        ("tensorboard", {"costs": {"bytes": "test/bytes"}}, 2),
        ("wandb", {}, 1),
        ("mlflow", {}, 1),
        ("flower", {"metrics": {"test_accuracy": "server/accuracy"}}, 2),
    ],
)
def test_curves_are_those_that_were_logged(kind, columns, runs):
    found = imported(kind, **columns)
    assert [*found] == [*STARTS][:runs]
    for run, trace in found.items():
        assert [*trace["seed"]] == [0, 1] and [*trace["round"]] == [0, 1, 2, 3]
        expected = STARTS[run] + 0.01 * np.array([[0], [1]]) + 0.125 * np.arange(4)
        np.testing.assert_allclose(trace["test_accuracy"], expected, rtol=1e-6)
        if kind != "flower":
            assert [*trace["bytes"]] == [0, 1000, 2000, 3000]


def test_flower_logs_losses_too():
    found = imported("flower", metrics={"objective": "server/loss"})["scaffold"]
    np.testing.assert_allclose(found["objective"][1], 0.79 - 0.125 * np.arange(4))


def test_benchopt_runs_have_solvers_and_repetitions():
    found = imported("benchopt")
    assert [*found] == ["gd", "sgd"]
    for trace in found.values():  # of half a step at a time towards ones of three dimensions
        assert np.array_equal(trace["objective"], [3 * 0.25 ** np.arange(5)] * 2)
        np.testing.assert_allclose(trace["test_accuracy"], 1 / (1 + trace["objective"]))


def test_iohprofiler_runs_have_instances():
    trace = imported("ioh")["random"]
    assert [*trace["seed"]] == [1, 2] and [*trace["round"]] == [1, 2, 3, 4]
    assert trace["objective"].to_numpy()[:, 2] == pytest.approx([1.3381940800, 25.5636347200])


def test_a_folder_of_one_run_is_enough_and_a_file_that_is_cut_off_gives_what_it_has(tmp_path):
    (file,) = (LOGS / "tensorboard" / "fedavg" / "seed1").iterdir()
    shutil.copy(file, tmp_path)
    copy = tmp_path / file.name
    copy.write_bytes(file.read_bytes()[:250])
    atlas = fedatlas.import_runs(tmp_path, experiment="a")
    (run,) = atlas.names("ours/a")
    assert len(atlas.sel("a", run)["record"]) in (2, 3)
    shutil.copy(file, tmp_path / "events.out.tfevents.2.resumed")  # steps anew, and more
    atlas = fedatlas.import_runs(tmp_path, experiment="a")
    assert len(atlas.sel("a", run)["record"]) == 4


@pytest.mark.parametrize(
    ("kind", "name"),
    [("tensorboard", "a.tfevents.1"), ("wandb", "run-a.wandb"), ("flower", "a.json")],
)
def test_bytes_that_mean_nothing_are_refused_by_name(tmp_path, kind, name):
    (tmp_path / name).write_bytes(b"\x07\0\0\0\0\0\0\0abcd\x12\xff\xff\xff\xff\xff\x0f" * 9)
    with pytest.raises(FedatlasError, match=name):
        fedatlas.import_runs(tmp_path)


def test_a_database_of_mlflow_has_active_runs_with_their_nan(tmp_path):
    """Its columns, as MLflow 3 makes them: a value of 0 beside is_nan, the largest for infinity."""
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.executescript(
            "CREATE TABLE runs (run_uuid, name, lifecycle_stage, experiment_id);"
            "CREATE TABLE experiments (experiment_id, name, lifecycle_stage);"
            "CREATE TABLE params (key, value, run_uuid);"
            "CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan)"
        )
        for seed, stage in enumerate(("active", "active", "deleted")):
            run = f"run{seed}"
            database.execute("INSERT INTO runs VALUES (?, ?, ?, 1)", [run, f"mine-{seed}", stage])
            for key in ("lr", "loss", "step"):  # the last two are also called as metrics are
                database.execute("INSERT INTO params VALUES (?, 'a', ?)", [key, run])
            for step, value in enumerate((0.5, 0.25, 0.125)):
                lost = seed == 1 and step == 2
                row = ["loss", 0.0 if lost else value, step, run, step, lost]
                database.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", row)
        database.commit()
    atlas = fedatlas.import_runs(tmp_path / "mlflow.db", metrics={"suboptimality": "loss"})
    trace = atlas.sel("mlflow", "mine")
    assert [*trace["status"]] == ["ok", "diverged"]
    expected = [[0.5, 0.25, 0.125], [0.5, 0.25, np.nan]]
    assert np.array_equal(trace["suboptimality"], expected, equal_nan=True)
    assert "not read: lr" in atlas.attributes("ours/mlflow")["notes"]
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.execute("INSERT INTO experiments VALUES (1, 'first', 'active')")
        database.execute("INSERT INTO experiments VALUES (2, 'second', 'active')")
        database.execute("INSERT INTO runs VALUES ('run3', NULL, 'active', 2)")
        database.execute("INSERT INTO metrics VALUES ('accuracy', 0.5, 0, 'run3', 0, 0)")
        database.commit()
    atlas = fedatlas.import_runs(tmp_path / "mlflow.db", metrics={"suboptimality": "loss"})
    assert [*atlas.runs()["run"]] == ["first-mine"]
    notes = atlas.attributes("ours/mlflow")["notes"]
    assert "run 'second/run3' left out: no value of suboptimality" in notes


def test_databases_that_are_no_logs_are_no_obstacle(tmp_path):
    (tmp_path / "a-0.csv").write_text("round,test_acc\n0,0.1\n1,0.2\n", encoding="utf-8")
    (tmp_path / "Thumbs.db").write_bytes(b"no database")
    with closing(sqlite3.connect(tmp_path / "optuna.db")) as database:
        database.execute("CREATE TABLE studies (study_id)")
    assert fedatlas.import_runs(tmp_path, experiment="x").names("ours/x") == ["a"]


def test_several_files_are_an_experiment_of_their_common_name(tmp_path):
    files = [tmp_path / f"FlowerAvg-{seed}.csv" for seed in (0, 1)]
    for file in files:
        file.write_text("round,test_acc\n0,0.1\n1,0.2\n", encoding="utf-8")
    assert fedatlas.import_runs(files).places() == ["ours/FlowerAvg/FlowerAvg/only"]
    with pytest.raises(FedatlasError, match=r"rounds.csv.gz: is packed: unpack it first"):
        (tmp_path / "rounds.csv.gz").touch()
        fedatlas.import_runs(tmp_path / "rounds.csv.gz")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"method;round;acc\nmine;0;0,5\n", r"Semicolons part nothing: save the file with commas"),
        (b"# my log\nround,test_acc\n0,0.5\n", "Remove the lines before the one with names"),
        ("round,test_acc\n0,0.5\n".encode("utf-16"), "save it as UTF-8"),
    ],
)
def test_files_that_are_no_csv_say_what_to_do(tmp_path, content, told):
    (tmp_path / "log.csv").write_bytes(content)
    with pytest.raises(FedatlasError, match=told):
        fedatlas.import_runs(tmp_path / "log.csv")


def test_formats_are_not_mixed_and_may_be_named(tmp_path):
    with pytest.raises(FedatlasError, match="have the formats flower and tensorboard: name one"):
        fedatlas.import_runs([LOGS / "flower", LOGS / "tensorboard"])
    with pytest.raises(FedatlasError, match=r"format: 'tensorbord' is none of .*; similar: tensor"):
        fedatlas.import_runs(LOGS / "tensorboard", format="tensorbord")
    for name in ("a.csv", "b.json"):
        (tmp_path / name).write_text("round,objective\n0,1\n1,0\n", encoding="utf-8")
    (tmp_path / "b.json").write_text(json.dumps({"losses_centralized": [[0, 2.0], [1, 1.0]]}))
    (tmp_path / "a.csv").rename(tmp_path / "a.txt")
    named = {"format": "csv", "experiment": "x"}
    assert fedatlas.import_runs(tmp_path / "a.txt", **named).names("ours/x") == ["a"]
    named = {"format": "flower", "metrics": {"objective": "server/loss"}}
    assert fedatlas.import_runs(tmp_path, experiment="x", **named).names("ours/x") == ["b"]
    shutil.copytree(LOGS / "tensorboard", tmp_path / "both" / "tb")
    (tmp_path / "both" / "a.csv").write_text("round,objective\n0,1\n1,0\n", encoding="utf-8")
    atlas = fedatlas.import_runs(tmp_path / "both", costs={"bytes": "test/bytes"})
    assert "not read: files of CSV; --format" in atlas.attributes("ours/both")["notes"]
    shutil.copytree(LOGS / "wandb", tmp_path / "both" / "wb")
    with pytest.raises(FedatlasError, match="both: has the formats tensorboard and wandb: name"):
        fedatlas.import_runs(tmp_path / "both")
