"""Commands by hand: what they print, and that mistakes are one line without a traceback."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fedatlas import __version__
from fedatlas.cli import app
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.verdicts import verdicts_to_csv
from fedatlas.schema.runs import RunSpec
from fedatlas.steps import STEPS
from verdict_factory import verdict
from workflow_copy import ROOT

A9B = {
    "file": "libsvm/a9b",
    "catalogue": "config/datasets.yaml",
    "archives": "results/archives",
    "output": "a9b",
}


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
    command = [sys.executable, "-m", "fedatlas", "step", "download_file", json.dumps(A9B)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("error: config/datasets.yaml: no raw file 'libsvm/a9b'; sim")
    assert outcome.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("spec", "demo-fedpage/fedavg/local_step_size-0.1"), "similar: demo-fedpage/fedavg/"),
        (("step", "draw_figur"), "there is no step 'draw_figur'; similar: draw_figure"),
        (("step", "train_alone", "@no.json"), "no.json"),
        (("step", "train_alone", "{"), "{: cannot be read as JSON"),
        (("step", "train_alone", "[]"), "must be a JSON object"),
        (("step", "draw_figure", '{"traces": []}', '{"selection": "a"}'),
         "missing title, figure, runs, output"),
        (("step", "draw_trees", '{"parties": 3, "output": "x.svg", "outputs": 1}'),
         "takes no 'outputs'; similar: output"),
        (("step", "draw_trees", '{"parties": "x", "output": "x.svg"}'), "parties"),
        (("new", "projct", "lab"), "these can: method, dataset, experiment, project"),
        (("list", "vfb2-nothing-*"), "'vfb2-nothing-*' matches no experiment; did you mean"),
        (("list", "project-mine"), "has no folder 'experiments': go to the project's folder, or"),
        (("summary", "nowhere"), "(fedatlas run NAME)"),
        (("summary", "README.md"), "README.md: is not a folder"),
        (("power", "README.md"), "README.md: is not a folder"),
        (("step", "tabulate_results", '{"traces": "README.md", "selection": "a", "output": "b"}'),
         "not a readable netCDF"),
    ],
)  # fmt: skip
def test_mistakes_are_clear_errors(arguments, expected):
    error = fedatlas(*arguments).exception
    assert isinstance(error, FedatlasError)
    assert expected in str(error)


def test_experiments_are_listed_with_what_has_verdicts_here(tmp_path):
    claims = tmp_path / "experiments" / "vfb2-fig3-d2" / "claims.csv"
    claims.parent.mkdir(parents=True)
    claims.write_text(verdicts_to_csv([verdict("vfb2-fig3-d2/a")]))
    without = tmp_path / "experiments" / "vfb2-fig3-d1" / "claims.csv"
    without.parent.mkdir()
    without.write_text(verdicts_to_csv([]))
    lines = fedatlas("list", "vfb2-fig3-d[12]", "--results", tmp_path).stdout.splitlines()
    assert [line[:14] for line in lines[:2]] == ["  vfb2-fig3-d1", "* vfb2-fig3-d2"]
    assert lines[0].endswith("on UCICreditCard (Figure 3(a))")
    assert lines[2:] == [f"* has verdicts in {tmp_path}, which `fedatlas summary` prints."]


def test_the_version_is_printed():
    assert fedatlas("--version").stdout == f"fedatlas {__version__}\n"


def test_help_names_all_commands_and_no_cut_names():
    told = fedatlas("--help").stdout
    assert all(name in told.split() for name in ("list", "summary", "step"))
    assert all(f"{name}: " in fedatlas("step", "--help").stdout for name in STEPS)
    for command in ("new", "rehearse", "diff", "verify", "spec", "step"):
        told = fedatlas(command, "--help").stdout
        assert "(dynamic)" not in told and "pr │" not in told and "tolera…" not in told


def test_a_file_is_known_by_its_place_in_the_mirror_too(tmp_path):
    mirror = tmp_path / "mirror" / "libsvm"
    mirror.mkdir(parents=True)
    (mirror / "a9a").write_text("not a9a")
    given = A9B | {"file": "libsvm/a9a", "mirror": str(mirror.parent), "archives": str(tmp_path)}
    given |= {"output": str(tmp_path / "a9a"), "lock": str(tmp_path / "lock.json")}
    outcome = fedatlas("step", "download_file", json.dumps(given))
    assert "wrong checksum" in str(outcome.exception)
    assert not (tmp_path / "a9a").exists()


def test_a_library_may_make_an_error_of_the_exit_that_a_signal_asks_for():
    code = """
import os, signal
from fedatlas import cli

def app():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    except SystemExit as error:
        raise ValueError("no validator") from error

cli.app = app
cli.main()
"""
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (outcome.returncode, outcome.stderr) == (143, "")
