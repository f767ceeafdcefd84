"""What grows with experiments reaches commands whatever its length, and names fit into folders."""

import json
import os
import sys
from pathlib import Path
from subprocess import CalledProcessError
from types import SimpleNamespace

import pytest
from snakemake.shell import shell

from fedatlas.errors import FedatlasError
from fedatlas.plan.checks import LONGEST_NAME, check_name
from fedatlas.plan.rules import CALL
from fedatlas.schema.partitions import TieredPartition


def test_a_step_takes_more_than_linux_passes_as_arguments(tmp_path, monkeypatch):
    """Of 3 MiB, of which one text takes 150 KiB."""
    beside = str(Path(sys.executable).parent)  # as the workflow finds it
    monkeypatch.setenv("PATH", beside + os.pathsep + os.environ["PATH"])
    traces = [f"{tmp_path}/a folder/{number:080}.nc" for number in range(20_000)]
    files = {"traces": traces, "tuning": [], "output": "selection.json", "joined": "traces.nc"}
    names = ("paper", "experiment", "title", "source", "notes", "dataset")
    heading = dict.fromkeys(names, "made-up")
    spec = {"selection": {"measurement": "objective"}, "tuned": {}, "titles": {}}
    spec = json.dumps(spec | {"heading": heading}) + " " * 150_000
    monkeypatch.chdir(tmp_path)  # long commands become files there
    with pytest.raises(CalledProcessError):
        shell(
            f"{CALL} > log 2>&1",
            params=SimpleNamespace(step="select_points", spec=spec, files=json.dumps(files)),
        )
    assert (tmp_path / "log").read_text().startswith(f"error: {traces[0]}: there is no such file")


def test_long_names_are_refused_or_shortened():
    check_name("a" * LONGEST_NAME, "here")
    with pytest.raises(FedatlasError, match="becomes a file name: it has 201 characters"):
        check_name("a" * (LONGEST_NAME + 1), "here")
    many = [TieredPartition(cut={"columns": 99}, clients=[*range(1, 99), k]) for k in (5, 6)]
    assert len({spec.slug for spec in many}) == 2
    assert max(len(spec.slug) for spec in many) < LONGEST_NAME
