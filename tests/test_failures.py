"""What a person sees of jobs and files that fail: which one, where, and how to repeat it."""

import logging
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedatlas import cli, extensions
from fedatlas.errors import FedatlasError
from fedatlas.extensions import import_extension
from fedatlas.plan.checks import check_name
from fedatlas.plan.failures import (
    Explaining,
    FailedJob,
    excerpt,
    failed_jobs,
    format_failures,
    repeat_options,
)
from fedatlas.schema.config import check_command
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.models import read_yaml, validated
from fedatlas.store.netcdf import check_seal
from fedatlas.training.steps import naming_run


def job(name: str, log: Path | str = "", **more):
    return SimpleNamespace(
        rule=SimpleNamespace(name=name), log=[log] if log else [], output=[f"{name}.nc"], **more
    )


def test_a_failed_job_is_told_with_its_log_and_how_to_repeat_it(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("INFO round 1\nerror: x.py, line 3, in round: KeyError: 'a'\n    a[b]\n\nmore\n")
    group = SimpleNamespace(jobs=[job("train", log), job("all")])
    group.jobs[0].output.append("other.nc")  # a job that trains several short points
    found = failed_jobs([group, job("draw", tmp_path / "missing.log")])
    options = repeat_options(
        {"experiments": ["demo-*"], "device": "cpu"},
        [Path("/config/paper.yaml")],
        Path("/there"),
        "/its/Snakefile",
        "/here",
    )
    assert repeat_options({}, [], None, "/here/workflow/Snakefile", "/here") == []
    told = format_failures(found, options)
    assert told.splitlines() == [
        "Failed: rule draw",
        "  makes: draw.nc",
        f"  log: {tmp_path / 'missing.log'}",
        "  run it alone: snakemake draw.nc --cores 1 --snakefile /its/Snakefile --directory "
        "/there --configfile /config/paper.yaml --config 'experiments=[\"demo-*\"]' device=cpu",
        "  | (the log cannot be read: No such file or directory)",
        "",
        "Failed: rule train",
        "  makes: train.nc and 1 more",
        f"  log: {log}",
        "  run it alone: snakemake train.nc --cores 1 --snakefile /its/Snakefile --directory "
        "/there --configfile /config/paper.yaml --config 'experiments=[\"demo-*\"]' device=cpu",
        "  | error: x.py, line 3, in round: KeyError: 'a'",
        "  |     a[b]",
        "  | (2 more lines in the log)",
    ]


LOGGED = """[Wed Nov 25 14:30:07 2026]
Error in rule train:
    message: {message}
    jobid: 1
    output: train.nc
    log: {log}{more} (check log file(s) for error details)
    shell:
        fedatlas train
[Wed Nov 25 14:30:08 2026]
Error in rule other:
    message: SLURM-job '8' failed, SLURM status is: 'OUT_OF_MEMORY'.
    log: other.log (check log file(s) for error details)
"""


@pytest.mark.parametrize(
    ("message", "inside", "local", "killed"),
    [
        ("SLURM status is: 'OUT_OF_MEMORY'. ", "", "", "by the scheduler"),
        ("SLURM status is: 'FAILED'. ",
         "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.", "", "by the scheduler"),
        ("SLURM status is: 'CANCELLED'. ",
         "slurmstepd: error: StepId=7.0 exceeded memory limit (9 > 8)", "", "by the scheduler"),
        ("SLURM status is: 'FAILED'. ", "Command 'x >{log}' returned non-zero exit status 137.",
         "", "by SIGKILL"),
        ("None", "", "137", "by SIGKILL, as systems do where memory runs out"),
        ("None", "", "1", None),
        ("SLURM status is: 'TIMEOUT'. ", "", "", "by the scheduler, because its time was up"),
        ("SLURM status is: 'FAILED'. ", "*** JOB 7 ON a CANCELLED AT … DUE TO TIME LIMIT ***", "",
         "by the scheduler, because its time was up"),
        ("SLURM-job '7_1' failed, SLURM status is: 'CANCELLED'. ", "", "", "by somebody who"),
        ("SLURM status is: 'NODE_FAIL'. ", "", "", "because its node failed"),
        ("SLURM status is: 'FAILED'. ", "*** JOB 7 ON a CANCELLED AT … DUE TO PREEMPTION ***", "",
         "by the scheduler, for a job of higher priority"),
    ],
)  # fmt: skip
def test_what_ended_a_job_from_outside_is_named(tmp_path, message, inside, local, killed):
    log, at_node, whole = tmp_path / "a.log", tmp_path / "7.log", tmp_path / "snakemake.log"
    at_node.write_text(inside.format(log=log))
    text = LOGGED.format(message=message, log=log, more=f", {at_node}" if inside else "")
    if local:
        text = (
            f"Command 'fedatlas train > {log} 2>&1' returned non-zero exit status {local}.\n{text}"
        )
    whole.write_text(text)
    asked = {"resources": {"mem_mb": 6000, "runtime": 90}, "attempt": 3}
    (found,) = failed_jobs([job("train", log, **asked)], [str(whole)])
    told = [line for line in format_failures([found], []).splitlines() if "killed: " in line]
    assert bool(told) == bool(killed)
    if killed:
        assert f"  killed: {killed}" in told[0]
        asked_for = {"memory": "6000 MB", "time": "90 min"}
        assert all(f"at attempt 3 it asked for {much}" in told[0]
                   for what, much in asked_for.items() if what in killed)  # fmt: skip
        # The same at once, whether the job is tried again or not.
        record = logging.makeLogRecord(
            {"rule_msg": message, "jobid": 3, "log": [str(log), str(at_node)], "aux": {}}
        )
        dag = SimpleNamespace(jobs=[job("train", log, **asked)], jobid=lambda job: 3)
        assert Explaining(SimpleNamespace(dag=dag), tmp_path).filter(record)
        ended = record.__dict__["aux"].get("ended")
        assert ended == (found.ended if "SLURM" in message and "SIGKILL" not in killed else None)


TRACES = tuple(
    f"results/experiments/demo-x/traces/{run}.nc"
    for run in ("page/step-1", "page/step-10", "avg/a")
)
BEGUN = """2026-01-01 00:00:00,000 INFO demo-x/page/step-1: run 1 of 3 of this job
2026-01-01 00:00:01,000 INFO demo-x/page/step-1: seed 0 ok in 0.10 s
2026-01-01 00:00:02,000 INFO demo-x/page/step-10: run 2 of 3 of this job
"""


@pytest.mark.parametrize(
    ("log", "run", "target"),
    [
        # The error's own run; a killed job's is the last that began.
        (BEGUN + "error: demo-x/page/step-10, seed 3: KeyError: 'a'\n", "page/step-10", 1),
        (BEGUN, "page/step-10", 1),
        (BEGUN.partition("\n")[0], "page/step-1", 0),
        ("error: --spec: cannot be read as JSON\n", None, 0),
    ],
)
def test_of_several_runs_that_which_failed_is_told(tmp_path, log, run, target):
    (tmp_path / "log").write_text(log)
    told = format_failures([FailedJob("train_demo-x_1", TRACES, tmp_path / "log")], []).splitlines()
    named = [f"  run: demo-x/{run}, of 3 that the job trains"] if run else []
    kept = " (runs that it finished are kept)" if run else ""
    assert told[: 4 + len(named)] == [
        "Failed: rule train_demo-x_1",
        *named,
        f"  makes: {TRACES[target]} and 2 more",
        f"  log: {tmp_path / 'log'}",
        f"  run it alone{kept}: snakemake {TRACES[target]} --cores 1",
    ]
    # A job that trains one says which without a log.
    alone = format_failures([FailedJob("train_run", TRACES[2:], tmp_path / "none")], [])
    assert "  run: demo-x/avg/a\n  makes: " in alone


def test_many_failed_jobs_are_not_all_told_in_full(tmp_path):
    many = [FailedJob("prepare", (f"{n}.nc",), tmp_path / f"{n}.log") for n in range(30)]
    told = format_failures(many, [])
    assert told.count("Failed:") == 3
    assert "\n1 other job failed:\n  prepare: " in format_failures(many[:4], [])
    assert "27 other jobs failed:\n  prepare:" in told and told.endswith("  and 7 more")


def test_one_cause_is_told_once_with_all_runs_that_it_ended(tmp_path):
    runs = [f"demo-x/page/step-{n}" for n in range(4)]
    jobs = []
    for n, run in enumerate(runs):
        log = tmp_path / f"{n}.log"
        cause = "KeyError: 'a'" if n < 3 else "ValueError: b"
        log.write_text(f"error: {run}, seed 0: x.py, line 3, in round: {cause}\n")
        target = f"results/experiments/demo-x/traces/page/step-{n}.nc"
        jobs.append(FailedJob("train_run", (target,), log))
    told = format_failures(jobs, [])
    assert told.count("Failed: ") == 2
    assert told.startswith(
        "Failed: rule train_run, 3 times by one cause\n  run: demo-x/page/step-0"
    )
    assert "  as well: demo-x/page/step-1, demo-x/page/step-2\n" in told
    assert told.endswith(
        "  | error: demo-x/page/step-3, seed 0: x.py, line 3, in round: ValueError: b"
    )


def test_a_log_without_an_error_is_told_by_its_end(tmp_path):
    log = tmp_path / "log"
    log.write_text("".join(f"line {n}\n" for n in range(40)))
    assert excerpt(log) == [f"line {n}" for n in range(28, 40)]
    log.write_text("")
    assert "the log is empty" in excerpt(log)[0]


@pytest.fixture
def method(tmp_path, monkeypatch):
    """Makes a module `mine` of the text as if it lay among the methods."""
    monkeypatch.setattr(extensions, "_FOLDERS", [tmp_path])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)

    def write(text: str) -> None:
        (tmp_path / "mine.py").write_text(text, encoding="utf-8")

    return write


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1\ndef round(:\n", r"mine\.py, line 2: invalid syntax: def round\(:"),
     ("x = 1\ny = z\n", r"mine\.py, line 2, in <module>: NameError: .*\n    y = z"),
     ("import no_such_package\n", r"mine\.py, line 1, in <module>: ModuleNotFoundError")],
)  # fmt: skip
def test_a_file_that_cannot_be_imported_is_named_with_its_line(method, text, message):
    method(text)
    with pytest.raises(FedatlasError, match=message):
        import_extension("mine")


def test_an_exception_in_a_method_shows_the_methods_line_first(method, monkeypatch, capsys):
    method("import json\n\n\ndef round():\n    return json.loads('no')\n")
    monkeypatch.setattr(cli, "app", lambda: import_extension("mine").round())
    for undone in ("signal", "freeze", "set_threshold"):
        monkeypatch.setattr(cli.signal if undone == "signal" else cli.gc, undone, lambda *_: None)
    with pytest.raises(SystemExit):
        cli.main()
    first, second, *_, last = capsys.readouterr().err.splitlines()
    assert re.match(r"error: .*mine\.py, line 5, in round: JSONDecodeError: Expecting", first)
    assert second == "    return json.loads('no')" and last.startswith("json.decoder.JSON")


def test_a_failure_that_is_no_message_names_its_run_and_shows_the_way_there(monkeypatch, capsys):
    def app():
        with naming_run("demo-x/page/step-1"):
            return {}["a"]

    monkeypatch.setattr(cli, "app", app)
    for undone in ("signal", "freeze", "set_threshold"):
        monkeypatch.setattr(cli.signal if undone == "signal" else cli.gc, undone, lambda *_: None)
    with pytest.raises(SystemExit):
        cli.main()
    first, second, *_, last = capsys.readouterr().err.splitlines()
    assert first == "error: demo-x/page/step-1: KeyError: 'a'"
    assert second == "" and last == "KeyError: 'a'"


@pytest.mark.parametrize(
    "command",
    [["--config", "a=1", "--config", "b=2"], ["-C", "a=1", "--config=b=2"]],
)
def test_two_options_config_are_refused(command):
    with pytest.raises(FedatlasError, match="--config stands twice"):
        check_command(command)
    check_command(["--configfile", "x.yaml", "--config", "a=1", "b=2", "--cores", "2"])


def test_an_equal_key_is_told_with_both_lines(tmp_path):
    (tmp_path / "x.yaml").write_text("a: 1\nb: {c: 2}\na: 3\n")
    with pytest.raises(
        FedatlasError, match=r"x\.yaml, line 3: .*'a' stands twice, first in line 1"
    ):
        read_yaml(tmp_path / "x.yaml")
    (tmp_path / "x.yaml").write_text("a: 1\nb: [1, 2\nc: 3\n")
    with pytest.raises(FedatlasError, match=r"x\.yaml, line 3: is not valid YAML: "):
        read_yaml(tmp_path / "x.yaml")


CLAIM = {"id": "faster", "source": "s", "statement": "t"}


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"claims": [CLAIM | {"test": {"kind": "rate", "run": 3}}]}, r"key 'claims\.faster\.test"),
        ({"seeds": 3}, "key 'seeds', value 3: must be a list, such as"),
        (
            {"lik": "demo-x"},
            "unknown key 'lik'; similar: like.*; allowed keys: .*like, .*lists, .*name",
        ),
        ({"rounds": "many"}, "key 'rounds', value 'many': must be a whole number"),
        ({"rounds": 0}, "key 'rounds', value 0: must be greater than 0"),
        ({"title": 3}, "key 'title', value 3: must be text; write it in quotes"),
        ({"seeds": []}, "key 'seeds': must have at least 1 item"),
    ],
)
def test_messages_name_keys_in_plain_words(declared, message):
    with pytest.raises(FedatlasError, match=message) as caught:
        validated(Experiment, declared, "small.yaml")
    assert "Input should" not in str(caught.value)


def test_a_file_that_does_not_exist_is_not_called_damaged(tmp_path):
    with pytest.raises(FedatlasError, match=r"x\.nc: there is no such file") as caught:
        check_seal(tmp_path / "x.nc")
    assert "ove it away" not in str(caught.value)
    with pytest.raises(FedatlasError, match="cannot be read: Is a directory"):
        check_seal(tmp_path)


@pytest.mark.parametrize("tag", ["python/object/apply:os.mkdir", "python/name:os.mkdir", "x"])
def test_yaml_makes_nothing_but_values(tmp_path, tag):
    (tmp_path / "x.yaml").write_text(f"a: !!{tag} [{tmp_path / 'made'}]")
    with pytest.raises(FedatlasError, match=r"x\.yaml.*could not determine a constructor"):
        read_yaml(tmp_path / "x.yaml")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "name", ["--config", "-x", "../x", "/x", ".x", "a b", "a;b", "a\nb", "a$b"]
)
def test_names_that_mean_something_to_a_shell_or_a_path_are_refused(name):
    with pytest.raises(FedatlasError, match="becomes a file name"):
        check_name(name, "x.yaml: run")
