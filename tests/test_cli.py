"""Commands by hand: what they print, and that mistakes are one line without a traceback."""

import json
import subprocess
import sys

import pytest

from fedatlas.schema.runs import RunSpec
from workflow_copy import ROOT


def fedatlas(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "fedatlas", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=options.get("cwd", ROOT),
        timeout=120,
    )


def test_a_runs_specification_is_printed_by_its_name():
    outcome = fedatlas("spec", "demo-fedpage/fedavg/local_step_size-0.01")
    assert outcome.returncode == 0, outcome.stderr
    spec = RunSpec.model_validate(json.loads(outcome.stdout))
    assert spec.name == "demo-fedpage/fedavg/local_step_size-0.01"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("spec", "demo-fedpage/fedavg/local_step_size-0.1"), "similar: demo-fedpage/fedavg/"),
        (("download", "libsvm/a9b"), "similar: libsvm/a9a"),
        (("train", "--spec", "@no.json", "--shards", "src", "--output", "x.nc"), "no.json"),
        (("train", "--spec", "{", "--shards", "src", "--output", "x.nc"), "--spec: cannot"),
        (("figure", "README.md", "--spec", "{}", "--selection", "README.md", "--output", "x"),
         "missing title, figure, runs"),
        (("summary", "README.md"), "README.md: is not a folder"),
        (("select", "README.md", "--spec", "{}", "--output", "x.json"), "not a readable netCDF"),
    ],
)  # fmt: skip
def test_mistakes_are_one_clear_error(arguments, expected):
    outcome = fedatlas(*arguments)
    assert outcome.returncode == 1
    assert expected in outcome.stderr
    assert outcome.stderr.startswith("error: ")
    assert "Traceback" not in outcome.stderr


def test_a_file_is_known_by_its_place_in_the_mirror_too(tmp_path):
    mirror = tmp_path / "mirror" / "libsvm"
    mirror.mkdir(parents=True)
    (mirror / "a9a").write_text("not a9a")
    outcome = fedatlas(
        "download", "libsvm/a9a", "--mirror", mirror.parent, "--output", tmp_path / "a9a",
        "--lock", tmp_path / "lock.json", "--archives", tmp_path,
    )  # fmt: skip
    assert outcome.returncode == 1
    assert "wrong checksum" in outcome.stderr
    assert not (tmp_path / "a9a").exists()
