"""Snakemake's progress in short: a bar with the time left, failures, and plans of dry runs.

Snakemake hands its events to a logger plugin: see `snakemake_logger_plugin_fedatlas`. Fields of an
event are attributes of its record.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from logging import ERROR, WARNING, LogRecord
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
from rich.text import Text
from snakemake.common import NOTHING_TO_BE_DONE_MSG

from fedatlas.errors import FedatlasError
from fedatlas.markdown import counted
from fedatlas.plain_text import printable, say_on
from fedatlas.plan.failures import excerpt
from fedatlas.plan.trainings import IF_INPUTS_DIFFER, Why
from fedatlas.steps import STEPS

# Without a terminal, progress is printed after this share of all steps, or this many seconds.
_SHARE, _SECONDS = 0.1, 60.0
_SHOWN = 2  # how many running steps are named
_OF = re.compile(r"experiments/([^/]+)/|/raw/([^,]+)")
_TRACE = re.compile(r"experiments/([^/]+)/traces/([^/]+)/([^/]+)\.nc")
#: Seconds that a step without training is expected to take, until its kind is measured: it starts
#: Python, reads and writes. Training has no such number: it takes seconds or hours.
OTHER_SECONDS = 5.0
#: A step that has taken longer than earlier ones is expected to take this many times its age.
_LONGER = 1.25

# Lines about where the workflow reads its configuration. The message itself says what is wrong.
_FRAME = re.compile(
    r'^(WorkflowError:$|(WorkflowError in|  File) "?(file )?".*/rules/common\.smk", line \d+.*)\n?',
    re.M,
)


@dataclass
class Steps:
    """The steps of a workflow, as its events report them. total is 0 until it is known.

    counts: how many steps there are, by kind. taken: how long finished ones took, by kind.
    running: number of a job → its rule, its name for people, and when it began, in seconds.
    """

    done: int = 0
    total: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    taken: dict[str, list[float]] = field(default_factory=dict)
    running: dict[int, tuple[str, str, float]] = field(default_factory=dict)

    def count(self, stats: Mapping[str, int]) -> None:
        """Record how many steps each rule has, and all rules together."""
        self.total = stats.get("total", 0)
        for rule, number in stats.items():
            if rule != "total":
                self.counts[kind_of(rule)] = self.counts.get(kind_of(rule), 0) + number

    def begin(self, job: int, rule: str, outputs: Sequence[str], now: float) -> None:
        """Record that a step begins."""
        self.running[job] = (rule, _named(rule, outputs), now)

    def end(self, job: int, now: float) -> None:
        """Record that a step is done."""
        if job in self.running:
            rule, _, began = self.running.pop(job)
            self.taken.setdefault(kind_of(rule), []).append(now - began)

    def names(self) -> str:
        """The running steps, those that began first in front."""
        counts = Counter(name for _, name, _ in list(self.running.values()))
        names = [f"{number} × {name}" if number > 1 else name for name, number in counts.items()]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return ", ".join(names[:_SHOWN]) + more

    def seconds_left(self, now: float, cores: int) -> float | None:
        """Estimated seconds until all is done; None while no training has been measured yet."""
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
        # Each step runs on one core, so the rest cannot end before its longest step.
        return max(work / cores, longest)

    def _usual(self, kind: str) -> float | None:
        """Seconds that a step of this kind takes: the mean of its kind, else that of similar kinds.

        Kinds are similar if both train or neither does. Each counts once, since a hundred short
        steps say little about a long one.
        """
        if own := self.taken.get(kind):
            return fmean(own)
        alike = [fmean(of) for other, of in self.taken.items() if trains(other) == trains(kind)]
        if trains(kind):
            return fmean(alike) if alike else None
        return fmean([OTHER_SECONDS, *alike])


class _Words(ProgressColumn):
    """A column of text that is computed again each second, even without a new event."""

    def __init__(self, say: Callable[[], str]) -> None:
        super().__init__()
        self._say = say

    def render(self, task: Task) -> Text:
        return Text(printable(self._say()), overflow="ellipsis", no_wrap=True)


class Display:
    """Shows a run as a bar on a terminal, else a line each tenth; a dry run as a plan at its end.

    quiet: print errors only. to_errors: print on standard error.
    """

    def __init__(
        self,
        *,
        dry_run: bool = False,
        quiet: bool = False,
        to_errors: bool = True,
        console: Console | None = None,
    ) -> None:
        self._steps, self._cores, self._printed = Steps(), 1, 0.0
        self._dry_run, self._quiet = dry_run, quiet
        self._planned: list[PlannedJob] = []
        self._why: Why | None = None
        self._failed = False
        self._errors = set[str]()  # of failed jobs
        self._began = self._last = time.monotonic()
        self._console = console or Console(stderr=to_errors)
        steps = self._steps
        columns = (
            BarColumn(20),
            _Words(lambda: f"{steps.done}/{steps.total} steps" if steps.total else "planning"),
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
        """Record an event, and print what a person should see of it."""
        now, of, steps = time.monotonic(), vars(record), self._steps
        match of.get("event"):
            case "workflow_started":
                self._bar.start()
            case "resources_info":
                self._cores = of.get("cores") or of.get("nodes") or self._cores
            case "run_info" if not steps.total:
                steps.count(of["stats"])
            case "job_info":
                # Snakemake marks outputs that a job may keep.
                outputs = [name.removesuffix(" (update)") for name in of["output"]]
                if not self._dry_run:
                    steps.begin(of["jobid"], of["rule_name"], outputs, now)
                elif outputs:  # targets make nothing
                    self._planned.append(PlannedJob(of["rule_name"], tuple(outputs), of["reason"]))
                    self._why = of.get("why_trained")
            case "job_finished":
                steps.end(of["job_id"], now)
            case "progress":
                steps.done, steps.total = of["done"], of["total"]
                self._progresses(now)
            case "job_error" | "group_error":  # the Snakefile prints details at the end
                self._failed = True
                steps.running.pop(of.get("jobid", -1), None)
                members = of.get("job_error_info", [of])  # of a group
                self._fail([log for member in members for log in member["log"]])
            case "error":
                self._errs(of["exception"], str(record.msg))
            case None if record.msg == NOTHING_TO_BE_DONE_MSG:
                self._print(NOTHING)
            case None if record.levelno >= WARNING and not self._failed:
                self._print(str(record.msg), wrong=record.levelno >= ERROR)

    def end(self) -> None:
        """Remove the bar; after a dry run, print what would be made and why."""
        self._bar.stop()
        planned, self._planned = self._planned, []  # Python closes handlers once more
        for line in format_planned(planned, self._why) if planned and not self._failed else ():
            self._print(line)

    def _fail(self, logs: Sequence[str]) -> None:
        """Print that a job failed, once for each error; the Snakefile lists all at the end."""
        error = "\n".join(line for log in logs for line in excerpt(Path(log)))
        if not error.startswith("error:") or error not in self._errors:
            self._errors.add(error)
            self._print(f"A job failed, see {', '.join(logs)}", wrong=True)

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
        due = share >= self._printed + _SHARE or now >= self._last + _SECONDS
        if self._bar.disable and due:
            self._printed, self._last = share, now
            said = f"{steps.done} of {steps.total} steps, {_clock(now - self._began)} so far"
            self._print(", ".join(filter(None, (said, self._left()))))

    def _errs(self, kind: str, message: str) -> None:
        """Print what ended the workflow, except failed commands of jobs, which have logs."""
        if not self._failed and kind not in ("CalledProcessError", "RuleException"):
            self._print(_FRAME.sub("", message).rstrip(), wrong=True)
        self._failed = True


def kind_of(rule: str) -> str:
    """The kind of a rule's steps: the parts in which an experiment trains are of one kind."""
    return re.sub(r"_\d+$", "", rule)


def trains(kind: str) -> bool:
    """Whether steps of this kind train; inside a module, a rule's name has a prefix."""
    return re.search(r"(^|_)train_", kind) is not None


def _named(rule: str, outputs: Sequence[str]) -> str:
    """A step's name for people; a training is named by its run, or its experiment and part."""
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


# --- a dry run: what would be made for each experiment, and why ---

_EXPERIMENT = re.compile(r"(?:^|/)experiments/([^/]+)/(.+)$")
_NAMED = 4  # at most so many runs of an experiment are named; more are counted
# Short names for what an experiment's files hold; other files are called by their own names.
_HOLD = {
    file.name: file.holds
    for name in ("select_points", "tabulate_results", "draw_figure", "judge_claims")
    for file in STEPS[name].files()
    if file.holds
}
# Files that belong to no experiment, by their folder.
_SHARED = {
    "raw": "raw files",
    "data": "prepared data",
    "shards": "sets of shards",
    "optima": "optima",
}
# Reasons that Snakemake gives, the most specific first, each with its words here.
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
NOTHING = "Nothing to do: everything is made and up to date."


class PlannedJob(NamedTuple):
    """rule: its name. outputs: the files that it makes. reason: Snakemake's."""

    rule: str
    outputs: tuple[str, ...]
    reason: str

    @property
    def why(self) -> str:
        """The reason in a few words."""
        return next((words for sign, words in _REASONS if sign in self.reason), _FOLLOWS)

    def trained(self, why: Why | None, remade: Container[str]) -> dict[str, str]:
        """Traces that it makes, and why their runs train; empty for those of finished seeds.

        Where a run's inputs are not there yet, Snakemake's reason stands for it.
        """
        missing = self.reason.partition("Missing output files: ")[2].partition("; ")[0].split(", ")
        found = {}
        for name in (name for name in self.outputs if "/traces/" in name):
            told = self.why if missing == [""] or name in missing else ""
            try:
                found[name] = why(name, remade) if why else told
            except (FedatlasError, KeyError, TypeError):  # of damaged files: the job says it
                found[name] = told or IF_INPUTS_DIFFER
        return found


def format_planned(jobs: Sequence[PlannedJob], why: Why | None = None) -> list[str]:
    """Lines that describe what the jobs would make, and why.

    why: says why the run of a trace trains; without it Snakemake's reasons do.
    """
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
    lines = [f"{kind}: {number} ({said})" for (kind, said), number in shared.items()]
    remade = {file for job in jobs for file in job.outputs}
    trainings = Counter[str]()
    for name, own in sorted(experiments.items()):
        traces = [pair for job in own for pair in job.trained(why, remade).items()]
        made = _by_reason((job.why, job.outputs) for job in own if "/traces/" not in job.outputs[0])
        lines += [f"{name}:"]
        for reason, some in _by_reason((reason, [trace]) for trace, reason in traces).items():
            trainings[reason] += len(some)
            what = (
                f"{counted(len(some), 'training')} ({reason})"
                if reason
                else f"{counted(len(some), 'trace')} of finished seeds (no training)"
            )
            lines += [f"  {what}: {_runs(some)}"]
        lines += [f"  {', '.join(_in_words(files))} ({said})" for said, files in made.items()]
    for reason, files in _by_reason((job.why, job.outputs[:1]) for job in across).items():
        lines += [f"across experiments: {', '.join(Path(file).name for file in files)} ({reason})"]
    trainings.pop("", None)
    most = "at most " if trainings[IF_INPUTS_DIFFER] else ""
    number = counted(trainings.total(), "training")
    end = f", with {most}{number}." if trainings.total() else "; no training."
    return [*lines, f"{counted(len(jobs), 'job')} in all{end}"]


def _by_reason(jobs: Iterable[tuple[str, Sequence[str]]]) -> dict[str, list[str]]:
    """Files, grouped by the reason for which they would be made."""
    found: dict[str, list[str]] = {}
    for why, files in jobs:
        if files:
            found.setdefault(why, []).extend(files)
    return found


def _runs(traces: Sequence[str]) -> str:
    """Runs and points by name if they are few; else points counted for each run; else runs."""
    points = sorted(Path(name).with_suffix("").parts[-2:] for name in traces)
    if len(points) <= _NAMED:
        return ", ".join(run if point == "only" else f"{run}/{point}" for run, point in points)
    runs = Counter(run for run, _ in points)
    if len(runs) <= _NAMED:
        return ", ".join(f"{run} ({number})" if number > 1 else run for run, number in runs.items())
    return f"{len(runs)} runs"


def _in_words(files: Sequence[str]) -> list[str]:
    """Files of an experiment, named by their contents; a drawing in two formats counts once."""
    names = {Path(file).name for file in files}
    usual = [holds for name, holds in _HOLD.items() if name in names]
    return usual + sorted(name for name in names - _HOLD.keys() if not name.endswith(".png"))
