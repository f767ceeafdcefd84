"""How many seeds would decide the verdicts that are undecided."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from fedatlas.evaluation.verdict_words import in_short, seeds_needed
from fedatlas.evaluation.verdicts import Verdict, cases_of, read_verdicts
from fedatlas.plain_text import say_on
from fedatlas.schema.claims import Effect


def print_power(results: Path, console: Console) -> None:
    """Print what would decide each undecided verdict that is judged, fewest seeds first."""
    files = sorted(results.glob("experiments/*/claims.csv"))
    if not files:
        say_on(console, f"{results}: nothing is judged yet")
        return
    found = [verdict for file in files for verdict in undecided(read_verdicts(file))]
    if not found:
        several = "s" * (len(files) != 1)
        say_on(console, f"Nothing is undecided in {len(files)} judged experiment{several}.")
        return
    for verdict in sorted(found, key=_needed):
        name = f"{verdict.claim}, {verdict.case}" if verdict.case else verdict.claim
        say_on(console, f"{name}\n    {_told(verdict)}")


def undecided(verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
    """The undecided verdicts of an experiment; of a sentence the undecided cases in its place."""
    cases = cases_of(verdicts)
    for verdict in verdicts:
        own = cases.get(verdict.claim, []) if verdict.is_sentence else []
        if verdict.outcome == "undecided" and not any(c.outcome == "undecided" for c in own):
            yield verdict


def _told(verdict: Verdict) -> str:
    """The effect so far, and what would decide."""
    effect = verdict.effect
    if effect is None:
        return "without an effect of its own"
    seeds = f"{effect.seeds} seed{'s' * (effect.seeds != 1)}"
    if math.isinf(effect.estimate):
        return f"by {seeds} a run has no value: mend that first, more seeds will not"
    return f"{_so_far(effect)} by {seeds}; {seeds_needed(effect)} needed"


def _so_far(effect: Effect) -> str:
    """The effect with its interval, which few seeds do not have."""
    if math.isfinite(effect.low) or math.isfinite(effect.high):
        return in_short(effect)
    if effect.estimate == 0:
        return "no difference, and no interval,"
    return f"{in_short(effect).partition(' (')[0]}, and no interval,"


def _needed(verdict: Verdict) -> float:
    """Seeds in all; infinite where that is not known."""
    effect = verdict.effect
    return math.inf if effect is None or effect.needed is None else effect.needed
