"""How far a running Snakemake is, of the lines that it prints; and which of them people need."""

import re
from collections import Counter
from dataclasses import dataclass, field

from fedatlas.cli.time_left import kind_of, seconds_left

#: The line with which a step, or what would be one, begins.
BEGINS = re.compile(r"(?:local)?(?:rule|checkpoint) (\S+):$")
_DONE = re.compile(r"(\d+) of (\d+) steps \(\d+%\) done")
_FINISHED = re.compile(r"Finished jobid: (\d+) \(Rule: \S+\)")
_COUNTED = re.compile(r"(\S+) +(\d+)$")
_FAILS = re.compile(r"Error in (?:rule|group) (\S+):$")
_COMMANDS_END = re.compile(r"' returned non-zero exit status \d+\.$")
_ADVICE = " (check log file(s) for error details)"
_OF = re.compile(r"experiments/([^/]+)/|/raw/([^,]+)")
_TRACE = re.compile(r"experiments/([^/]+)/traces/([^/]+)/([^/]+)\.nc")
# Of every run, and said by nobody's fault; or of a failure, of which the end tells.
_CHATTER = re.compile(
    r"Select jobs to execute|Execute \d+ jobs|\[\w{3} \w{3} +\d+ [\d:]+ \d{4}\]$"
    r"|Assuming unrestricted|Using (workflow specific )?profile|Config file .* is extended"
    r"|Building DAG|Using shell:|Provided (cores|resources)|Rules claiming"
    r"|Singularity containers|Complete log\(s\)|Elapsed time:|Cannot restore .* no backup found"
    r"|Restored previous version of .* \(updating job failed\)"
    r"|RuleException:$|CalledProcessError in file|Exiting because a job execution failed"
    r"|WorkflowError:$|At least one job did not complete successfully"
)
# Where the workflow reads its configuration. What is wrong there is the message's own line.
_FRAME = re.compile(r'(WorkflowError in|  File) "?(file )?".*/rules/common\.smk", line \d+')
_SHOWN = 2  # steps that run, by name


@dataclass
class Steps:
    """A workflow's steps, of its lines so far. total is 0 until it is known.

    counts, taken: as `seconds_left` takes them.
    """

    done: int = 0
    total: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    taken: dict[str, list[float]] = field(default_factory=dict)
    _running: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    _within: str = ""  # what the lines are part of: a table, a step that begins, …
    _rule: str = ""
    _output: str = ""

    def heed(self, line: str, now: float) -> str | None:
        """Take in a line at a time in seconds; what a person should see of it, None if nothing."""
        if self._within:
            goes_on, told = self._goes_on(line, now)
            if goes_on:
                return told
            self._within = ""
        if counted := _DONE.search(line):
            self.done, self.total = int(counted[1]), int(counted[2])
        elif finished := _FINISHED.match(line):
            self._ends(finished[1], now)
        elif begins := BEGINS.match(line):
            self._within, self._rule, self._output = "step", begins[1], ""
        elif _FAILS.match(line):
            self._within = "failure"
        elif line.startswith(("SNAKEMAKE", "Job stats:")):
            self._within = "table"
        elif line.startswith("Command 'set -euo pipefail;"):
            self._within = "" if _COMMANDS_END.search(line) else "command"
        elif line.startswith("error: "):  # of a job that prints its log, of which the end tells
            self._within = "error"
        elif line.strip() and not _CHATTER.match(line) and not _FRAME.match(line):
            return line
        return None

    def running(self) -> str:
        """The steps that run, those that run for longest first."""
        counts = Counter(name for _, name, _ in list(self._running.values()))
        names = [f"{number} × {name}" if number > 1 else name for name, number in counts.items()]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return ", ".join(names[:_SHOWN]) + more

    def seconds_left(self, now: float, cores: int) -> float | None:
        """About how long the rest takes; None while nothing is known."""
        ages: dict[str, list[float]] = {}
        for rule, _, began in list(self._running.values()):
            ages.setdefault(kind_of(rule), []).append(now - began)
        return seconds_left(self.counts, self.taken, ages, cores) if self.done else None

    def _goes_on(self, line: str, now: float) -> tuple[bool, str | None]:
        """Whether a line is still within something, and what a person should see of it."""
        indented, told = line.startswith("    "), None
        if self._within == "table":
            if counted := _COUNTED.match(line):
                self._count(counted[1], int(counted[2]))
            goes_on = bool(line.strip())
        elif self._within == "command":
            goes_on = True
            self._within = "" if _COMMANDS_END.search(line) else "command"
        elif self._within == "error":
            goes_on = bool(line.strip()) and not _CHATTER.match(line)
        else:
            goes_on = indented
            key, _, value = line.strip().partition(": ")
            if indented and self._within == "step":
                self._begins(key, value, now)
            elif indented and key == "jobid":
                self._running.pop(value, None)
            elif indented and key == "log":
                told = f"A job failed, see {value.removesuffix(_ADVICE)}"
        return goes_on, told

    def _count(self, rule: str, number: int) -> None:
        if rule == "total":
            self.total = number
        else:
            kind = kind_of(rule)
            self.counts[kind] = self.counts.get(kind, 0) + number

    def _begins(self, key: str, value: str, now: float) -> None:
        """Take in a key of a step that begins; outputs come before its number."""
        if key == "output":
            self._output = value
        elif key == "jobid":
            self._running[value] = (self._rule, _named(self._rule, self._output), now)

    def _ends(self, job: str, now: float) -> None:
        if job in self._running:
            rule, _, began = self._running.pop(job)
            self.taken.setdefault(kind_of(rule), []).append(now - began)


def _named(rule: str, output: str) -> str:
    """A step for people: of training, the run, or the experiment and the part of it."""
    traces = _TRACE.findall(output)
    if len(traces) == 1:
        experiment, run, point = traces[0]
        return f"training {experiment}/{run}" + ("" if point == "only" else f"/{point}")
    if traces:
        part = rule.rpartition("_")[2]
        return f"training {traces[0][0]}, part {part} ({len(traces)} points)"
    of = _OF.search(output)
    return f"{rule} {of[1] or of[2]}" if of else rule
