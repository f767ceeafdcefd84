"""Verifications and comparisons for people, as tables on a terminal, and for machines."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fedatlas.plain_text import cell, say_on
from fedatlas.provenance.difference import TraceDiff
from fedatlas.provenance.expected import Checked, State

_PIPED = 200  # columns where there is no terminal
_SHOWN = 40  # rows of a table of differences
_LONG = 40  # characters of an attribute
_MEANING = {
    State.STALE: "intact, but code, configuration, inputs or versions have changed since",
    State.DAMAGED: "not the bytes that were written, or in the wrong place",
    State.UNREADABLE: "cannot be read at all",
}


def wide_console() -> Console:
    """The console of standard output; wide if that is no terminal, so that paths stay whole."""
    console = Console()
    return console if console.is_terminal else Console(width=_PIPED)


def print_verification(files: Sequence[Checked], console: Console) -> None:
    """A row for every file with drift, the remedies, and how many files have none."""
    drift = [
        (file, [finding for finding in file.findings if finding.state in _MEANING])
        for file in files
        if file.state in _MEANING
    ]
    counts = Counter(file.state for file in files)
    if drift:
        table = _table("Drift", ("file", "state", "what differs: recorded → found now"))
        for file, findings in drift:
            found = [f"{finding.check}: {finding.detail}" for finding in findings]
            table.add_row(cell(file.path), file.state, cell("\n".join(found)))
        console.print(table)
        for state, meaning in _MEANING.items():
            if counts[state]:
                say_on(console, f"{state}: {meaning}.")
        say_on(console, "What to do:")
        remedies = Counter((f.check, f.remedy) for _, found in drift for f in found)
        for (check, remedy), number in remedies.items():
            say_on(console, f"  {check} ({number}): {remedy}")
    left: dict[tuple[str, str], list[str]] = {}
    for file in files:
        for finding in file.findings:
            if finding.state is State.UNCHECKED:
                left.setdefault((file.kind, finding.check), []).append(finding.detail)
    for (kind, check), details in left.items():
        say_on(console, f"Not checked: {check} of {len(details)} {kind}, as {details[0]}")
    folders = Counter(origin.folder for file in files for origin in file.seeds.values())
    if folders:
        told = ", ".join(
            f"{number} in {folder or 'traces alone'}" for folder, number in folders.items()
        )
        say_on(console, f"Results of seeds: {told}; --json says of each when and with what.")
    said = "".join(f", {counts[state]} {state}" for state in _MEANING if counts[state])
    say_on(console, f"{len(files)} checked: {len(files) - len(drift)} without drift{said}.")


def print_comparison(found: TraceDiff, console: Console) -> None:
    """Differing values, runs on one side only, and attributes that may explain them."""
    if found.differences:
        numbers = ("first", "second", "differing", "largest")
        table = _table("Differences", ("run", "variable", "seed", "record"), numbers)
        for d in found.differences[:_SHOWN]:
            largest = "" if d.largest is None else f"{d.largest:.3g}"
            values = (d.run, d.variable, d.seed, d.record, d.first, d.second)
            texts = ("" if value is None else cell(str(value)) for value in values)
            table.add_row(*texts, f"{d.differing} of {d.compared}", largest)
        console.print(table)
        more = len(found.differences) - _SHOWN
        if more > 0:
            say_on(console, f"… and {more} more: --json tells all")
    for side, runs in (("first", found.only_first), ("second", found.only_second)):
        for run in runs[:_SHOWN]:
            say_on(console, f"Only in the {side}: {run}")
        if len(runs) > _SHOWN:
            say_on(console, f"… and {len(runs) - _SHOWN} more")
    _print_attributes(found, console)
    for error in found.unreadable:
        say_on(console, f"Unreadable: {error}")
    differing = len({difference.run for difference in found.differences})
    verdict = f"{differing} differ" if differing or not found.compared else "all equal"
    alone = len(found.only_first) + len(found.only_second)
    others = f"; {alone} on one side only" if alone else ""
    say_on(console, f"{len(found.compared)} runs compared: {verdict}{others}.")


def _print_attributes(found: TraceDiff, console: Console) -> None:
    """One line for each attribute that differs: its first change, of how many, in how many runs."""
    changes: dict[str, list[tuple[str, str]]] = {}
    runs: Counter[str] = Counter()
    for (name, *values), of in found.attributes.items():
        first, second = (f"{text[:_LONG]}…" if len(text) > _LONG else text for text in values)
        changes.setdefault(name, []).append((first, second))
        runs[name] += len(of)
    for name, ((first, second), *others) in changes.items():
        more = f" and {len(others)} other changes" if others else ""
        said = f"{first} → {second}{more} ({runs[name]} runs)"
        say_on(console, f"Attribute (does not count): {name}: {said}")


def _table(title: str, left: Sequence[str], right: Sequence[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", overflow="fold")
    return table


def comparison_as_plain(found: TraceDiff) -> dict[str, Any]:
    """For machines; numbers that JSON lacks are texts."""
    return {
        "format": "fedatlas difference 1",
        "equal": found.exit_status == 0,
        "compared": found.compared,
        "differences": [
            {key: _json_number(value) for key, value in asdict(difference).items()}
            for difference in found.differences
        ],
        "only_first": found.only_first,
        "only_second": found.only_second,
        "attributes": [
            {"attribute": name, "first": first, "second": second, "runs": runs}
            for (name, first, second), runs in found.attributes.items()
        ],
        "unreadable": found.unreadable,
    }


def _json_number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
