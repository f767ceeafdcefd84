"""Figures of studies: bounds of theorems, loss surfaces, processes beside their simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedatlas.evaluation.costs import Trace, column
from fedatlas.evaluation.levels import diverged
from fedatlas.evaluation.selection import Traces
from fedatlas.evaluation.tables import StationaryPoint, Surface, read_surface
from fedatlas.figures.style import (
    DASHED,
    colours,
    draw,
    entry,
    legend_below,
    legend_beside,
    new_canvas,
    put_title,
    tick_plainly,
)
from fedatlas.schema.quantities import COSTS
from fedatlas.studies.theory import Row, bounded_values, read_theory
from fedatlas.studies.validation import Pair, read_pairs
from fedatlas.theory.theorems import (
    GRADIENT,
    LAST_SQUARED_GRADIENT,
    LAST_SUBOPTIMALITY,
    SQUARED_GRADIENT,
    SQUARED_PRIMAL_GRADIENT,
    SUBOPTIMALITY,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

_LABELS = {
    SQUARED_GRADIENT: "mean of ‖∇f(x)‖² over all rounds so far",
    GRADIENT: "mean of ‖∇f(x)‖ over all rounds so far",
    SUBOPTIMALITY: "mean of f(x) − f* over all rounds so far",
    LAST_SUBOPTIMALITY: "f(x) − f*",
    LAST_SQUARED_GRADIENT: "largest ‖∇F(x_i)‖² of an agent",
    SQUARED_PRIMAL_GRADIENT: "mean of ‖∇Φ(θ)‖² over all rounds so far",
}
_NAMES = ("m₁", "m₂")
_VALUE = "minimum of Φ(m, a, b) over a, b"
_COLOUR_MAP = "viridis"
_POWER = 1 / 3
_LEVELS = 25  # of contours
_TICKS = 7  # of the colour bar
_RELIEF = 121  # most grid lines of the relief along an axis
_VIEW = {"elev": 62, "azim": -72}  # degrees
# Degenerate points are small, as they may fill a curve. Orange stands out on all of viridis.
_MARKS: dict[str, dict[str, Any]] = {
    "minimum": {"marker": "o", "ms": 8, "mew": 0.7},
    "saddle": {"marker": "X", "ms": 10, "mew": 0.7},
    "maximum": {"marker": "^", "ms": 9, "mew": 0.7},
    "degenerate": {"marker": "o", "ms": 3, "mew": 0},
}


_FORMS = {False: "asynchronous", True: "synchronous"}


def compose_theory(
    title: str,
    run_titles: Mapping[str, str],
    traces: Traces,
    rows: Sequence[Row],
) -> Canvas:
    """A panel for each bounded quantity: what runs measured, and the bounds that cover them.

    Lines of runs are medians with the range of seeds, at the run's first point that a theorem
    covers, or at its smallest step, which is nearest to what theorems ask for. Bounds of theorems
    as printed are dotted, corrected ones and those with constants of their proofs dashed. Runs that
    theorems bound in another panel only are left out of a panel. Where theorems are about the end
    of runs, a last panel has all ends against their iterations. rows: as
    `studies.theory.theorems_of_runs` makes them.
    """
    drawn = [row for row in rows if row.covered and row.promised is not None]
    shown = dict.fromkeys(row.bounds for row in drawn or rows if row.bounds)
    quantities = list(shown) or [SQUARED_GRADIENT]
    colour_of = colours(run_titles)
    of_ends = LAST_SQUARED_GRADIENT in quantities
    entries = len(traces) + max(sum(row.bounds == one for row in drawn) for one in quantities)
    height = max(3.4, 0.19 * entries)  # a legend's entry takes this much
    heights = [height] * len(quantities) + [3.4] * of_ends
    canvas = new_canvas(8.0, 0.8 + sum(heights))
    axes = canvas.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    places = axes[: len(quantities)]
    cost = next((row.cost for row in drawn), "round")
    for quantity, place in zip(quantities, places, strict=True):
        own = [row for row in drawn if row.bounds == quantity]
        optimum = next((row.optimum for row in own), None)
        handles = []
        for run, points in traces.items():
            of_run = [row for row in own if row.run == run]
            bounded = {row.bounds for row in rows if row.run == run and row.bounds}
            if bounded and quantity not in bounded:
                continue
            trace = points[of_run[0].point if of_run else _nearest(run, points, rows)]
            colour = colour_of[run_titles[run]]
            _draw_measured(place, trace, quantity, cost, optimum, colour)
            label = run_titles[run] + ("" if of_run else "\n(no bound covers it)")
            handles.append(entry(label, color=colour))
            handles += [
                _draw_bound(place, row, colour) for row in _bounds_of(of_run, trace.attrs["point"])
            ]
        if not drawn:
            place.set_title("no theorem covers a run: each at its smallest step", fontsize="medium")
        place.set(xscale="log", yscale="log", xlabel=COSTS[cost].long_name)
        place.set_ylabel(_LABELS[quantity])
        legend_beside(place, handles)
    if of_ends:
        _draw_ends(axes[-1], run_titles, traces, drawn, colour_of)
    first = next(iter(next(iter(traces.values())).values()))
    seeds = first.sizes["seed"]
    put_title(canvas, title, f"measured: median and range of {seeds} seeds; broken lines: bounds")
    return canvas


def draw_theory(
    title: str, runs: dict[str, str], traces: Path, theory: Path, output: list[Path]
) -> None:
    """Draw the bounds of theorems over what runs measured. runs: with titles."""
    from fedatlas.evaluation.steps import read_runs

    draw(output, compose_theory, title, runs, read_runs(traces), read_theory(theory))


def _nearest(run: str, points: Mapping[str, Trace], rows: Sequence[Row]) -> str:
    """The point with the smallest step; the first where steps are not known."""
    steps = {row.point: row.step for row in rows if row.run == run and row.step is not None}
    return min(steps, key=steps.__getitem__, default=next(iter(points)))


def _draw_measured(
    place: Axes, trace: Trace, quantity: str, cost: str, optimum: float | None, colour: str
) -> None:
    """What is bounded: median and range of the seeds that did not diverge."""
    healthy = ~diverged(trace)
    if not healthy.any():
        return
    costs = column(trace, cost)[healthy][0, 1:]  # a logarithmic axis has no 0
    values = bounded_values(trace, quantity, optimum)[healthy, 1:]
    place.fill_between(costs, values.min(0), values.max(0), color=colour, alpha=0.15, lw=0)
    place.plot(costs, np.median(values, axis=0), color=colour, lw=1.5)


def _draw_bound(place: Axes, row: Row, colour: str) -> Line2D:
    """The bound from the first round or hundredth of the run on, and its entry in a legend."""
    assert row.spent is not None  # as no other is drawn
    look: Any = {"color": colour, "ls": ":" if row.version == "as printed" else DASHED}
    costs = np.geomspace(min(1.0, row.spent / 100), row.spent, 100)
    place.plot(costs, row.bound(costs), lw=1.2, **look)
    return entry(f"{row.theorem}, {row.version}", **look)


def _draw_ends(
    place: Axes,
    run_titles: Mapping[str, str],
    traces: Traces,
    drawn: Sequence[Row],
    colour_of: Mapping[str, str],
) -> None:
    """Mean and range of the ends of bounded runs, and the bounds there, by number of iterations."""
    for row in drawn:
        assert row.epochs is not None and row.promised is not None
        trace, colour = traces[row.run][row.point], colour_of[run_titles[row.run]]
        is_printed = row.version == "as printed"
        found = bounded_values(trace, row.bounds, row.optimum)[~diverged(trace), -1]
        place.plot([row.epochs] * 2, [found.min(), found.max()], color=colour, lw=1)
        place.plot(row.epochs, found.mean(), "o", color=colour, ms=5)
        face = "none" if is_printed else colour
        place.plot(row.epochs, row.promised, "v", mec=colour, mfc=face, ms=7 if is_printed else 5)
    handles = [
        entry(label, ls="", marker=mark, color="k", mfc=face)
        for mark, face, label in (
            ("o", "k", "measured: mean, range of seeds"),
            ("v", "none", "bound, as printed"),
            ("v", "k", "bound, corrected"),
        )
    ]
    place.set(xscale="log", yscale="log", xlabel="iterations K + 1 of a whole run")
    ends = sorted({row.epochs for row in drawn if row.epochs})
    place.set_xticks(ends, [f"{end:g}" for end in ends])
    place.set_xticks([], minor=True)
    place.set_ylabel("the same at the end")
    legend_beside(place, handles)


def _bounds_of(rows: Sequence[Row], point: str) -> list[Row]:
    """Those of one point; as printed only where no other version of the theorem covers it."""
    own = [row for row in rows if row.point == point]
    others = {row.theorem for row in own if row.version != "as printed"}
    return [row for row in own if row.version != "as printed" or row.theorem not in others]


def compose_landscape(title: str, surface: Surface) -> Canvas:
    """A loss surface with its stationary points: a relief on the left, contours on the right.

    Colours follow the cube root of the height above the lowest value, as a surface that is high at
    the rim is flat where it matters.
    """
    from matplotlib.colors import PowerNorm

    canvas = new_canvas(9.5, 4.9)
    values = np.array(surface.values)
    lowest = surface.lowest
    highest = max(float(values.max()), lowest + 1e-12)  # so that a flat surface has levels
    norm = PowerNorm(_POWER, lowest, highest)
    _draw_relief(canvas, surface, values, norm)
    contours = canvas.add_subplot(1, 2, 2)
    grid = surface.first, surface.second, values
    levels = lowest + (highest - lowest) * np.linspace(0, 1, _LEVELS) ** (1 / _POWER)
    filled = contours.contourf(*grid, levels=levels, cmap=_COLOUR_MAP, norm=norm)
    saddles = {
        point.value
        for point in surface.stationary_points
        if point.classification == "saddle" and values.min() < point.value < values.max()
    }
    if saddles:
        dashes: Any = {"colors": "white", "linewidths": 0.8, "linestyles": "dashed"}
        contours.contour(*grid, levels=sorted(saddles), **dashes)
    for point in surface.stationary_points:
        contours.plot(*np.transpose(point.points), **_mark(point))
    contours.set(xlabel=_NAMES[0], ylabel=_NAMES[1], aspect="auto")
    contours.grid(False)
    bar = canvas.colorbar(filled, ax=contours, label=_VALUE)
    bar.set_ticks(ticks := _ticks(lowest, highest), labels=[f"${tick:g}$" for tick in ticks])
    legend_below(canvas, _legend(surface), columns=2)
    put_title(canvas, title, "stationary points by the eigenvalues of the Hessian")
    return canvas


def draw_landscape(title: str, landscape: Path, output: list[Path]) -> None:
    """Draw a loss surface with its stationary points."""
    draw(output, compose_landscape, title, read_surface(landscape))


def _draw_relief(canvas: Canvas, surface: Surface, values: np.ndarray, norm: PowerNorm) -> None:
    import matplotlib

    relief: Any = canvas.add_subplot(1, 2, 1, projection="3d", computed_zorder=False)
    relief.plot_surface(
        *np.meshgrid(surface.first, surface.second),
        values,
        facecolors=matplotlib.colormaps[_COLOUR_MAP](norm(values)),
        rcount=_RELIEF,
        ccount=_RELIEF,
        linewidth=0,
        antialiased=False,
        shade=False,  # keep the colours of the bar
        rasterized=True,  # in place of thousands of polygons
    )
    for point in surface.stationary_points:
        heights = np.full(len(point.points), point.value)
        relief.plot(*np.transpose(point.points), heights, **_mark(point), zorder=10)
    relief.view_init(**_VIEW)
    relief.set(xlabel=_NAMES[0], ylabel=_NAMES[1])


def _ticks(lowest: float, highest: float) -> list[float]:
    """Round numbers, spread like the colours."""
    shares = np.linspace(0, 1, _TICKS) ** (1 / _POWER)
    rounded = {float(f"{lowest + (highest - lowest) * share:.1g}") for share in shares}
    return sorted(tick for tick in {lowest, *rounded} if lowest <= tick <= highest)


def _mark(point: StationaryPoint) -> dict[str, Any]:
    return {"ls": "none", "mfc": "#E69F00", "mec": "black", **_MARKS[point.classification]}


def _legend(surface: Surface) -> list[Line2D]:
    """An entry for each class with the height of its points, and one for the dashes."""
    classes: dict[str, list[StationaryPoint]] = {}
    for point in surface.stationary_points:
        classes.setdefault(point.classification, []).append(point)
    handles = [
        entry(f"{name}: {_heights(points)}", **_mark(points[0])) for name, points in classes.items()
    ]
    if "saddle" in classes:
        handles.append(entry("as high as a saddle", color="grey", ls="--", lw=0.8))
    return handles


def _heights(points: list[StationaryPoint]) -> str:
    heights = [round(point.above_lowest, 6) for point in points]
    if not any(heights):
        return "at the lowest value found"
    low, high = (f"{limit:.3g}" for limit in (min(heights), max(heights)))
    return f"{low if low == high else f'{low} to {high}'} above the lowest value found"


def compose_validation(title: str, pairs: Sequence[Pair]) -> Canvas:
    """The simulated network beside processes: objective by time, staleness, speed-up.

    Processes are solid lines and bars, the simulation dashed lines and points.
    """
    canvas = new_canvas(10.5, 3.9)
    by_time, delays, speed_up = canvas.subplots(1, 3)
    colour_of = colours(_FORMS.values())
    most = max(pair.parties for pair in pairs)
    for pair in pairs:
        if pair.parties == most:
            colour = colour_of[_FORMS[pair.synchronous]]
            by_time.plot(pair.real.seconds, pair.real.objective, color=colour)
            by_time.plot(pair.simulated.seconds, pair.simulated.objective, color=colour, ls=DASHED)
    by_time.set(xlabel="seconds, real or simulated", ylabel="objective f(w)")
    by_time.set_title(f"{most} parties", fontsize=9)
    chosen = next(pair for pair in pairs if pair.parties == most and not pair.synchronous)
    _draw_delays(delays, chosen, colour_of["asynchronous"])
    delays.set_title(f"{most} parties, asynchronous", fontsize=9)
    for synchronous, form in _FORMS.items():
        series = sorted(
            (pair for pair in pairs if pair.synchronous == synchronous),
            key=lambda pair: pair.parties,
        )
        counts = [pair.parties for pair in series]
        times = np.array([pair.times for pair in series]).T
        for spent, look, marker in zip(times, ("-", DASHED), ("o", "s"), strict=True):
            speed_up.plot(
                *(counts, spent[0] / spent), color=colour_of[form], ls=look, marker=marker, ms=4
            )
        speed_up.set_xticks(counts)
    counts_of_all = sorted({pair.parties for pair in pairs})
    ideal = np.array(counts_of_all) / counts_of_all[0]
    speed_up.plot(counts_of_all, ideal, color="grey", ls=":", lw=1.0)
    speed_up.set_xscale("log", base=2)
    speed_up.set_yscale("log", base=2)
    tick_plainly(speed_up.xaxis, counts_of_all)
    tick_plainly(speed_up.yaxis, ideal.tolist())
    speed_up.set(xlabel="parties q", ylabel=f"speed-up from {counts_of_all[0]} parties")
    handles = [entry(form, color=colour_of[form]) for form in _FORMS.values()]
    handles += [
        entry("processes", color="black"),
        entry("simulated, fitted to them", color="black", ls=DASHED),
        entry("ideal", color="grey", ls=":", lw=1.0),
    ]
    legend_below(canvas, handles, len(handles))
    put_title(canvas, title, "")
    return canvas


def draw_validation(title: str, curves: Path, output: list[Path]) -> None:
    """Draw the simulated network beside processes."""
    draw(output, compose_validation, title, read_pairs(curves))


def _draw_delays(place: Axes, pair: Pair, colour: str) -> None:
    """Shares of sums by the updates that they lacked."""
    longest = max(len(pair.real.sum_delays), len(pair.simulated.sum_delays))
    found = [
        np.pad(np.array(run.sum_delays, float), (0, longest - len(run.sum_delays)))
        for run in (pair.real, pair.simulated)
    ]
    real, simulated = (counts / counts.sum() for counts in found)
    place.bar(np.arange(longest), real, color=colour, alpha=0.45, width=0.9, label="processes")
    place.plot(
        np.arange(longest), simulated, color=colour, ls="", marker="s", ms=4, label="simulated"
    )
    place.legend(fontsize=8, frameon=False)
    place.set(xlabel="updates that the reads of a sum lacked", ylabel="share of sums")
