"""What `fedatlas run` shows of Snakemake's lines."""

import io
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

from rich.console import Console

from fedatlas.cli.planned import PlannedJob, format_planned, planned_jobs
from fedatlas.cli.progress import shown_with_a_bar
from fedatlas.cli.run import with_locks_explained
from fedatlas.cli.steps import Steps
from fedatlas.cli.time_left import OTHER_SECONDS, kind_of, seconds_left, trains
from fedatlas.plan.places import snakefile

#: Of a real run of `snakemake`, with jobs that failed.
PRINTED = """Using workflow specific profile profiles/default for setting default arguments.
Config file config/config.yaml is extended by additional config specified via the command line.
Assuming unrestricted shared filesystem usage.

SNAKEMAKE
=========
  Date: 2026-11-23 18:31:59
  Working directory: /data/fedatlas

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

[Mon Nov 23 18:32:13 2026]
localrule train_run:
    input: results/shards/a9a/manifest.json
    output: results/experiments/demo-small/traces/fedavg/only.nc (update)
    log: logs/only.log
    jobid: 30
    wildcards: experiment=demo-small, run=fedavg, point=only
    resources: tmpdir=/tmp
[Mon Nov 23 18:32:13 2026]
rule judge_claims:
    output: results/experiments/demo-small/claims.csv
    jobid: 31
[Mon Nov 23 18:32:14 2026]
Finished jobid: 30 (Rule: train_run)
1 of 4 steps (25%) done
results/atlas/atlas.nc: added demo-small
error: cannot get some/file:
- http://example.org/file: 404
Select jobs to execute...

[Mon Nov 23 18:32:15 2026]
localrule train_run:
    output: results/experiments/demo-small/traces/scaffold/step-0.1.nc (update)
    jobid: 32
[Mon Nov  2 18:32:16 2026]
Finished jobid: 31 (Rule: judge_claims)
2 of 4 steps (50%) done
RuleException:
CalledProcessError in file "/data/fedatlas/rules/train.smk", line 50:
Command 'set -euo pipefail;  fedatlas download 2>&1 | tee a.log' returned non-zero exit status 1.
Command 'set -euo pipefail;  fedatlas figure --spec {"notes": "of
two lines"} > b.log 2>&1' returned non-zero exit status 1.
[Mon Nov  2 18:32:16 2026]
Error in rule train_run:
    message: None
    jobid: 32
    output: results/experiments/demo-small/traces/scaffold/step-0.1.nc (update)
    log: logs/only.log (check log file(s) for error details)
    shell:
        fedatlas train-points
        (command exited with non-zero exit code)
Restored previous version of results/experiments/demo-small/x.nc (updating job failed).
Cannot restore results/experiments/demo-small/traces/fedavg/only.nc: no backup found.
Exiting because a job execution failed. Look above for error messages

Failed: rule train_run
  makes: results/experiments/demo-small/traces/fedavg/only.nc
  | error: step_size: -1 is not positive
Complete log(s): /data/fedatlas/.snakemake/log/2026-11-23.snakemake.log
Elapsed time: 0:00:25.560906
WorkflowError:
At least one job did not complete successfully.
"""
TOLD = [
    "results/atlas/atlas.nc: added demo-small",
    "A job failed, see logs/only.log",
    "Failed: rule train_run",
    "  makes: results/experiments/demo-small/traces/fedavg/only.nc",
    "  | error: step_size: -1 is not positive",
]
#: Of an experiment that cannot be read.
UNREADABLE = """WorkflowError in file "/data/fedatlas/rules/common.smk", line 44:
lab/experiments/bad.yaml: tuning_seeds: no run has a grid of several points; remove them
  File "/data/fedatlas/rules/common.smk", line 44, in <module>
"""
#: Of a fault in a workflow that uses this one.
OF_THEIRS = "NameError in file \"/lab/Snakefile\", line 3:\nname 'x' is not defined\n"


def heeded(text: str) -> list[str]:
    steps = Steps()
    lines = (steps.heed(line, now=0.0) for line in text.splitlines())
    return [line for line in lines if line is not None]


def test_what_matters_is_told_and_the_rest_is_counted():
    steps = Steps()
    lines = [steps.heed(line, now=0.0) for line in PRINTED.splitlines()]
    assert [line for line in lines if line is not None] == TOLD
    assert (steps.done, steps.total, steps.running()) == (2, 4, "")


def test_the_workflows_own_places_do_not_frame_what_is_wrong_in_an_experiment():
    assert heeded(UNREADABLE) == [UNREADABLE.splitlines()[1]]
    assert heeded(OF_THEIRS) == OF_THEIRS.splitlines()


def test_what_runs_is_named_and_measured():
    steps = Steps()
    for second, line in enumerate(PRINTED.partition("RuleException")[0].splitlines()):
        steps.heed(line, now=float(second))
    assert steps.running() == "training demo-small/scaffold/step-0.1"
    assert steps.counts == {"train_run": 3, "judge_claims": 1}
    assert {kind: len(times) for kind, times in steps.taken.items()} == {
        "train_run": 1,
        "judge_claims": 1,
    }


def test_a_part_that_trains_is_named_by_its_experiment_and_many_are_counted():
    steps = Steps()
    for number in (1, 2, 3):
        traces = ", ".join(f"results/experiments/a-b/traces/run/{x}.nc (update)" for x in "xyz")
        for line in (f"rule train_a-b_{number}:", f"    output: {traces}", f"    jobid: {number}"):
            steps.heed(line, now=0.0)
    assert steps.running() == (
        "training a-b, part 1 (3 points), training a-b, part 2 (3 points) and 1 more"
    )
    steps = Steps()
    for number in (1, 2):
        for line in ("localrule shard_into_1:", "    output: a", f"    jobid: {number}"):
            steps.heed(line, now=0.0)
    assert steps.running() == "2 × shard_into_1"


# --- the time left --------------------------------------------------------------------------------


def test_nothing_is_estimated_while_training_is_to_come_and_none_is_measured():
    counts = {"shard_into": 4, "train_run": 2}
    assert seconds_left(counts, {"shard_into": [1.0, 1.0]}, {}, 2) is None
    assert Steps().seconds_left(0.0, 2) is None


def test_steps_count_by_what_their_kind_has_taken():
    counts = {"shard_into": 10, "train_run": 4}
    taken = {"shard_into": [1.0] * 10, "train_run": [60.0, 80.0]}
    assert seconds_left(counts, taken, {}, 1) == 140.0
    # The end is no sooner than the longest step, however many cores there are.
    assert seconds_left(counts, taken, {}, 8) == 70.0
    assert seconds_left(counts, taken, {"train_run": [30.0, 10.0]}, 1) == 100.0


def test_training_that_is_not_measured_is_taken_for_like_the_others():
    counts = {"train_a-b": 2, "train_a-c": 3, "draw_figure": 1}
    assert seconds_left(counts, {"train_a-b": [20.0, 40.0]}, {}, 1) == 90.0 + OTHER_SECONDS


def test_a_step_that_takes_longer_than_others_is_not_over_at_once():
    left = [
        seconds_left({"train_run": 2}, {"train_run": [10.0]}, {"train_run": [age]}, 2)
        for age in (0.0, 4.0, 8.0, 100.0)
    ]
    assert left == [10.0, 6.0, 2.0, 25.0]


def test_the_estimate_falls_as_time_goes_on():
    """Steps of a minute, with others of a second between them: it does not jump up."""
    counts, taken = {"train_run": 5, "draw_figure": 20}, {"train_run": [60.0], "draw_figure": []}
    estimates = [seconds_left(counts, taken, {}, 1)]
    for _ in range(4):
        taken["draw_figure"] += [1.0] * 5
        estimates.append(seconds_left(counts, taken, {}, 1))
        taken["train_run"].append(60.0)
        estimates.append(seconds_left(counts, taken, {}, 1))
    assert estimates == sorted(estimates, reverse=True) and estimates[-1] == 0.0


def test_parts_of_an_experiment_are_of_a_kind():
    assert {kind_of(rule) for rule in ("train_a-b_1", "train_a-b_54")} == {"train_a-b"}
    assert trains("train_run") and trains("fed_train_a-b") and not trains("constrain_run")


# --- what is shown --------------------------------------------------------------------------------


def test_without_a_terminal_steps_are_lines():
    stream = io.StringIO()
    shown_with_a_bar(PRINTED.splitlines(keepends=True), Console(file=stream), 2)
    shown = stream.getvalue().splitlines()
    steps = [line for line in shown if " steps, " in line]
    assert [line.partition(",")[0] for line in steps] == ["1 of 4 steps", "2 of 4 steps"]
    assert all("about" in line for line in steps)
    assert [line for line in shown if line not in steps] == TOLD


def test_the_first_steps_tell_no_time_left(monkeypatch):
    monkeypatch.setattr("fedatlas.cli.progress._SECONDS", 0.0)
    stream, printed = io.StringIO(), ["Job stats:\n", "train_run  100\n", "total  133\n", "\n"]
    printed.append("1 of 133 steps (1%) done\n")
    shown_with_a_bar(printed, Console(file=stream), 2)
    assert "1 of 133 steps, 0:00 so far\n" in stream.getvalue()
    assert "left" not in stream.getvalue()


LOCKED = """Building DAG of jobs...
LockException:
Error: Directory cannot be locked. Please make sure that no other Snakemake process is trying to \
create the same files in the following directory:
/some/where
If you are sure that no other instances of snakemake are running on this directory, the remaining \
lock was likely caused by a kill signal or a power loss. It can be removed with the \
--unlock argument.
""".splitlines(keepends=True)


def test_a_lock_that_was_left_is_told_with_the_command_that_removes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    building, told = with_locks_explained(LOCKED)
    assert building == LOCKED[0]
    assert "no run is active in it" in told
    assert told.endswith(f"call: snakemake --snakefile {snakefile()} --unlock\n")
    (tmp_path / "Snakefile").touch()
    assert list(with_locks_explained(LOCKED))[1].endswith("call: snakemake --unlock\n")
    steps = Steps()
    assert steps.heed(told.rstrip("\n"), 0.0) == told.rstrip("\n")


RUN = """
import sys, time
if sys.argv[2:]:
    from fedatlas.cli.run import format_lock
    print(format_lock())
else:
    time.sleep(60)
"""


def test_a_lock_of_a_run_that_is_active_is_told_with_its_process(tmp_path):
    """One that works in this folder, of several the first; whoever asks is none."""
    elsewhere, run = tmp_path / "elsewhere", tmp_path / "fedatlas"
    elsewhere.mkdir()
    run.write_text(RUN)
    command = [sys.executable, str(run), "run"]

    def told():
        asked = subprocess.run([*command, "x"], cwd=tmp_path, capture_output=True, text=True)
        return asked.stdout

    with ExitStack() as stack:
        started = []
        for place in (elsewhere, tmp_path, tmp_path):
            if place == tmp_path and len(started) == 1:
                assert "no run is active in it" in told()
            started.append(stack.enter_context(subprocess.Popen(command, cwd=place)))
            stack.callback(started[-1].kill)
            time.sleep(0.05)  # the kernel's clock of processes has ticks of 10 ms
        active = told()
    first = started[1].pid
    assert f"process {first} on {socket.gethostname()} since 20" in active
    assert f"(fedatlas run). Wait until it ends, or end it: kill {first}." in active


def test_on_a_terminal_there_is_a_bar():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    shown_with_a_bar(PRINTED.splitlines(keepends=True), console, 2)
    assert "0/?" not in stream.getvalue()
    assert "2/4" in stream.getvalue() and "left" in stream.getvalue()
    assert "Select jobs" not in stream.getvalue()


# --- what would run -------------------------------------------------------------------------------

#: Of a real dry run.
DRY = """Building DAG of jobs...

[Wed Nov 25 04:56:19 2026]
localrule shard_into_1:
    input: results/data/breast-cancer/train.parquet
    output: results/shards/breast-cancer/train/a/silo-0.parquet, results/shards/a/manifest.json
    jobid: 4
    reason: Missing output files: results/shards/breast-cancer/train/a/silo-0.parquet
    resources: tmpdir=/tmp
[Wed Nov 25 04:56:19 2026]
rule train_a-b_1:
    output: results/experiments/a-b/traces/x/only.nc (update), r/experiments/a-b/traces/y/s.nc
    jobid: 5
    reason: Params have changed since last execution: before: 'code 1' now: 'code 2'
[Wed Nov 25 04:56:19 2026]
rule judge_claims:
    output: results/experiments/a-b/claims.csv
    jobid: 6
    reason: Input files updated by another job: results/experiments/a-b/traces/x/only.nc
rule all:
    jobid: 0
    reason: Input files updated by another job: results/experiments/a-b/claims.csv
Job stats:
"""


def test_a_dry_run_says_what_would_be_made_and_why():
    jobs, others = planned_jobs(DRY.splitlines())
    assert "Job stats:" in others and len(jobs) == 3
    assert format_planned(jobs) == [
        "sets of shards: 1 (missing)",
        "a-b:",
        "  2 trainings (code changed): x, y/s",
        "  verdicts (follows from the above)",
        "3 jobs in all, with 2 trainings.",
    ]


def test_files_of_an_experiment_are_told_in_order_and_drawings_once():
    names = "claims.csv trees.svg trees.png figure.svg figure.png leaks.csv"
    files = [f"results/experiments/a-b/{name}" for name in names.split()]
    jobs = [PlannedJob("some", (file,), "Missing output files: it") for file in files]
    assert format_planned(jobs)[1] == "  figure, verdicts, leaks.csv, trees.svg (missing)"


def traces(count: int, runs: int) -> tuple[str, ...]:
    return tuple(f"results/experiments/a-b/traces/r{n % runs}/s-{n}.nc" for n in range(count))


def test_parts_of_a_dry_run_are_told_together_with_counts():
    parts = [PlannedJob(f"train_a-b_{n}", traces(9, 3), "Params have changed") for n in range(3)]
    assert "  27 trainings (settings changed): r0 (9), r1 (9), r2 (9)" in format_planned(parts)
    many = PlannedJob(
        "train_a-b_1", traces(12, 6), "Missing output files: " + ", ".join(traces(12, 6))
    )
    assert "  12 trainings (missing): 6 runs" in format_planned([many])
    lost = PlannedJob("train_a-b_1", traces(12, 6), f"Missing output files: {traces(1, 1)[0]}")
    assert "  1 training (missing): r0/s-0" in format_planned([lost])


def test_a_dry_run_without_jobs_says_so():
    assert format_planned([]) == ["Nothing to do: all is made, and up to date."]
