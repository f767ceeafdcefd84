"""AGENTS.md: its commands add a method, as they stand there; its files and links are there."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "AGENTS.md").read_text("utf-8")


def test_its_commands_add_a_method(tmp_path):
    commands = re.search(r"```sh\n(.*?)```", GUIDE, re.DOTALL)[1]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", commands],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mine does what a method promises" in done.stdout
    assert "with 6 trainings" in done.stdout
    assert (tmp_path / "lab/methods/mine.py").is_file()


def test_its_files_are_there():
    named = re.findall(r"\]\(([^)#]+)\)|`((?:src|tests|config|docs)/[\w/.-]+)`", GUIDE)
    files = [one or other for one, other in named]
    assert len(files) > 8
    made = {"src/fedatlas/algorithms/mine.py"}  # by its commands
    assert {file for file in files if not (ROOT / file).exists()} == made
