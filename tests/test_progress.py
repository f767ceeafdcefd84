"""What `fedatlas run` shows of Snakemake's lines."""

import io

from rich.console import Console

from fedatlas.cli.progress import Steps, shown_with_a_bar
from fedatlas.cli.run import with_unlocking
from fedatlas.plan.places import snakefile

#: Of a real run of `snakemake --quiet rules`, with a job that failed.
PRINTED = """Using workflow specific profile profiles/default for setting default arguments.
Config file config/config.yaml is extended by additional config specified via the command line.
Assuming unrestricted shared filesystem usage.

SNAKEMAKE
=========
  Date: 2026-11-23 18:31:59
  Working directory: /data/fedatlas

Left out: demo-broken: config/experiments/demo/broken.yaml, line 3: 'seeds' is missing
Building DAG of jobs...
Using shell: /usr/bin/bash
Provided cores: 2
Rules claiming more threads will be scaled down.
Singularity containers: ignored
Job stats:
job              count
-------------  -------
train_run            3
judge_claims         1
total                4

Select jobs to execute...
Execute 2 jobs...
[Mon Nov 23 18:32:14 2026]
Finished jobid: 30 (Rule: train_run)
1 of 4 steps (25%) done
results/atlas/atlas.nc: added demo-small
Select jobs to execute...
[Mon Nov  2 18:32:16 2026]
Finished jobid: 31 (Rule: judge_claims)
2 of 4 steps (50%) done
RuleException:
CalledProcessError in file "/data/fedatlas/rules/train.smk", line 50:
Command 'set -euo pipefail;  fedatlas train > logs/only.log 2>&1' returned non-zero exit status 1.
Cannot restore results/experiments/demo-small/traces/fedavg/only.nc: no backup found.

Failed: rule train_run
  makes: results/experiments/demo-small/traces/fedavg/only.nc
  | error: step_size: -1 is not positive
Complete log(s): /data/fedatlas/.snakemake/log/2026-11-23.snakemake.log
"""
TOLD = [
    "Left out: demo-broken: config/experiments/demo/broken.yaml, line 3: 'seeds' is missing",
    "results/atlas/atlas.nc: added demo-small",
    "A job failed, see logs/only.log",
    "Failed: rule train_run",
    "  makes: results/experiments/demo-small/traces/fedavg/only.nc",
    "  | error: step_size: -1 is not positive",
]


def test_what_matters_is_told_and_the_rest_is_counted():
    steps = Steps()
    heeded = [line for line in PRINTED.splitlines() if steps.heed(line)]
    assert [line for line in heeded if not line.startswith("Command ")] == [
        line for line in TOLD if not line.startswith("A job failed")
    ]
    assert (steps.done, steps.total, steps.last) == (2, 4, "judge_claims")


def test_without_a_terminal_steps_are_lines():
    stream = io.StringIO()
    shown_with_a_bar(PRINTED.splitlines(keepends=True), Console(file=stream))
    shown = stream.getvalue().splitlines()
    steps = [line for line in shown if " steps, " in line]
    assert [line.partition(",")[0] for line in steps] == ["1 of 4 steps", "2 of 4 steps"]
    assert all("about" in line for line in steps)  # at a quarter and a half
    assert [line for line in shown if line not in steps] == TOLD


def test_the_first_steps_tell_no_time_left(monkeypatch):
    monkeypatch.setattr("fedatlas.cli.progress._SECONDS", 0.0)
    stream, printed = io.StringIO(), ["Job stats:\n", "total  133\n", "\n"]
    printed.append("1 of 133 steps (1%) done\n")
    shown_with_a_bar(printed, Console(file=stream))
    assert "1 of 133 steps, 0:00 so far\n" in stream.getvalue()
    assert "left" not in stream.getvalue()


def test_a_lock_that_was_left_is_told_with_the_command_that_removes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = list(with_unlocking(["It can be removed with the --unlock argument.\n"]))
    assert shown[1:] == [f"Call: snakemake --snakefile {snakefile()} --unlock\n"]
    (tmp_path / "Snakefile").touch()
    shown = list(with_unlocking(["LockException:\n", "removed with the --unlock argument.\n"]))
    assert shown[2:] == ["Call: snakemake --unlock\n"]


def test_on_a_terminal_there_is_a_bar():
    stream = io.StringIO()
    shown_with_a_bar(
        PRINTED.splitlines(keepends=True), Console(file=stream, force_terminal=True, width=100)
    )
    assert "2/4" in stream.getvalue() and "left" in stream.getvalue()
    assert "Select jobs" not in stream.getvalue()
