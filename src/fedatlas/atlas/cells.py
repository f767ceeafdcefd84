"""Costs in tables: three digits, thousands and millions as k and M."""

import math


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


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞"  # an unbounded cost, such as ε without noise
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if 0.9995 * size <= value < 1000 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
