"""Commands by hand: what they print, and that mistakes are one line without a traceback."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fedatlas.cli import app
from fedatlas.errors import FedatlasError
from fedatlas.schema.runs import RunSpec
from workflow_copy import ROOT


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def fedatlas(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_a_runs_specification_is_printed_by_its_name():
    outcome = fedatlas("spec", "demo-fedpage/fedavg/local_step_size-0.01")
    spec = RunSpec.model_validate(json.loads(outcome.stdout))
    assert spec.name == "demo-fedpage/fedavg/local_step_size-0.01"


def test_a_mistake_is_one_line_without_a_traceback():
    command = [sys.executable, "-m", "fedatlas", "download", "libsvm/a9b"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("error: config/datasets.yaml: no raw file 'libsvm/a9b'; sim")
    assert outcome.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("spec", "demo-fedpage/fedavg/local_step_size-0.1"), "similar: demo-fedpage/fedavg/"),
        (("download", "libsvm/a9b"), "similar: libsvm/a9a"),
        (("train", "--spec", "@no.json", "--shards", "src", "--output", "x.nc"), "no.json"),
        (("train", "--spec", "{", "--shards", "src", "--output", "x.nc"), "--spec: cannot"),
        (("figure", "README.md", "--spec", "{}", "--selection", "README.md", "--output", "x"),
         "missing title, figure, runs"),
        (("summary", "nowhere"), "(fedatlas run NAME)"),
        (("summary", "README.md"), "README.md: is not a folder"),
        (("power", "README.md"), "README.md: is not a folder"),
        (("select", "README.md", "--spec", "{}", "--output", "x.json"), "not a readable netCDF"),
    ],
)  # fmt: skip
def test_mistakes_are_clear_errors(arguments, expected):
    error = fedatlas(*arguments).exception
    assert isinstance(error, FedatlasError)
    assert expected in str(error)


def test_a_file_is_known_by_its_place_in_the_mirror_too(tmp_path):
    mirror = tmp_path / "mirror" / "libsvm"
    mirror.mkdir(parents=True)
    (mirror / "a9a").write_text("not a9a")
    outcome = fedatlas(
        "download", "libsvm/a9a", "--mirror", mirror.parent, "--output", tmp_path / "a9a",
        "--lock", tmp_path / "lock.json", "--archives", tmp_path,
    )  # fmt: skip
    assert "wrong checksum" in str(outcome.exception)
    assert not (tmp_path / "a9a").exists()
