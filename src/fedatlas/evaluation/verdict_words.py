"""Verdicts in the few words of tables and pages: effects, marks, and what would decide."""

import math
from collections.abc import Mapping

from fedatlas.evaluation.comparison import MOST_SEEDS
from fedatlas.evaluation.evidence import counts, format_difference, format_ratios
from fedatlas.evaluation.verdicts import Verdict
from fedatlas.schema.claims import OUTCOMES, Effect

#: A sign for each outcome, so that it is told without colour.
MARKS: dict[str, str] = {
    "reproduced": "✓",
    "smaller than claimed": "<",
    "no difference": "=",
    "contradicted": "✗",
    "undecided": "?",
    "not testable": "–",
    "compatible": "≈",
    "incompatible": "≠",
}
UNKNOWN = "unknown"
assert set(MARKS) == set(OUTCOMES)


def capital(words: str) -> str:
    """The words as the beginning of a sentence."""
    return words[:1].upper() + words[1:]


def format_outcomes(counts: Mapping[str, int]) -> str:
    """How many came out how: "5 reproduced, 3 undecided"; a dash if none did."""
    told = [f"{counts[kind]} {kind}" for kind in OUTCOMES if counts.get(kind)]
    return ", ".join(told) or "–"


def in_short(effect: Effect) -> str:
    """The estimate and its interval: "0.33 times (0.3 to 0.36)", "0.012 ahead (0.008 to 0.02)".

    Where nothing is the smallest effect, it is how far ours lies from a published number.
    """
    if math.isnan(effect.estimate):
        return UNKNOWN
    if effect.unit == "decades":
        return " ".join(format_ratios(effect))
    words = ("ahead", "behind") if effect.smallest else ("above the printed", "below the printed")
    return format_difference(effect, *words)


def in_full(effect: Effect) -> str:
    """As `in_short`, with what counts and the number of seeds."""
    seeds = f"{effect.seeds} seed{'s' * (effect.seeds != 1)}"
    if effect.exact:
        seeds = "one observation"
    return "; ".join([in_short(effect), *([counts(effect)] if effect.smallest else []), seeds])


def would_decide(verdict: Verdict) -> str:
    """What would decide a verdict that is undecided; empty where that is not known or needed."""
    if verdict.outcome != "undecided" or verdict.effect is None:
        return ""
    seeds = seeds_needed(verdict.effect)
    if seeds == UNKNOWN:
        return ""
    about = "" if verdict.effect.needed is None else "about "
    return f"{about}{seeds} seeds in all would decide"


def seeds_needed(effect: Effect) -> str:
    """How many seeds in all would decide an undecided verdict with this effect, in words."""
    if effect.needed is not None:
        return str(effect.needed)
    # One seed has no spread; a p-value is that of a decided case, by which a sentence is told.
    return UNKNOWN if effect.seeds < 2 or effect.p is not None else f"more than {MOST_SEEDS}"
