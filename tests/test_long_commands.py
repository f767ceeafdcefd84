"""What grows with experiments reaches commands whatever its length, and names fit into folders."""

import os
import re
import sys
from pathlib import Path
from subprocess import CalledProcessError
from types import SimpleNamespace

import pytest
from snakemake.shell import shell

from fedatlas.errors import FedatlasError
from fedatlas.plan.checks import LONGEST_NAME, check_name
from fedatlas.schema.partitions import TieredPartition

RULES = Path(__file__).parents[1] / "rules"


def commands() -> dict[str, str]:
    """The shell command of every rule, by its first words."""
    found = {}
    for file in RULES.glob("*.smk"):
        for block in re.findall(r"shell:.*\n((?: +\".*\"\n)+)", file.read_text()):
            command = "".join(re.findall(r'"(.*)"', block)).replace("\\\\", "\\")
            found[" ".join(command.split()[:2])] = command
    return found


def test_specifications_and_lists_of_traces_are_no_arguments():
    found = commands()
    assert len(found) > 20
    for command in found.values():
        pipes = "".join(re.findall(r"@<\(.*?\)", command))
        for grows in re.findall(
            r"{params\.(?:spec|kept|shows)[^}]*}|{input\.traces[^}]*}", command
        ):
            assert grows in pipes, command


def test_a_command_takes_more_than_linux_passes_as_arguments(tmp_path, monkeypatch):
    """Of 3 MiB, of which one text takes 150 KiB."""
    beside = str(Path(sys.executable).parent)  # as the workflow finds it
    monkeypatch.setenv("PATH", beside + os.pathsep + os.environ["PATH"])
    spec = '{"measurement": "objective"}' + " " * 150_000
    traces = [f"{tmp_path}/a folder/{number:080}.nc" for number in range(20_000)]
    monkeypatch.chdir(tmp_path)  # long commands become files there
    with pytest.raises(CalledProcessError):
        shell(
            commands()["fedatlas select"],
            params=SimpleNamespace(spec=spec, tuning=[]),
            input=SimpleNamespace(traces=traces),
            output="selection.json",
            log="log",
        )
    assert (tmp_path / "log").read_text().startswith(f"error: {traces[0]}: there is no such file")


def test_long_names_are_refused_or_shortened():
    check_name("a" * LONGEST_NAME, "here")
    with pytest.raises(FedatlasError, match="becomes a file name: it has 201 characters"):
        check_name("a" * (LONGEST_NAME + 1), "here")
    many = [TieredPartition(cut={"columns": 99}, clients=[*range(1, 99), k]) for k in (5, 6)]
    assert len({spec.slug for spec in many}) == 2
    assert max(len(spec.slug) for spec in many) < LONGEST_NAME
