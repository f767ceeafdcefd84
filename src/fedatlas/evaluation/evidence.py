"""Numbers, costs, levels and intervals in words, and comparisons by a paper's words."""

import math
from abc import ABC
from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np

from fedatlas.evaluation.levels import Interval, difference, smallest, value_at
from fedatlas.schema.claims import Finding, PairTest
from fedatlas.schema.cost_names import AXES, Cost, declared_network, link_latencies
from fedatlas.schema.measurements import LARGER_IS_BETTER, Level

Relation = Literal["faster", "at_least_as_fast", "much_faster", "similar"]

#: Ranges of `first` over `second`; of distances to 1 for measurements that are best there.
RELATION_FACTORS: dict[Relation, tuple[float, float]] = {
    "faster": (0.0, 1.0),
    "at_least_as_fast": (0.0, 1.1),  # "≥"
    "much_faster": (0.0, 0.5),  # "≫"
    "similar": (1 / 1.5, 1.5),  # "nearly the same"
}


class RelationTest(PairTest, ABC):
    """A comparison of `first` with `second` by one of these words."""

    relation: Relation
    measurement: Level = "gradient_norm"
    cost: Cost = "round"


def compared(subject: str, named: Iterable[tuple[str, np.ndarray]], relation: Relation) -> Finding:
    """Levels of the first against the second, by the region of the relation."""
    (first, levels), (second, other_levels) = named
    interval = difference(levels, other_levels)
    low, high = RELATION_FACTORS[relation]
    verdict = interval.verdict(np.log10(low) if low else -np.inf, np.log10(high))
    region = f"{low:.2g} to {high:.2g}" if low else f"below {high:.2g}"
    evidence = (
        f"{subject}: {level(first, levels)}, {level(second, other_levels)}; "
        f"{ratio(interval)}, claimed {region}"
    )
    return Finding("", verdict, evidence)


def level(name: str, levels: np.ndarray) -> str:
    """The geometric mean, and over how many seeds if not over all or over one only."""
    return mean_of(name, levels, number)


def mean_of(name: str, values: np.ndarray, shown: Callable[[float], str] = "{:.4g}".format) -> str:
    """The mean of the finite values, and over how many seeds if not over all or over one only."""
    found = values[np.isfinite(values)]
    if not len(found):
        return f"{name} none (0 of {len(values)} seeds)"
    few = f" ({len(found)} of {len(values)} seeds)" if len(found) < max(len(values), 2) else ""
    return f"{name} {shown(found.mean())}{few}"


def ratio(interval: Interval) -> str:
    """Ten to the power of a difference of levels, and its interval."""
    return "no ratio" if np.isnan(interval.centre) else f"ratio {bounds(interval, number)}"


def number(logarithm: float) -> str:
    """Ten to the power of a level."""
    if np.isinf(logarithm):
        return "∞" if logarithm > 0 else "0"
    value = 10**logarithm
    return f"{value:.0f}" if 1000 <= value < 100000 else f"{value:.3g}"


def level_name(measurement: str) -> str:
    """The quantity whose logarithm is the level: the measurement or its distance to 1."""
    return f"1 − {measurement}" if measurement in LARGER_IS_BETTER else measurement


def target_name(measurement: str, level: float) -> str:
    """A level to be reached, in units of the measurement."""
    if measurement not in LARGER_IS_BETTER:
        return f"{measurement} ≤ {number(level)}"
    # Three digits of the distance to 1, or 0.99996 were 1.
    decimals = 2 - math.floor(max(level, np.log10(smallest(measurement))))
    return f"{measurement} ≥ {round(value_at(measurement, level), decimals):.9g}"


def unit_of(cost: str) -> str:
    """What a cost is counted in."""
    latencies, network = link_latencies(cost), declared_network(cost)
    if network is not None:
        return f"simulated seconds ({network.label})"
    return AXES[cost] if latencies is None else f"time units ({latencies.label})"


def spent(cost: str, budget: float) -> str:
    """A cost with its unit."""
    return f"{budget:.4g} {unit_of(cost)}"


def bounds(interval: Interval, shown: Callable[[float], str] | None = None) -> str:
    """A difference and its interval, by default in the units of what is compared."""
    shown = shown or _plain
    if np.isnan(interval.centre):
        return "unknown"
    if np.isinf(interval.centre):
        return shown(interval.centre)
    return f"{shown(interval.centre)} (95 % {shown(interval.low)} to {shown(interval.high)})"


def _plain(value: float) -> str:
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value + 0.0:.3g}"
