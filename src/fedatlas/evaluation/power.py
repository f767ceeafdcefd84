"""What would decide the verdicts that are undecided: seeds, and hours on one core."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from fedatlas.evaluation.verdict_words import hours_told, in_short, seeds_needed
from fedatlas.evaluation.verdicts import Verdict, cases_of, read_verdicts
from fedatlas.schema.claims import Effect


def print_power(results: Path, console: Console) -> None:
    """Print what would decide each undecided verdict of the judged experiments, by its hours."""
    files = sorted(results.glob("experiments/*/claims.csv"))
    if not files:
        _line(console, f"{results}: nothing is judged yet")
        return
    found = [verdict for file in files for verdict in undecided(read_verdicts(file))]
    if not found:
        several = "s" * (len(files) != 1)
        _line(console, f"Nothing is undecided in {len(files)} judged experiment{several}.")
        return
    for verdict in sorted(found, key=_hours):
        name = f"{verdict.claim}, {verdict.case}" if verdict.case else verdict.claim
        _line(console, f"{name}\n    {_told(verdict)}")
    _line(console, _together([verdict.needed_hours for verdict in found]))


def _together(hours: Sequence[float | None]) -> str:
    """The time of all that have one."""
    known = [each for each in hours if each is not None]
    if not known:
        return "How long these seeds would take is not known."
    unknown = len(hours) - len(known)
    told = f"All together: {hours_told(sum(known))} on one core, or less where claims share runs."
    return told + (f" Not counted: {unknown} of unknown time." if unknown else "")


def undecided(verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
    """The undecided verdicts of an experiment; of a sentence the undecided cases in its place."""
    cases = cases_of(verdicts)
    for verdict in verdicts:
        own = cases.get(verdict.claim, []) if verdict.is_sentence else []
        if verdict.outcome == "undecided" and not any(c.outcome == "undecided" for c in own):
            yield verdict


def _told(verdict: Verdict) -> str:
    """The effect so far, and what would decide."""
    effect, hours = verdict.effect, verdict.needed_hours
    if effect is None:
        return "without an effect of its own"
    seeds = f"{effect.seeds} seed{'s' * (effect.seeds != 1)}"
    if math.isinf(effect.estimate):
        return f"by {seeds} a run diverged: mend that first, as more seeds say nothing of it"
    time = "" if hours is None else f", {hours_told(hours)} on one core"
    return f"{_so_far(effect)} by {seeds}; {seeds_needed(effect)} needed{time}"


def _so_far(effect: Effect) -> str:
    """The effect with its interval, which few seeds do not have."""
    if math.isfinite(effect.low) or math.isfinite(effect.high):
        return in_short(effect)
    if effect.estimate == 0:
        return "no difference, and no interval,"
    return f"{in_short(effect).partition(' (')[0]}, and no interval,"


def _hours(verdict: Verdict) -> float:
    return math.inf if verdict.needed_hours is None else verdict.needed_hours


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
