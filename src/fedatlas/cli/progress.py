"""What a running Snakemake prints, in short: a bar with the time left, and what else matters."""

import time
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
from rich.text import Text

from fedatlas.cli.steps import Steps
from fedatlas.plain_text import printable, say_on

# Where there is no terminal to draw on: after so much of all steps, or so many seconds.
_TOLD_EVERY, _SECONDS = 0.1, 60.0


class _Said(ProgressColumn):
    """Words that are asked for anew each second, whether or not Snakemake has printed anything."""

    def __init__(self, say: Callable[[], str]) -> None:
        super().__init__()
        self._say = say

    def render(self, task: Task) -> Text:
        return Text(printable(self._say()), overflow="ellipsis", no_wrap=True)


def shown_with_a_bar(lines: Iterable[str], console: Console, cores: int) -> None:
    """Show Snakemake's lines until they end: a bar on a terminal, else tenths.

    cores: how many steps may run at once.
    """
    steps, told = Steps(), 0.0
    began = last = time.monotonic()

    def left() -> str:
        seconds = steps.seconds_left(time.monotonic(), cores)
        return "" if seconds is None else f"about {_clock(seconds)} left"

    columns = (
        BarColumn(20),
        _Said(lambda: f"{steps.done}/{steps.total} steps" if steps.total else "reads the workflow"),
        TimeElapsedColumn(),
        _Said(left),
        _Said(steps.running),
    )
    shows = console.is_terminal
    with Progress(*columns, console=console, disable=not shows, refresh_per_second=1) as progress:
        bar = progress.add_task("", total=None)
        for line in lines:
            now = time.monotonic()
            if (text := steps.heed(line.rstrip("\n"), now)) is not None:
                say_on(console, text)
            progress.update(bar, completed=steps.done, total=steps.total or None)
            share = steps.done / steps.total if steps.total else 0.0
            due = share >= told + _TOLD_EVERY or (share > told and now >= last + _SECONDS)
            if not shows and due:
                told, last = share, now
                said = f"{steps.done} of {steps.total} steps, {_clock(now - began)} so far"
                say_on(console, ", ".join(filter(None, (said, left()))))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
