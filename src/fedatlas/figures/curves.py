"""Curves of runs in panels: lines, ranges of seeds, and how far axes reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedatlas.evaluation.levels import (
    Trace,
    column,
    common_costs,
    cost_axis,
    diverged,
    drawn_values,
    is_counted,
)
from fedatlas.figures.colours import mixed
from fedatlas.figures.pgfplots import HIGH, LOW
from fedatlas.figures.rates import Rate
from fedatlas.figures.style import DASHED, tick_decades
from fedatlas.schema.quantities import LARGER_IS_BETTER, MEASUREMENTS, axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 1.3  # of lines, points
_NEAR = 0.005  # lines coincide, as a share of the height that is seen
_WIDER, _WIDEST = 2.2, 4.4  # a line is than the one that covers it, and than the uppermost, points
_NEXT_TO_NOTHING = 100  # how many times a start's cost the next record's is
# What an axis leaves out.
_CUT = "curves start below the axis of {}"
_LEAVES = "ranges of seeds leave the axis of {}"
_LEFT = "a seed leaves the axis of {}"
# A lowest or highest seed that makes the axis longer than so many times is left out of its limits.
_STRETCH = 4.0
_MOST = 1e100  # that is drawn: margins of an axis would pass the largest number
_DECADES = 1.5  # that a logarithmic axis reaches beyond medians, at most
_EARLY = 0.9  # of the longest seed
_BARS = 6  # of a curve
_OTHERS: dict[str, Any] = {"color": "0.85", "lw": 0.8, "zorder": 0.5}
# Of published runs.
PUBLISHED: Any = (0, (5, 2))
_BETWEEN_MARKS = 0.14  # of the panel's diagonal


class Curve(NamedTuple):
    """has_dashed: whether another curve of its colour is drawn in dashes on top of it.

    mark: along the line; hollow if the run is published.
    """

    label: str
    title: str
    colour: str
    style: Any
    trace: Trace
    has_dashed: bool = False
    mark: str = ""


class Row(NamedTuple):
    """Panels of a measurement of some curves, side by side.

    group: what tells its curves from those of other rows. title: the group, numbered if it has
    several rows. others: curves of its group, in other rows.
    """

    group: str
    title: str
    measurement: str
    costs: tuple[str, ...]
    curves: list[Curve]
    others: list[Curve]
    rates: list[Rate]

    @property
    def all(self) -> list[Curve]:
        """All curves that are drawn."""
        return self.curves + self.others


def draw_panel(place: Axes, row: Row, cost: str, logarithmic: bool, *, apart: bool) -> bool:
    """Draw the curves of a row by a cost; whether any coincide, of which the lower ones are wider.

    apart: ranges of seeds are bars beside each other.
    """
    from matplotlib.ticker import EngFormatter, MaxNLocator

    curves, measurement = row.curves, row.measurement
    drawn = [_healthy_seeds(curve, measurement, cost, logarithmic) for curve in curves]
    lines = [(x, np.median(y, axis=0)) if len(y) else (x, x) for x, y in drawn]
    seen = lines
    if measurement in LARGER_IS_BETTER:
        low, high, _ = _limits(row, {cost: logarithmic})
        seen = [(x, np.clip(line, low, high)) for x, line in lines]
    wider = _covered(seen, logarithmic, is_logarithmic(measurement, row.all))
    thicker = min(_WIDER, _WIDEST / max([*wider, 1]))
    for curve in row.others:
        x, y = _healthy_seeds(curve, measurement, cost, logarithmic)
        if len(y):
            place.plot(x, np.median(y, axis=0), **_OTHERS)
    every = [*zip(curves, drawn, lines, wider, strict=True)]
    for above, (curve, (x, y), (_, median), covered) in enumerate(reversed(every)):
        # Later curves are on top; those that they cover are wider, so that both are seen.
        order, thickness = -above, WIDTH + thicker * covered
        if not len(y):
            continue
        band = y.min(axis=0), y.max(axis=0)
        # Dashes are on top of all, the lines that they may coincide with below all.
        level = 0.1 * order + (curve.style == DASHED) - curve.has_dashed
        if apart and len(y) > 1:
            share = (above + 0.5) / len(curves)
            at = _spread(x, (np.arange(_BARS) + share) / _BARS, logarithmic)
            ends = (np.interp(at, x, end) for end in band)
            place.vlines(at, *ends, color=curve.colour, lw=1.0, alpha=0.8, zorder=3 + level)
        elif not apart:
            place.fill_between(x, *band, color=curve.colour, alpha=0.15, linewidth=0)
        # Thin edges keep overlapping bands distinct.
        for end, name in zip(band, (LOW, HIGH), strict=True):
            thin = 0.0 if apart else 0.4
            place.plot(x, end, color=curve.colour, lw=thin, alpha=0.5, label=name)
        look = look_of(curve, thickness)
        place.plot(x, median, zorder=3 + level, label=curve.label, **look)
    if not place.lines:
        place.text(0.5, 0.5, "nothing to draw", transform=place.transAxes, ha="center")
    unit = axis(cost).ticks
    if logarithmic:
        place.set_xscale("log")
        if unit:
            place.xaxis.set_major_formatter(EngFormatter(unit))
        return any(wider)
    place.xaxis.set_major_locator(MaxNLocator(3 if unit else 5, steps=[1, 2, 2.5, 5, 10]))
    if unit is not None:
        place.xaxis.set_major_formatter(EngFormatter(unit, sep=" " if unit else ""))
    return any(wider)


_Line = tuple[np.ndarray, np.ndarray]


@np.errstate(divide="ignore", invalid="ignore")  # zeros have no logarithm
def _covered(lines: Sequence[_Line], *logarithmic: bool) -> list[int]:
    """How many of the lines after each coincide with it along half of the costs of both.

    Both costs are at least half of those of the shorter line. logarithmic: whether x is, and y.
    """
    scaled: list[Any] = [
        [np.log10(each) if is_log else each for each, is_log in zip(line, logarithmic, strict=True)]
        for line in lines
    ]
    heights = np.concatenate([y[np.isfinite(y)] for _, y in scaled])
    near = _NEAR * np.ptp(heights) if len(heights) else 0.0

    def coincide(one: _Line, other: _Line) -> bool:
        if not len(one[0]) or not len(other[0]):
            return False
        start, end = max(one[0][0], other[0][0]), min(one[0][-1], other[0][-1])
        if 2 * (end - start) < min(line[0][-1] - line[0][0] for line in (one, other)):
            return False
        first, second = (np.interp(np.linspace(start, end), *line) for line in (one, other))
        apart = np.abs(first - second)[np.isfinite(first - second)]
        return bool(start < end and len(apart) and np.mean(apart <= near) > 0.5)

    return [sum(coincide(one, line) for one in scaled[at + 1 :]) for at, line in enumerate(scaled)]


def _spread(x: np.ndarray, shares: np.ndarray, logarithmic: bool) -> np.ndarray:
    """Costs at shares of an axis from the first cost to the last, evenly as they are drawn."""
    if logarithmic:
        return np.asarray(x[0] * (x[-1] / x[0]) ** shares)
    return np.asarray(x[0] + (x[-1] - x[0]) * shares)


def bands(curves: Sequence[Curve]) -> int:
    """How many curves have a range of seeds."""
    return sum(curve.trace.sizes["seed"] > 1 for curve in curves)


def is_clipped(curve: Curve, measurement: str) -> bool:
    """Whether values that are drawn lie below what the measurement is known to."""
    healthy = ~diverged(curve.trace)
    below = drawn_values(curve.trace, measurement) > column(curve.trace, measurement)
    return bool(below[healthy].any())


def look_of(curve: Curve, width: float) -> dict[str, Any]:
    """How a line is drawn; where dashes coincide with the line of their colour, both are seen."""
    if curve.style == DASHED:
        return {"color": mixed(curve.colour, "#000000", 0.35), "ls": DASHED, "lw": 1.3}
    if curve.has_dashed:
        return {"color": mixed(curve.colour, "#ffffff", 0.5), "ls": curve.style, "lw": 3.2}
    look = {"color": curve.colour, "ls": curve.style, "lw": width}
    if curve.mark:
        inside = "white" if curve.style == PUBLISHED else curve.colour
        look |= {"marker": curve.mark, "markevery": _BETWEEN_MARKS, "ms": 4.5, "mfc": inside}
    return look


def set_heights(
    rows: Sequence[Row], axes: Sequence[Sequence[Axes]], logarithmic: Mapping[str, bool]
) -> list[str]:
    """Limits of y axes; returns notes of what they leave out."""
    notes: list[str] = []
    ranged: dict[str, list[Axes]] = {}
    for row, places in zip(rows, axes, strict=True):
        name = MEASUREMENTS[row.measurement].long_name
        if row.measurement in LARGER_IS_BETTER:
            low, high, told = _limits(row, logarithmic)
            places[0].set_ylim(low, high)
            places[0].ticklabel_format(axis="y", useOffset=False)
            notes += [note.format(name) for note in told]
        elif is_logarithmic(row.measurement, row.all):
            places[0].set_yscale("log")
            ranged.setdefault(name, []).extend(places)
    for name, places in ranged.items():
        lines = [line for place in places for line in place.lines]
        drawn = [line.get_ydata() for line in lines if line.get_label() not in (LOW, HIGH)]
        values = np.concatenate([np.empty(0), *(np.asarray(y, float) for y in drawn)])
        values = values[np.isfinite(values) & (values > 0)]
        if not len(values):
            continue
        low, high = places[0].get_ylim()
        least, most = values.min() / 10**_DECADES, values.max() * 10**_DECADES
        for place in places:
            place.set_ylim(max(low, least), min(high, most))
            tick_decades(place)
        notes += [_LEAVES.format(name)] * bool(low < least or high > most)
    return notes


def _limits(
    row: Row, logarithmic: Mapping[str, bool]
) -> tuple[float | None, float | None, list[str]]:
    """Limits of a row's y axis, and what the axis must say of curves that they cut.

    Curves start at the score of a constant and end close together; the start would squeeze the
    ends. It is the first tenth of costs on a linear x axis, of records on a logarithmic one. A seed
    that falls, too, would squeeze all others: see `_STRETCH`.
    logarithmic: by cost, whether the x axis is.
    """
    kept, left = [np.empty((1, 0))], [np.empty(0)]
    for cost, is_logarithmic in logarithmic.items():
        for curve in row.all:
            x, y = _healthy_seeds(curve, row.measurement, cost, is_logarithmic)
            if len(y):
                late = np.arange(len(x)) >= len(x) / 10 if is_logarithmic else x >= x[-1] / 10
                kept.append(y[:, late])
                left.append(y[:, ~late].ravel())
    values = np.concatenate([y.ravel() for y in kept])
    if not len(values):
        return None, None, []
    inner = np.concatenate([_without_extremes(y).ravel() for y in kept])
    leaves = bool(np.ptp(values) > _STRETCH * np.ptp(inner) > 0)
    values = inner if leaves else values
    low, high = values.min(), values.max()
    margin = max(0.05 * (high - low), 1e-3)
    cut = bool((np.concatenate(left) < low - margin).any())
    return low - margin, high + margin, [_CUT] * cut + [_LEFT] * leaves


def _without_extremes(values: np.ndarray) -> np.ndarray:
    """Without the lowest and highest seed of each record; all of fewer than four seeds."""
    return np.sort(values, axis=0)[1:-1] if len(values) >= 4 else values


def _healthy_seeds(
    curve: Curve, measurement: str, cost: str, logarithmic: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Costs (points,) and values (seeds, points) to draw; empty if every seed diverged."""
    x = common_costs(curve.trace, cost) if is_counted(curve.trace, cost) else np.empty(0)
    if not len(x):
        return np.empty(0), np.empty((0, 0))
    healthy = ~diverged(curve.trace)
    costs = cost_axis(curve.trace, cost)[healthy]
    values = np.clip(drawn_values(curve.trace, measurement)[healthy], -_MOST, _MOST)
    y = np.stack([np.interp(x, *seed) for seed in zip(costs, values, strict=True)])
    if not logarithmic:
        return x, y
    # A logarithmic axis has no place for a cost of 0. It would show at length, as a line, what
    # nobody recorded between a start that costs next to nothing and the next record.
    shown = x > 0
    shown[:1] &= len(x) < 3 or x[1] < _NEXT_TO_NOTHING * x[0]
    return x[shown], y[:, shown]


def ends_far_apart(cost: str, curves: list[Curve]) -> bool:
    """Whether the shortest curve would be invisible beside the longest."""
    ends = [
        cost_axis(curve.trace, cost)[~diverged(curve.trace)].max(initial=-np.inf)
        for curve in curves
        if is_counted(curve.trace, cost)
    ]
    ends = [end for end in ends if np.isfinite(end)]
    return bool(ends) and max(ends) > 8 * min(ends)


def ends_early(curve: Curve) -> bool:
    """Whether a seed has far fewer rounds than another: curves end with their first seed."""
    ends = column(curve.trace, "round")[~diverged(curve.trace), -1]
    return len(ends) > 1 and bool(ends.min() < _EARLY * ends.max())


def is_logarithmic(measurement: str, curves: list[Curve]) -> bool:
    """Whether the y axis is logarithmic; that of an objective only if it falls by a decade."""
    if measurement != "objective":
        return MEASUREMENTS[measurement].logarithmic
    ends = np.concatenate(
        [column(curve.trace, measurement)[~diverged(curve.trace)].ravel() for curve in curves]
    )
    return bool(len(ends)) and ends.max() > 10 * ends.min()


def mark_full_rounds(place: Axes, cost: str, curves: list[Curve]) -> bool:
    """Mark the full rounds of all seeds on the lower edge, if they are rare; whether any are."""
    marked = 0
    for curve in curves:
        if "full_participations" not in curve.trace or not is_counted(curve.trace, cost):
            continue
        full = column(curve.trace, "full_participations")
        new = np.diff(full, axis=1) > 0
        if not 0 < new.mean() < 0.3:
            continue
        at = cost_axis(curve.trace, cost)[:, 1:][new]
        foot = 0.03 * marked  # one above the other, as marks of two curves may coincide
        place.vlines(
            at, foot, foot + 0.025, curve.colour, lw=0.8, transform=place.get_xaxis_transform()
        )
        marked += 1
    return marked > 0
