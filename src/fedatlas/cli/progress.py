"""What a running Snakemake prints, in short: a bar with the time left, and what else matters."""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_DONE = re.compile(r"(\d+) of (\d+) steps \(\d+%\) done")
_FINISHED = re.compile(r"Finished jobid: \d+ \(Rule: (\S+)\)")
# Of every run, and said by nobody's fault.
_CHATTER = re.compile(
    r"Select jobs to execute|Execute \d+ jobs|\[\w{3} \w{3} +\d+ [\d:]+ \d{4}\]$"
    r"|Assuming unrestricted|Using (workflow specific )?profile|Config file .* is extended"
    r"|Building DAG|Using shell:|Provided (cores|resources)|Rules claiming"
    r"|Singularity containers|Complete log\(s\)|Cannot restore .* no backup found"
    r"|RuleException:$|CalledProcessError in file"
)
# Of a failed job: its whole command, which is long. The end tells of every failure.
_FAILED = re.compile(r"Command 'set -euo pipefail;.*> (\S+) 2>&1' returned non-zero exit status")
# Where there is no terminal to draw on: after so much of all steps, or so many seconds.
_TOLD_EVERY, _SECONDS = 0.1, 60.0


@dataclass
class Steps:
    """How far a workflow is, of its lines so far. total is 0 until it is known."""

    done: int = 0
    total: int = 0
    last: str = ""
    _blocks: bool = field(default=False, repr=False)  # within a table or a banner

    def heed(self, line: str) -> bool:
        """Take in a line; whether a person should see it as it stands."""
        if counted := _DONE.search(line):
            self.done, self.total = int(counted[1]), int(counted[2])
            return False
        if finished := _FINISHED.match(line):
            self.last = finished[1]
            return False
        if line.startswith(("SNAKEMAKE", "Job stats:")):
            self._blocks = True  # up to the next empty line
        if self._blocks:
            if counted := re.match(r"total +(\d+)$", line):
                self.total = int(counted[1])
            self._blocks = bool(line.strip())
            return False
        return bool(line.strip()) and not _CHATTER.match(line)


def shown_with_a_bar(lines: Iterable[str], console: Console) -> None:
    """Show lines of `snakemake --quiet rules` until they end: a bar on a terminal, else tenths."""
    steps, told = Steps(), 0.0
    began = last = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeElapsedColumn(),
        TextColumn("about"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("reading the workflow", total=None)
        for line in lines:
            if steps.heed(line.rstrip("\n")):
                failed = _FAILED.match(line)
                text = f"A job failed, see {failed[1]}" if failed else line.rstrip("\n")
                console.print(text, markup=False, highlight=False, soft_wrap=True)
            progress.update(
                bar, description=steps.last, completed=steps.done, total=steps.total or None
            )
            share = steps.done / steps.total if steps.total else 0.0
            now = time.monotonic()
            due = share >= told + _TOLD_EVERY or (share > told and now >= last + _SECONDS)
            if not console.is_terminal and due:
                told, last, elapsed = share, now, now - began
                said = f"{steps.done} of {steps.total} steps, {_clock(elapsed)} so far"
                if share >= _TOLD_EVERY:  # the first steps say little of the others
                    said += f", about {_clock(elapsed * (1 - share) / share)} left"
                console.print(said, highlight=False)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
