"""Findings of a verification: which file, how bad, and what to do."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Any


class State(StrEnum):
    """Of a file, mildest first; a file has the state of its worst finding.

    stale: intact, but code, configuration, inputs or environment have changed since it was made.
    damaged: its bytes are not those that were written, or it is in the place of another file.
    """

    OK = "ok"
    UNCHECKED = "unchecked"
    STALE = "stale"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"


MAKE_AGAIN = "move it away and run snakemake again"
RUN_AGAIN = "run snakemake again"
LEFTOVER = "move it away: what it belongs to is gone or has another name; seeds keep their results"


@dataclass(frozen=True)
class CheckResult:
    """check: what was looked at, such as "source". detail: recorded → found. remedy: what to do."""

    state: State
    check: str
    detail: str
    remedy: str = MAKE_AGAIN


damaged = partial(CheckResult, State.DAMAGED)
stale = partial(CheckResult, State.STALE)
unchecked = partial(CheckResult, State.UNCHECKED, remedy="")


def short(digest: object) -> str:
    """The beginning of a digest, as messages print it."""
    return f"{str(digest)[:12]}…"


@dataclass(frozen=True)
class Checked:
    """A file that was looked at. kind: trace, atlas, shards, prepared, optimum, raw or archive.

    path: below the results folder.
    """

    kind: str
    path: str
    findings: tuple[CheckResult, ...]

    @property
    def state(self) -> State:
        """That of the worst finding."""
        return max((f.state for f in self.findings), key=list(State).index, default=State.OK)


def exit_status(files: Iterable[Checked]) -> int:
    """0 clean (what could not be checked included), 1 drift, 2 if a file cannot be read."""
    states = {file.state for file in files}
    if State.UNREADABLE in states:
        return 2
    return 1 if states & {State.STALE, State.DAMAGED} else 0


def as_plain(files: Sequence[Checked]) -> dict[str, Any]:
    """For machines: counts by state, and every file with its findings."""
    counts = Counter(file.state for file in files)
    return {
        "format": "fedatlas verification 1",
        "counts": {state: counts[state] for state in State},
        "files": [{"state": file.state, **asdict(file)} for file in files],
    }
