"""Costs in tables: three digits, thousands and millions as k and M."""

import math

import numpy as np

from fedatlas.evaluation.shared_costs import common_delta


def cost_cell(centre: float, low: float, high: float, reached: int, seeds: int) -> str:
    """A cost with its interval over seeds; reached: how many of them reached the target."""
    if math.isnan(centre):
        return "–"
    if not reached:
        return "never"
    if seeds == 1 or low == high:
        return _number(centre)
    # If one seed of several reached it, there is no lower bound either.
    return f"{_number(centre)} ({_number(low) if low > 0 else '–'} to {_number(high)})"


#: Under tables with an ε of runs that hold at different δ.
OF_DIFFERENT_DELTA = "not comparable: ε at different δ; that at δ = 0 holds at every δ"


def differ(deltas: np.ndarray) -> bool:
    """Whether an ε of these δ, some of which may be NaN, cannot be compared with another."""
    return common_delta(list(deltas.reshape(-1, 1))) is None


def delta_suffix(delta: float, among: np.ndarray) -> str:
    """At which δ the ε of a cell holds; empty where all δ of its column are 0, or it has none."""
    tell = not math.isnan(delta) and bool((among > 0).any())
    return f" at δ = {delta:.3g}" if tell else ""


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞"  # an unbounded cost, such as ε without noise
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if 0.9995 * size <= value < 1000 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
