"""What `snakemake --logger fedatlas`, and so `fedatlas run`, shows of Snakemake's events."""

import getpass
import io
import logging
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

from rich.console import Console

from fedatlas.cli.progress import (
    OTHER_SECONDS,
    Display,
    PlannedJob,
    Steps,
    format_planned,
    kind_of,
    trains,
)
from fedatlas.errors import FedatlasError
from fedatlas.plan.failures import Explaining
from fedatlas.plan.holders import format_lock
from fedatlas.plan.places import snakefile
from fedatlas.plan.trainings import IF_INPUTS_DIFFER

TRACES = "results/experiments/demo-small/traces"
LOG = {"log": ["logs/only.log"]}
FAULT = """WorkflowError in file "/data/fedatlas/rules/common.smk", line 44:
lab/experiments/bad.yaml: tuning_seeds: no run has a grid of several points; remove them
  File "/data/fedatlas/rules/common.smk", line 44, in <module>
"""
#: A run in which a job fails.
EVENTS = [
    ("Building DAG of jobs...", {}),
    ("banner", {"event": "workflow_started"}),
    ("Provided cores: 2", {"event": "resources_info", "cores": 2}),
    ("Job stats:", {"event": "run_info", "stats": {"train_run": 3, "judge_claims": 1, "total": 4}}),
    ("", {"event": "job_info", "jobid": 30, "rule_name": "train_run", "reason": "",
          "output": [f"{TRACES}/fedavg/only.nc (update)"]}),
    ("", {"event": "job_info", "jobid": 31, "rule_name": "judge_claims", "reason": "",
          "output": ["results/experiments/demo-small/claims.csv"]}),
    ("", {"event": "job_finished", "job_id": 30}),
    ("", {"event": "progress", "done": 1, "total": 4}),
    ("", {"event": "job_info", "jobid": 32, "rule_name": "train_run", "reason": "",
          "output": [f"{TRACES}/scaffold/step-0.1.nc (update)"]}),
    ("", {"event": "job_finished", "job_id": 31}),
    ("", {"event": "progress", "done": 2, "total": 4}),
    ("a warning", {"levelno": logging.WARNING}),
    ("Command 'set -euo pipefail;  fedatlas step' returned non-zero exit status 1.",
     {"event": "error", "exception": "RuleException", "levelno": logging.ERROR}),
    ("", {"event": "job_error", "jobid": 32, **LOG}),
    ("Exiting because a job execution failed.", {"levelno": logging.ERROR}),
    ("At least one job did not complete successfully.",
     {"event": "error", "exception": "WorkflowError", "levelno": logging.ERROR}),
]  # fmt: skip
TOLD = ["a warning", "A job failed, see logs/only.log"]


def shown(events, **options) -> list[str]:
    """What is printed of events."""
    stream = io.StringIO()
    display = Display(console=Console(file=stream, **options.pop("console", {})), **options)
    for message, fields in events:
        record = logging.makeLogRecord({"msg": message, "levelno": logging.INFO, **fields})
        display.heed(record)
    display.end()
    display.end()
    return stream.getvalue().splitlines()


def test_without_a_terminal_steps_are_lines_beside_what_matters():
    lines = shown(EVENTS)
    steps = [line for line in lines if " steps, " in line]
    assert [line.partition(",")[0] for line in steps] == ["1 of 4 steps", "2 of 4 steps"]
    assert all("about" in line for line in steps)
    assert [line for line in lines if line not in steps] == TOLD


def test_a_quiet_run_tells_what_went_wrong():
    assert shown(EVENTS, quiet=True) == TOLD[1:]


def test_jobs_that_fail_by_one_error_are_told_once(tmp_path):
    logs = [tmp_path / f"{name}.log" for name in "abcd"]
    for log, text in zip(
        logs, ["error: test: 9", "error: test: 9", "error: test: 8", ""], strict=True
    ):
        log.write_text(f"begins\n{text}\n", encoding="utf-8")
    events = [("", {"event": "job_error", "jobid": 1, "log": [str(log)]}) for log in logs]
    assert shown(events) == [f"A job failed, see {logs[n]}" for n in (0, 2, 3)]


def test_on_a_terminal_there_is_a_bar():
    drawn = "\n".join(shown(EVENTS, console={"force_terminal": True, "width": 100}))
    assert "2/4" in drawn and "left" in drawn and "Building" not in drawn


def test_the_first_steps_tell_no_time_left(monkeypatch):
    monkeypatch.setattr("fedatlas.cli.progress._SECONDS", 0.0)
    stats = {"train_run": 100, "total": 133}
    events = [("", {"event": "run_info", "stats": stats})]
    events += [("", {"event": "progress", "done": 1, "total": 133})]
    assert shown(events) == ["1 of 133 steps, 0:00 so far"]


def test_the_workflows_own_places_do_not_frame_what_is_wrong_in_an_experiment():
    """But those of a workflow that uses this one do."""
    theirs = "NameError in file \"/lab/Snakefile\", line 3:\nname 'x' is not defined"
    for text, told in ((FAULT, FAULT.splitlines()[1:2]), (theirs, theirs.splitlines())):
        assert shown([(text, {"event": "error", "exception": "WorkflowError"})]) == told


def test_a_lock_that_was_left_is_told_with_the_command_that_removes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = logging.makeLogRecord({"msg": "Error: …", "exception": "LockException"})
    assert Explaining(None, tmp_path).filter(record)
    (told,) = shown([(record.msg, {"event": "error", "exception": "LockException"})])
    assert told.startswith("Cannot run: ") and "no run is active in it" in told
    assert told.endswith(f"call: snakemake --snakefile {snakefile()} --unlock")
    (tmp_path / "Snakefile").touch()
    assert format_lock().endswith("call: snakemake --unlock")


def test_a_dry_run_says_what_would_be_made_and_why():
    outputs = {
        "shard_into_1": ["results/shards/breast-cancer/train/a/silo-0.parquet"],
        "train_a-b_1": [
            "results/experiments/a-b/traces/x/only.nc (update)",
            "r/experiments/a-b/traces/y/s.nc",
        ],
        "judge_claims": ["results/experiments/a-b/claims.csv"],
        "all": [],
    }
    reasons = {
        "shard_into_1": "Missing output files: results/shards/breast-cancer/train/a/silo-0.parquet",
        "train_a-b_1": "Params have changed since last execution: before: 'code 1' now: 'code 2'",
    }
    events = [
        ("", {"event": "job_info", "jobid": 1, "rule_name": rule, "output": files,
              "reason": reasons.get(rule, "Input files updated by another job: x")})
        for rule, files in outputs.items()
    ]  # fmt: skip
    assert shown(events, dry_run=True) == [
        "sets of shards: 1 (missing)",
        "a-b:",
        "  2 trainings (code changed): x, y/s",
        "  verdicts (follows from the above)",
        "3 jobs in all, with 2 trainings.",
    ]


def test_what_runs_is_named_and_measured():
    steps = Steps()
    steps.begin(30, "train_run", [f"{TRACES}/fedavg/only.nc"], 0.0)
    steps.begin(32, "train_run", [f"{TRACES}/scaffold/step-0.1.nc"], 1.0)
    steps.end(30, 5.0)
    assert steps.names() == "training demo-small/scaffold/step-0.1"
    assert steps.taken == {"train_run": [5.0]}


def test_a_part_that_trains_is_named_by_its_experiment_and_many_are_counted():
    steps = Steps()
    for number in (1, 2, 3):
        files = [f"results/experiments/a-b/traces/run/{x}.nc" for x in "xyz"]
        steps.begin(number, f"train_a-b_{number}", files, 0.0)
    assert steps.names() == (
        "training a-b, part 1 (3 points), training a-b, part 2 (3 points) and 1 more"
    )
    steps = Steps()
    for number in (1, 2):
        steps.begin(number, "shard_into_1", ["a"], 0.0)
    assert steps.names() == "2 × shard_into_1"


# --- the time left --------------------------------------------------------------------------------


def left(counts, taken, ages=(), cores=1):
    """The seconds left; ages: of trainings that run."""
    running = {n: ("train_run", "", -age) for n, age in enumerate(ages)}
    return Steps(1, 9, counts, taken, running).seconds_left(0.0, cores)


def test_nothing_is_estimated_while_training_is_to_come_and_none_is_measured():
    assert left({"shard_into": 4, "train_run": 2}, {"shard_into": [1.0, 1.0]}, cores=2) is None
    assert Steps().seconds_left(0.0, 2) is None


def test_steps_count_by_what_their_kind_has_taken():
    counts = {"shard_into": 10, "train_run": 4}
    taken = {"shard_into": [1.0] * 10, "train_run": [60.0, 80.0]}
    assert left(counts, taken) == 140.0
    # The end is no sooner than the longest step, however many cores there are.
    assert left(counts, taken, cores=8) == 70.0
    assert left(counts, taken, [30.0, 10.0]) == 100.0


def test_training_that_is_not_measured_is_taken_for_like_the_others():
    counts = {"train_a-b": 2, "train_a-c": 3, "draw_figure": 1}
    assert left(counts, {"train_a-b": [20.0, 40.0]}) == 90.0 + OTHER_SECONDS


def test_a_step_that_takes_longer_than_others_is_not_over_at_once():
    found = [
        left({"train_run": 2}, {"train_run": [10.0]}, [age], 2) for age in (0.0, 4.0, 8.0, 100.0)
    ]
    assert found == [10.0, 6.0, 2.0, 25.0]


def test_the_estimate_falls_as_time_goes_on():
    """Steps of a minute, with others of a second between them: it does not jump up."""
    counts, taken = {"train_run": 5, "draw_figure": 20}, {"train_run": [60.0]}
    estimates = [left(counts, taken)]
    for _ in range(4):
        taken.setdefault("draw_figure", []).extend([1.0] * 5)
        estimates.append(left(counts, taken))
        taken["train_run"].append(60.0)
        estimates.append(left(counts, taken))
    assert estimates == sorted(estimates, reverse=True) and estimates[-1] == 0.0


def test_parts_of_an_experiment_are_of_a_kind():
    assert {kind_of(rule) for rule in ("train_a-b_1", "train_a-b_54")} == {"train_a-b"}
    assert trains("train_run") and trains("fed_train_a-b") and not trains("constrain_run")


# --- locks, and what would run ---

RUN = """
import sys, time
if sys.argv[2:]:
    from fedatlas.plan.holders import format_lock
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
    assert f"process {first} on {socket.gethostname()} of {getpass.getuser()} since 20" in active
    assert f"(fedatlas run). Wait until it ends, or end it: kill {first}." in active


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


def test_a_dry_run_asks_of_each_point_whether_it_trains():
    """Where inputs are not there yet, Snakemake's reason stands for it."""
    x, y, z = (f"r/experiments/a-b/traces/{run}/only.nc" for run in "xyz")
    shards = PlannedJob("shard_into_1", ("r/shards/d/train/a/manifest.json",), "Code has changed")
    job = PlannedJob("train_a-b_1", (x, y, z), f"Missing output files: {y}")

    def why(trace, remade):
        assert shards.outputs[0] in remade
        if trace == y:
            raise FedatlasError("no manifest")
        return IF_INPUTS_DIFFER if trace == z else ""

    assert format_planned([shards, job], why)[2:] == [
        "  1 trace of finished seeds (no training): x",
        "  1 training (missing): y",
        f"  1 training ({IF_INPUTS_DIFFER}): z",
        "2 jobs in all, with at most 2 trainings.",
    ]


def test_a_dry_run_without_jobs_says_so():
    assert format_planned([]) == ["Nothing to do: everything is made and up to date."]
