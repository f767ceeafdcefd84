"""Findings of a verification: which file, how bad, and what to do."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """Of a file, mildest first; a file has the state of its worst finding.

    stale: whole, but code, configuration, inputs or environment moved on since it was made.
    damaged: its bytes are not those that were written, or it lies where another belongs.
    """

    OK = "ok"
    UNCHECKED = "unchecked"
    STALE = "stale"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Finding:
    """check: what was looked at, such as "source". detail: recorded → found. remedy: what to do."""

    state: State
    check: str
    detail: str
    remedy: str = ""


MAKE_AGAIN = "delete it and run snakemake again"
RUN_AGAIN = "run snakemake again"


def damaged(check: str, detail: str, remedy: str = MAKE_AGAIN) -> Finding:
    """A finding that a file is not what was written."""
    return Finding(State.DAMAGED, check, detail, remedy)


def stale(check: str, detail: str, remedy: str = MAKE_AGAIN) -> Finding:
    """A finding that something moved on since a file was made."""
    return Finding(State.STALE, check, detail, remedy)


def unchecked(check: str, detail: str) -> Finding:
    """A finding that there is nothing to check against."""
    return Finding(State.UNCHECKED, check, detail)


@dataclass(frozen=True)
class Checked:
    """A file that was looked at. kind: trace, atlas, shards, prepared, optimum, raw or archive.

    path: below the results folder.
    """

    kind: str
    path: str
    findings: tuple[Finding, ...]

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
