"""A run names itself in its results until it ends; who comes later reads of it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fedatlas.errors import FedatlasError
from fedatlas.plan.holders import format_lock, hold

HOLDS = """
import sys
from pathlib import Path
from fedatlas.plan.holders import hold
hold(Path("results"), *sys.argv[1:])
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with results and a Snakefile; SLURM has the jobs that `queue` names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "Snakefile").touch()
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text('#!/bin/sh\n[ "$4" = ours ] && cat queue\n')
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{squeue.parent}:{os.environ['PATH']}")
    (tmp_path / "queue").write_text("7\n8\n")
    return tmp_path


@pytest.fixture
def run(folder):
    """A process that holds the results."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, "ours"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout and process.stdout.readline() == b"holds\n"
    yield process
    process.kill()
    process.communicate()


def held() -> list[Path]:
    return list(Path("results").glob(".run-*"))


def test_a_run_that_ends_leaves_no_name(run):
    assert [str(run.pid) in file.name for file in held()] == [True]
    assert f"or end it: kill {run.pid}; scancel --name ours. " in format_lock()
    run.communicate()
    assert held() == []


def test_jobs_that_outlive_their_run_keep_others_from_starting(run, folder):
    run.kill()
    run.communicate()
    told = f"SLURM goes on with its jobs 7, 8: process {run.pid} on {socket.gethostname()} of "
    with pytest.raises(FedatlasError, match=told) as error:
        hold(Path("results"))
    assert str(error.value).endswith("or end them: scancel --name ours. Then start again")
    assert format_lock().endswith("scancel --name ours. Then call: snakemake --unlock")
    (folder / "queue").write_text("")
    assert "no run is active" in format_lock()
    # The next run takes the name of the killed one away.
    last = subprocess.run([sys.executable, "-c", HOLDS], input="", capture_output=True, text=True)
    assert last.stdout == "holds\n" and held() == []


def test_results_that_a_run_of_another_folder_works_in_are_refused(run, folder, monkeypatch):
    (folder / "other").mkdir()
    monkeypatch.chdir(folder / "other")
    with pytest.raises(FedatlasError, match=rf"(?s)process {run.pid} on .*, in {folder}\. Wait"):
        hold(Path("../results"))


def test_a_run_on_another_machine_is_named(folder):
    began = psutil.Process().create_time()
    other = {"host": "login2", "process": 5, "began": began, "user": "anna", "slurm": "ours"}
    text = json.dumps(other | {"folder": str(folder), "command": "snakemake paper"})
    (folder / "results" / ".run-login2-5.json").write_text(text)
    (folder / "results" / ".run-login3-6.json").write_text("no JSON")
    told = format_lock()
    assert "process 5 on login2 of anna since 20" in told and "(snakemake paper)" in told
    assert told.endswith("Where it does not run any more, call: snakemake --unlock")
    with pytest.raises(FedatlasError, match="its jobs 7, 8: process 5 on login2"):
        hold(Path("results"))
    # Snakemake let both work: they make different files.
    for number in range(2):
        lock = Path(f".snakemake/locks/{number}.output.lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
    last = subprocess.run([sys.executable, "-c", HOLDS], input="", capture_output=True, text=True)
    assert last.stdout == "holds\n" and len(held()) == 2


def test_a_lock_of_a_killed_run_is_not_taken_for_that_of_the_run_that_asks(folder):
    """Snakemake asks, which `fedatlas run` has started."""
    script = folder / "fedatlas"
    script.write_text(
        "import subprocess, sys\n"
        "ask = 'from fedatlas.plan.holders import format_lock; print(format_lock())'\n"
        "subprocess.run([sys.executable, '-c', ask], check=True)\n"
    )
    told = subprocess.run(
        [sys.executable, script, "run", "demo"], capture_output=True, text=True, check=True
    )
    assert "no run is active in it" in told.stdout and "--unlock" in told.stdout
