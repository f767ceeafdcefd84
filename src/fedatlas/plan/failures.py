"""Failed jobs on the terminal: rule, log, a command that repeats one, and the log's end."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, takewhile
from logging import LogRecord
from pathlib import Path
from typing import Any, NamedTuple

from fedatlas.extensions import relative_path
from fedatlas.plan.holders import format_lock
from fedatlas.plan.trainings import Why

# One data set that cannot be downloaded makes many jobs fail, all with the same log.
_SHOWN, _NAMED = 3, 20
_LINES = 12  # of a log without a line that begins with "error:"
_LONGEST = 30  # lines of an error
# One failure in Snakemake's log: from its heading to the next time of day.
_FAILURE = re.compile(r"^Error in (?:rule|group) .*?(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
# What ended a job from outside, in the words of SLURM's state and log, and the resource of which
# the job requested too little, if any. The first match counts.
_ENDS = (
    (r"OUT_OF_MEMORY|oom[ _-]?kill|exceeded (\w+ )?memory limit",
     "by the scheduler, because it used more memory than it requested", "mem_mb"),
    (r"status is: '(TIMEOUT|DEADLINE)|DUE TO TIME LIMIT",
     "by the scheduler, because its time was up", "runtime"),
    (r"status is: '(NODE_FAIL|BOOT_FAIL)|DUE TO NODE FAILURE", "because its node failed", ""),
    (r"status is: 'PREEMPTED|DUE TO PREEMPTION",
     "by the scheduler, for a job of higher priority", ""),
    (r"status is: 'CANCELLED",
     "by somebody who cancelled it (scancel); where jobs are accounted for, sacct says who: "
     "sacct --allocations --format=JobID,State%40 --jobs {number}", ""),
)  # fmt: skip
_UNITS = {"mem_mb": "MB", "runtime": "min"}


class FailedJob(NamedTuple):
    """targets: the files that it should have made. ended: what killed it, if anything did."""

    rule: str
    targets: tuple[str, ...]
    log: Path
    ended: str = ""


def failed_jobs(jobs: Iterable[Any], logs: Iterable[str] = ()) -> list[FailedJob]:
    """Failed jobs with a log, sorted by rule and target; groups give their members.

    logs: Snakemake's own.
    """
    single = (member for job in jobs for member in getattr(job, "jobs", [job]))
    told = "\n".join("\n".join(_read(Path(log))[0]) for log in logs)
    found = {
        FailedJob(job.rule.name, tuple(map(str, job.output)), Path(job.log[0])): job
        for job in single
        if job.log and job.output
    }
    listed = sorted(found)
    first = [failed._replace(ended=_killed_by(found[failed], told)) for failed in listed[:_NAMED]]
    return first + listed[_NAMED:]


def _killed_by(job: Any, told: str) -> str:
    """What killed a job, in words; empty if nothing did. told: all that Snakemake logged."""
    log = str(job.log[0])
    last, others = "", list[str]()  # of the last attempt; others: logs of the scheduler
    for failure in _FAILURE.findall(told):
        logged = re.search(r"^ +log: (.*?)(?: \(check log|$)", failure, re.MULTILINE)
        own, *more = logged[1].split(", ") if logged else [""]
        if own == log:
            last, others = failure, more
    at_node = "\n".join("\n".join(_read(Path(other))[0]) for other in others)
    if ended := _ended(f"{last}\n{at_node}", job):
        return ended
    exits = re.compile(
        rf"{re.escape(log)}.* returned non-zero exit status (-?\d+)\.$", re.MULTILINE
    )
    if exits.findall(f"{told}\n{at_node}")[-1:] in (["137"], ["-9"]):
        return (
            f"by SIGKILL, as systems do where memory runs out{_asked(job, 'mem_mb')}. Run fewer "
            "jobs at once (--cores), or give it more on a cluster (--set-resources "
            f"{job.rule.name}:mem_mb=…)"
        )
    return ""


def _ended(told: str, job: Any) -> str:
    """How the scheduler ended a job, by its own messages; empty if it did not."""
    for sign, by, resource in _ENDS:
        if re.search(sign, told, re.IGNORECASE):
            number = re.search(r"SLURM-job '(\w+)'", told)
            ended = by.format(number=number[1] if number else "…") + _asked(job, resource)
            more = f". Give it more: --set-resources {job.rule.name}:{resource}=…"
            return ended + (more if resource else "")
    return ""


def _asked(job: Any, resource: str) -> str:
    """The amount of a resource that the job requested."""
    if (amount := getattr(job, "resources", {}).get(resource)) is None:
        return ""
    return f"; at attempt {job.attempt} it asked for {amount} {_UNITS[resource]}"


class Explaining:
    """A filter of Snakemake's log that adds who holds a lock, and what ended a job.

    It does so for the terminal, Snakemake's own file and `fedatlas run`, at every attempt. Jobs of
    a dry run get what says why their traces need training.
    """

    def __init__(self, workflow: Any, results: Path, why: Why | None = None) -> None:
        """workflow: Snakemake's."""
        self._workflow, self._results, self._why = workflow, results, why

    def filter(self, record: LogRecord) -> bool:
        """Explain one message."""
        if getattr(record, "exception", "") == "LockException":
            record.msg = f"Cannot run: {format_lock(self._results)}"
        elif getattr(record, "event", "") == "job_info":
            record.why_trained = self._why
        elif "SLURM" in str(getattr(record, "rule_msg", "")):
            told: Any = record  # fields of an event are attributes of its record
            dag = self._workflow.dag
            job = next((job for job in dag.jobs if dag.jobid(job) == told.jobid), None)
            logs = ("\n".join(_read(Path(log))[0]) for log in told.log[1:])
            if job and (ended := _ended("\n".join([told.rule_msg, *logs]), job)):
                told.aux = {**told.aux, "ended": ended}
        return True


def repeat_options(
    config: Mapping[str, Any],
    config_files: Sequence[Path],
    folder: Path | None,
    snakefile: str,
    began: str,
) -> list[str]:
    """Options of the workflow's command that a repeated job needs, too.

    began: the folder in which it was given; Snakemake finds some Snakefiles there by itself.
    """
    found = [str(Path(began, name)) for name in ("Snakefile", "workflow/Snakefile")]
    told = [] if snakefile in found else ["--snakefile", snakefile]
    told += ["--directory", str(folder)] if folder else []
    if config_files:
        told += ["--configfile", *map(relative_path, config_files)]
    if config:
        texts = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in config.items()
        }
        told += ["--config", *(f"{key}={text}" for key, text in texts.items())]
    return told


def format_failures(jobs: Sequence[FailedJob], options: Sequence[str]) -> str:
    """A block for each of the first causes, with all jobs that it made fail; others in a list."""
    causes: dict[str, list[FailedJob]] = {}
    for job in jobs:
        causes.setdefault(_cause(job), []).append(job)
    blocks = [_block(alike, options) for alike in islice(causes.values(), _SHOWN)]
    left = [job for alike in islice(causes.values(), _SHOWN, None) for job in alike]
    others = [f"  {job.rule}: {job.log}" for job in left[:_NAMED]]
    if others:
        more = len(left) - len(others)
        others += [f"  and {more} more"] if more else []
        jobs_failed = f"{len(left)} other job{'s' if len(left) > 1 else ''} failed:"
        blocks.append("\n".join([jobs_failed, *others]))
    return "\n\n".join(blocks)


def _cause(job: FailedJob) -> str:
    """The error of a job without its run's name; the log of a job without an error."""
    told = excerpt(job.log)
    if job.ended or not told[0].startswith("error:"):
        return str(job.log)
    run, _ = _failing(job)
    cause = "\n".join([job.rule, *told])
    for name in (run, run.rpartition("/")[0]):  # errors name the point, or the run alone
        cause = cause.replace(name, "") if name else cause
    return cause


def _block(alike: Sequence[FailedJob], options: Sequence[str]) -> str:
    job, *same = alike
    run, target = _failing(job)
    others = len(job.targets) - 1
    told = [f"  run: {run}" + (f", of {others + 1} that the job trains" if others else "")]
    kept = " (runs that it finished are kept)" if run and others else ""
    # The target stands first, as --config and --configfile take all words behind them.
    command = shlex.join(["snakemake", target, "--cores", "1", *options])
    names = [_failing(each)[0] or str(each.log) for each in same]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return "\n".join(
        [
            f"Failed: rule {job.rule}" + (f", {len(alike)} times by one cause" if same else ""),
            *(told if run else ()),
            *([f"  as well: {', '.join(names[:_NAMED])}{more}"] if same else ()),
            f"  makes: {target}" + (f" and {others} more" if others else ""),
            *([f"  killed: {job.ended}"] if job.ended else ()),
            f"  log: {job.log}",
            f"  run it alone{kept}: {command}",
            *(f"  | {line}" for line in excerpt(job.log)),
        ]
    )


def _failing(job: FailedJob) -> tuple[str, str]:
    """The run, experiment/run/point, at which a job that trains was, and its trace.

    That which the log names last, as training says where it begins a run, and errors name theirs.
    Without any the run is empty, and the first target stands for all.
    """
    traces = {run: target for target in job.targets if (run := _run_of(target))}
    if len(job.targets) > 1 and traces:
        names = "|".join(map(re.escape, traces))
        named = re.compile(rf"(?:^|\s)({names})[:,]")
        found = (named.search(line) for line in reversed(_read(job.log)[0]))
        last = next((match[1] for match in found if match), "")
        return last, traces.get(last, job.targets[0])
    return next(iter(traces), ""), job.targets[0]


def _run_of(target: str) -> str:
    """The run whose trace the file is; empty if it is none."""
    match = re.search(r"experiments/([^/]+)/traces/([^/]+)/([^/]+)\.nc$", target)
    return "/".join(match.groups()) if match else ""


def _read(log: Path) -> tuple[list[str], str]:
    """The lines of a log, and why it cannot be read if so."""
    try:
        return log.read_text(encoding="utf-8", errors="replace").splitlines(), ""
    except OSError as error:
        return [], f"(the log cannot be read: {error.strerror})"


def excerpt(log: Path) -> list[str]:
    """The last error of a log up to an empty line; without one its last lines."""
    lines, unreadable = _read(log)
    if unreadable:
        return [unreadable]
    if not lines:
        return ["(the log is empty: the job was ended from outside, or never began)"]
    errors = [number for number, line in enumerate(lines) if line.startswith("error:")]
    if not errors:
        return lines[-_LINES:]
    told = list(takewhile(str.strip, lines[errors[-1] :]))
    rest = len(lines) - errors[-1] - len(told[:_LONGEST])
    return [*told[:_LONGEST], *([f"({rest} more lines in the log)"] if rest else [])]
