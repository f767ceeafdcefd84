"""Numbers, costs, levels, effects and outcomes in words."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from fedatlas.evaluation.comparison import MOST_SEEDS
from fedatlas.evaluation.levels import value_at
from fedatlas.schema.claims import OUTCOMES, Effect
from fedatlas.schema.quantities import LARGER_IS_BETTER, axis

#: A sign for each outcome, which can be read without colour.
MARKS: dict[str, str] = {
    "reproduced": "✓",
    "smaller than claimed": "<",
    "no difference": "=",
    "contradicted": "✗",
    "undecided": "?",
    "not testable": "–",
    "not covered": "∉",
    "compatible": "≈",
    "incompatible": "≠",
}
UNKNOWN = "unknown"
assert set(MARKS) == set(OUTCOMES)


def format_effect(effect: Effect, what: str, smaller: str, larger: str) -> str:
    """An effect and its interval, in words.

    what: the quantity of which there is less or more. smaller, larger: words for a positive and a
    negative advantage of a difference, such as "higher" and "lower". Ratios are given as ratios.
    """
    if effect.unit == "decades":
        ratio, bounds = format_ratios(effect)
        if np.isinf(effect.estimate):
            return f"{ratio} of {what} {bounds}"
        named = "" if effect.bound else _named(-effect.estimate)
        return f"{named or ratio} the {what} {bounds}"
    if np.isnan(effect.estimate):
        return f"{what}: unknown"
    return f"{what} {format_difference(effect, smaller, larger)}"


def format_ratios(effect: Effect) -> tuple[str, str]:
    """An effect in decades as a ratio, "1.02 times", and its interval, "(1.01 to 1.03)".

    A ratio that is a bound says so: "at most 1.02 times".

    Three digits, or more where both ends of the interval would round to one number, or a ratio
    other than 1 would round to 1: "1 times (1 to 1)" says nothing.
    """
    low, middle, high = (-effect.high, -effect.estimate, -effect.low)
    if np.isinf(middle):
        reaches = f"; from {number(low)} times on" if np.isfinite(low) else ""
        reaches += f"; up to {number(high)} times" if np.isfinite(high) else ""
        return "no ratio", f"({_without(effect)} has no value{reaches})"
    bound = f"{effect.bound} " if effect.bound else ""
    if effect.exact:
        return f"{bound}{number(middle)} times", "(exact)"
    if low == middle == high == 0:
        return f"{bound or 'exactly '}1 times", "(the same under every seed)"
    told: list[str] = []
    for digits in range(3, _MOST_DIGITS + 1):
        told = [number(value, digits) for value in (low, middle, high)]
        rounded = [
            text == "1" and abs(value) > _ROUNDING
            for text, value in zip(told, (low, middle, high), strict=True)
        ]
        if not any(rounded) and (told[0] != told[2] or high - low < _ROUNDING):
            break
    return f"{bound}{told[1]} times", f"({told[0]} to {told[2]})"


def bound_of_ratio(first: bool, second: bool) -> str:
    """Words for the ratio of two numbers, by whether each is itself an upper bound."""
    return "about" if first and second else "at most" * first + "at least" * second


def format_difference(effect: Effect, positive: str, negative: str) -> str:
    """An effect that is a difference: its size, and a word for its direction."""
    sign, word = (1, positive) if effect.estimate >= 0 else (-1, negative)
    low, high = sorted([sign * effect.low, sign * effect.high])
    if np.isinf(effect.estimate):
        at_least = f"; {plain(low)} {word} or more" if np.isfinite(low) else ""
        return f"no difference can be told ({_without(effect)} has no value{at_least})"
    if effect.exact:
        return f"{plain(abs(effect.estimate))} {word} (exact)"
    return f"{plain(abs(effect.estimate))} {word} ({plain(low)} to {plain(high)})"


def _without(effect: Effect) -> str:
    """Which of two compared runs has no value, if an estimate is infinite."""
    side = "second" if effect.estimate > 0 else "first"
    return f"the {side}" if effect.low == effect.high else f"the {side}'s typical seed"


#: Ratios that have a name, used where the estimate is as near as `_NAMED_WITHIN`.
_NAMED = {
    "three quarters of": 3 / 4,
    "two thirds of": 2 / 3,
    "half": 1 / 2,
    "a third of": 1 / 3,
    "a quarter of": 1 / 4,
    "a fifth of": 1 / 5,
    "a tenth of": 1 / 10,
    "twice": 2.0,
}
_NAMED_WITHIN = 0.03
# The most digits of a ratio, and the decades by which rounding may change it.
_MOST_DIGITS = 12
_ROUNDING = 1e-12


def _named(logarithm: float) -> str:
    """The name of a ratio that has one, in words that "the rounds" can follow."""
    for words, ratio in _NAMED.items():
        if abs(10**logarithm / ratio - 1) < _NAMED_WITHIN:
            return f"about {words}"
    return ""


def counts(effect: Effect) -> str:
    """The smallest effect that counts, and the paper's, in words."""
    in_decades = effect.unit == "decades"
    told = f"a difference of {plain(effect.smallest)} counts"
    if in_decades:
        told = f"a factor of {number(effect.smallest)} counts"
    if effect.published is not None:
        shown = number(effect.published) if in_decades else plain(effect.published)
        told += f"; the paper's is {shown}"
    return told + format_repeats(effect)


def format_repeats(effect: Effect) -> str:
    """How many seeds repeat others, and whether seeds were added after a verdict; or empty."""
    if effect.repeats and effect.seeds == 1:
        if np.isinf(effect.estimate):
            return f"; none of {effect.repeats + 1} seeds has a value: one observation"
        return f"; all {effect.repeats + 1} seeds coincide: one observation"
    told = f"; {effect.repeats} seeds repeat others and are not counted" if effect.repeats else ""
    return f"{told}; holds whenever seeds stop being added" if effect.seeds_added else told


def mean_of(name: str, values: np.ndarray, shown: Callable[[float], str] = "{:.4g}".format) -> str:
    """The mean of the finite values, and the number of seeds unless it is all of several."""
    found = values[np.isfinite(values)]
    if not len(found):
        return f"{name} none (0 of {len(values)} seeds)"
    few = f" ({len(found)} of {len(values)} seeds)" if len(found) < max(len(values), 2) else ""
    return f"{name} {shown(found.mean() + 0.0)}{few}"  # no -0


def number(logarithm: float, digits: int = 3) -> str:
    """Ten to the power of a level."""
    if np.isnan(logarithm):
        return "unknown"
    if np.isinf(logarithm):
        return "∞" if logarithm > 0 else "0"
    value = 10**logarithm
    return f"{value:.0f}" if digits == 3 and 1000 <= value < 100000 else f"{value:.{digits}g}"


def plain(value: float) -> str:
    """A number in its own units."""
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value + 0.0:.3g}"


def format_interval(estimate: float, low: float, high: float) -> str:
    """A number in its own units with its interval: "1.2 (1 to 1.4)"."""
    return f"{plain(estimate)} ({plain(low)} to {plain(high)})"


def level_name(measurement: str) -> str:
    """The quantity whose logarithm is the level: the measurement or its distance to 1."""
    return f"1 − {measurement}" if measurement in LARGER_IS_BETTER else measurement


def target_name(measurement: str, level: float) -> str:
    """A level to be reached, in units of the measurement."""
    if measurement not in LARGER_IS_BETTER:
        return f"{measurement} ≤ {number(level)}"
    # Three digits of the distance to 1, as otherwise 0.99996 would become 1.
    decimals = 2 - math.floor(level)
    return f"{measurement} ≥ {round(value_at(measurement, level), decimals):.15g}"


def unit_of(cost: str) -> str:
    """Unit in which a cost is counted."""
    return axis(cost).unit


def format_cost(cost: str, budget: float) -> str:
    """A cost with its unit."""
    return f"{budget:.4g} {unit_of(cost)}"


def capital(words: str) -> str:
    """The words as the beginning of a sentence."""
    return words[:1].upper() + words[1:]


def format_outcomes(counts: Mapping[str, int]) -> str:
    """Count outcomes in words: "5 reproduced, 3 undecided"; a dash if there are none."""
    told = [f"{counts[kind]} {kind}" for kind in OUTCOMES if counts.get(kind)]
    return ", ".join(told) or "–"


def in_short(effect: Effect) -> str:
    """The estimate and its interval: "0.33 times (0.3 to 0.36)", "0.012 ahead (0.008 to 0.02)".

    Without a smallest effect, it is the distance of our number from a published one.
    """
    if math.isnan(effect.estimate):
        return UNKNOWN
    if effect.unit == "decades":
        return " ".join(format_ratios(effect))
    words = ("ahead", "behind") if effect.smallest else ("above the printed", "below the printed")
    return format_difference(effect, *words)


def in_full(effect: Effect) -> str:
    """The words of `in_short`, with what counts and the number of seeds."""
    seeds = f"{effect.seeds} seed{'s' * (effect.seeds != 1)}"
    if effect.exact:
        seeds = "one observation"
    return "; ".join([in_short(effect), *([counts(effect)] if effect.smallest else []), seeds])


def format_needed(effect: Effect) -> str:
    """Seeds in all that would decide an undecided verdict with this effect, in words."""
    if np.isinf(effect.estimate):  # a run has no value, and more seeds will not give it one
        return UNKNOWN
    if effect.needed is not None:
        return str(effect.needed)
    # One seed has no spread. An effect with a p is that of a decided case of the claim.
    return UNKNOWN if effect.seeds < 2 or effect.p is not None else f"more than {MOST_SEEDS}"
