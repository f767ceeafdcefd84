"""What Snakemake tells of itself, in short: a bar with the time left, failures, and plans.

Snakemake hands its events to a logger plugin: see `snakemake_logger_plugin_fedatlas`. Fields of an
event are attributes of its record.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from logging import ERROR, WARNING, LogRecord
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
from rich.text import Text
from snakemake.common import NOTHING_TO_BE_DONE_MSG

from fedatlas.markdown import counted
from fedatlas.plain_text import printable, say_on
from fedatlas.steps import STEPS

# Where there is no terminal to draw on: after so much of all steps, or so many seconds.
_TOLD_EVERY, _SECONDS = 0.1, 60.0
_SHOWN = 2  # steps that run, by name
_OF = re.compile(r"experiments/([^/]+)/|/raw/([^,]+)")
_TRACE = re.compile(r"experiments/([^/]+)/traces/([^/]+)/([^/]+)\.nc")
#: Seconds that a step which trains nothing is expected to take before its kind is measured: it
#: starts Python, reads and writes. For training there is no such number: it takes seconds or hours.
OTHER_SECONDS = 5.0
#: A step that takes longer than those before it may take this much longer than it has so far.
_LONGER = 1.25

# Where the workflow reads its configuration. What is wrong there is the message's own line.
_FRAME = re.compile(
    r'^(WorkflowError:$|(WorkflowError in|  File) "?(file )?".*/rules/common\.smk", line \d+.*)\n?',
    re.M,
)


@dataclass
class Steps:
    """A workflow's steps, by its events so far. total is 0 until it is known.

    By kind: counts, how many there are in all; taken, how long those took that are done.
    running: number of a job → its rule, how people call it, and when it began, in seconds.
    """

    done: int = 0
    total: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    taken: dict[str, list[float]] = field(default_factory=dict)
    running: dict[int, tuple[str, str, float]] = field(default_factory=dict)

    def count(self, stats: Mapping[str, int]) -> None:
        """Take in how many steps each rule has, and all have."""
        self.total = stats.get("total", 0)
        for rule, number in stats.items():
            if rule != "total":
                self.counts[kind_of(rule)] = self.counts.get(kind_of(rule), 0) + number

    def begin(self, job: int, rule: str, outputs: Sequence[str], now: float) -> None:
        """Take in a step that begins."""
        self.running[job] = (rule, _named(rule, outputs), now)

    def end(self, job: int, now: float) -> None:
        """Take in a step that is done."""
        if job in self.running:
            rule, _, began = self.running.pop(job)
            self.taken.setdefault(kind_of(rule), []).append(now - began)

    def names(self) -> str:
        """The steps that run, those that run for longest first."""
        counts = Counter(name for _, name, _ in list(self.running.values()))
        names = [f"{number} × {name}" if number > 1 else name for name, number in counts.items()]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return ", ".join(names[:_SHOWN]) + more

    def seconds_left(self, now: float, cores: int) -> float | None:
        """About the seconds until all is done; None while training is to come, none measured."""
        if not self.done:
            return None
        ages: dict[str, list[float]] = {}
        for rule, _, began in list(self.running.values()):
            ages.setdefault(kind_of(rule), []).append(now - began)
        work, longest = 0.0, 0.0
        for kind, count in self.counts.items():
            run = ages.get(kind, [])
            waiting = max(0, count - len(self.taken.get(kind, ())) - len(run))
            if not waiting and not run:
                continue
            usual = self._usual(kind)
            if usual is None:
                return None
            rest = [max(usual, _LONGER * age) - age for age in run]
            work += sum(rest) + waiting * usual
            longest = max(longest, usual if waiting else 0.0, *rest)
        # No step is shared by cores here: the rest cannot end before its longest step.
        return max(work / cores, longest)

    def _usual(self, kind: str) -> float | None:
        """What a step of a kind takes: the mean of its kind, else of all kinds that likewise train.

        Each kind counts once there: a hundred short steps say little of a long one.
        """
        if own := self.taken.get(kind):
            return fmean(own)
        alike = [fmean(of) for other, of in self.taken.items() if trains(other) == trains(kind)]
        if trains(kind):
            return fmean(alike) if alike else None
        return fmean([OTHER_SECONDS, *alike])


class _Words(ProgressColumn):
    """Words that are asked for anew each second, whether or not anything has happened."""

    def __init__(self, say: Callable[[], str]) -> None:
        super().__init__()
        self._say = say

    def render(self, task: Task) -> Text:
        return Text(printable(self._say()), overflow="ellipsis", no_wrap=True)


class Display:
    """Shows a run: a bar on a terminal, else tenths of its steps; of a dry run the plan at its end.

    quiet: only what went wrong. to_errors: on standard error.
    """

    def __init__(
        self,
        *,
        dry_run: bool = False,
        quiet: bool = False,
        to_errors: bool = True,
        console: Console | None = None,
    ) -> None:
        self._steps, self._cores, self._told = Steps(), 1, 0.0
        self._dry_run, self._quiet = dry_run, quiet
        self._planned: list[PlannedJob] = []
        self._failed = False
        self._began = self._last = time.monotonic()
        self._console = console or Console(stderr=to_errors)
        steps = self._steps
        columns = (
            BarColumn(20),
            _Words(lambda: f"{steps.done}/{steps.total} steps" if steps.total else "plans"),
            TimeElapsedColumn(),
            _Words(self._left),
            _Words(steps.names),
        )
        shows = self._console.is_terminal and not dry_run and not quiet
        self._bar = Progress(
            *columns, console=self._console, disable=not shows, refresh_per_second=1
        )
        self._task = self._bar.add_task("", total=None)

    def heed(self, record: LogRecord) -> None:
        """Take in an event; print what a person should see of it."""
        now, of, steps = time.monotonic(), vars(record), self._steps
        match of.get("event"):
            case "workflow_started":
                self._bar.start()
            case "resources_info":
                self._cores = of.get("cores") or of.get("nodes") or self._cores
            case "run_info" if not steps.total:
                steps.count(of["stats"])
            case "job_info":
                # What a job may keep is marked.
                outputs = [name.removesuffix(" (update)") for name in of["output"]]
                if not self._dry_run:
                    steps.begin(of["jobid"], of["rule_name"], outputs, now)
                elif outputs:  # targets make nothing
                    self._planned.append(PlannedJob(of["rule_name"], tuple(outputs), of["reason"]))
            case "job_finished":
                steps.end(of["job_id"], now)
            case "progress":
                steps.done, steps.total = of["done"], of["total"]
                self._progresses(now)
            case "job_error" | "group_error":  # the Snakefile tells more at the end
                self._failed = True
                steps.running.pop(of.get("jobid", -1), None)
                members = of.get("job_error_info", [of])  # of a group
                logs = [log for member in members for log in member["log"]]
                self._print(f"A job failed, see {', '.join(logs)}", wrong=True)
            case "error":
                self._errs(of["exception"], str(record.msg))
            case None if record.msg == NOTHING_TO_BE_DONE_MSG:
                self._print(NOTHING)
            case None if record.levelno >= WARNING and not self._failed:
                self._print(str(record.msg), wrong=record.levelno >= ERROR)

    def end(self) -> None:
        """Take the bar away; of a dry run, print what would be made and why."""
        self._bar.stop()
        planned, self._planned = self._planned, []  # Python closes handlers once more
        for line in format_planned(planned) if planned and not self._failed else ():
            self._print(line)

    def _print(self, line: str, *, wrong: bool = False) -> None:
        if line and (wrong or not self._quiet):
            say_on(self._console, line)

    def _left(self) -> str:
        seconds = self._steps.seconds_left(time.monotonic(), self._cores)
        return "" if seconds is None else f"about {_clock(seconds)} left"

    def _progresses(self, now: float) -> None:
        steps = self._steps
        self._bar.update(self._task, completed=steps.done, total=steps.total)
        share = steps.done / steps.total
        due = share >= self._told + _TOLD_EVERY or now >= self._last + _SECONDS
        if self._bar.disable and due:
            self._told, self._last = share, now
            said = f"{steps.done} of {steps.total} steps, {_clock(now - self._began)} so far"
            self._print(", ".join(filter(None, (said, self._left()))))

    def _errs(self, kind: str, message: str) -> None:
        """Print what ended the workflow, but not that commands of jobs failed: these have logs."""
        if not self._failed and kind not in ("CalledProcessError", "RuleException"):
            self._print(_FRAME.sub("", message).rstrip(), wrong=True)
        self._failed = True


def kind_of(rule: str) -> str:
    """Steps of a kind take about as long as each other: the parts that an experiment trains in."""
    return re.sub(r"_\d+$", "", rule)


def trains(kind: str) -> bool:
    """Whether steps of this kind train; in a module, a prefix stands before the rule's name."""
    return re.search(r"(^|_)train_", kind) is not None


def _named(rule: str, outputs: Sequence[str]) -> str:
    """A step for people: of training, the run, or the experiment and the part of it."""
    traces = [found.groups() for name in outputs if (found := _TRACE.search(name))]
    if len(traces) == 1:
        experiment, run, point = traces[0]
        return f"training {experiment}/{run}" + ("" if point == "only" else f"/{point}")
    if traces:
        part = rule.rpartition("_")[2]
        return f"training {traces[0][0]}, part {part} ({len(traces)} points)"
    of = _OF.search(", ".join(outputs))
    return f"{rule} {of[1] or of[2]}" if of else rule


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# --- a dry run: what it would make, experiment by experiment, and why ---

_EXPERIMENT = re.compile(r"(?:^|/)experiments/([^/]+)/(.+)$")
_NAMED = 4  # runs of an experiment, at most; more are counted
# Files of an experiment whose contents have a short name; others are named as they are.
_HOLD = {
    file.name: file.holds
    for name in ("select_points", "tabulate_results", "draw_figure", "judge_claims")
    for file in STEPS[name].files()
    if file.holds
}
# What is no experiment's, by the folder in which it lies.
_SHARED = {
    "raw": "raw files",
    "data": "prepared data",
    "shards": "sets of shards",
    "optima": "optima",
}
# Why Snakemake makes something, from the most telling on, and how that is told.
_REASONS = (
    ("Missing output files", "missing"),
    ("'code ", "code changed"),
    ("Code has changed", "the rule changed"),
    ("Params have changed", "settings changed"),
    ("Set of input files has changed", "other inputs"),
    ("Updated input files", "inputs changed"),
    ("Incomplete output files", "a job was interrupted"),
    ("Forced execution", "forced"),
)
_FOLLOWS = "follows from the above"
NOTHING = "Nothing to do: all is made, and up to date."


class PlannedJob(NamedTuple):
    """rule: its name. outputs: the files that it makes. reason: Snakemake's."""

    rule: str
    outputs: tuple[str, ...]
    reason: str

    @property
    def why(self) -> str:
        """The reason in a few words."""
        return next((told for sign, told in _REASONS if sign in self.reason), _FOLLOWS)

    @property
    def trained(self) -> list[str]:
        """Traces that it makes: the missing ones, if those are why; else up to all it names."""
        missing = self.reason.partition("Missing output files: ")[2].partition("; ")[0]
        names = missing.split(", ") if missing else self.outputs
        return [name for name in names if "/traces/" in name]


def format_planned(jobs: Sequence[PlannedJob]) -> list[str]:
    """Lines that say what the jobs would make, and why."""
    if not jobs:
        return [NOTHING]
    shared = Counter[tuple[str, str]]()
    across: list[PlannedJob] = []
    experiments: dict[str, list[PlannedJob]] = {}
    for job in jobs:
        folder = next((part for part in Path(job.outputs[0]).parts if part in _SHARED), "")
        if found := _EXPERIMENT.search(job.outputs[0]):
            experiments.setdefault(found[1], []).append(job)
        elif folder:
            shared[_SHARED[folder], job.why] += 1
        else:
            across.append(job)
    lines = [f"{kind}: {number} ({why})" for (kind, why), number in shared.items()]
    for name, own in sorted(experiments.items()):
        trained = _by_reason((job.why, job.trained) for job in own)
        made = _by_reason((job.why, job.outputs) for job in own if not job.trained)
        lines += [f"{name}:"]
        lines += [
            f"  {counted(len(traces), 'training')} ({why}): {_runs(traces)}"
            for why, traces in trained.items()
        ]
        lines += [f"  {', '.join(_in_words(files))} ({why})" for why, files in made.items()]
    for why, files in _by_reason((job.why, job.outputs[:1]) for job in across).items():
        lines += [f"across experiments: {', '.join(Path(file).name for file in files)} ({why})"]
    total, trainings = counted(len(jobs), "job"), sum(len(job.trained) for job in jobs)
    training = f", with {counted(trainings, 'training')}." if trainings else "; no training."
    return [*lines, f"{total} in all{training}"]


def _by_reason(jobs: Iterable[tuple[str, Sequence[str]]]) -> dict[str, list[str]]:
    """Files by the reason for which they would be made."""
    found: dict[str, list[str]] = {}
    for why, files in jobs:
        if files:
            found.setdefault(why, []).extend(files)
    return found


def _runs(traces: Sequence[str]) -> str:
    """Runs and points where they are few; of more runs how many points, or how many runs."""
    points = sorted(Path(name).with_suffix("").parts[-2:] for name in traces)
    if len(points) <= _NAMED:
        return ", ".join(run if point == "only" else f"{run}/{point}" for run, point in points)
    runs = Counter(run for run, _ in points)
    if len(runs) <= _NAMED:
        return ", ".join(f"{run} ({number})" if number > 1 else run for run, number in runs.items())
    return f"{len(runs)} runs"


def _in_words(files: Sequence[str]) -> list[str]:
    """Files of an experiment by what they hold; a drawing of two formats once."""
    names = {Path(file).name for file in files}
    usual = [holds for name, holds in _HOLD.items() if name in names]
    return usual + sorted(name for name in names - _HOLD.keys() if not name.endswith(".png"))
