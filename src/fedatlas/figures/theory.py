"""Figures of bounds that theorems promise, beside what runs reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedatlas.evaluation.bounds import (
    GRADIENT,
    LAST_SQUARED_GRADIENT,
    LAST_SUBOPTIMALITY,
    SQUARED_GRADIENT,
    SQUARED_PRIMAL_GRADIENT,
    SUBOPTIMALITY,
    Row,
    bounded_values,
    read_theory,
)
from fedatlas.evaluation.levels import Trace, column, diverged
from fedatlas.evaluation.selection import Traces
from fedatlas.figures.style import (
    BANDS,
    DASHED,
    colours,
    draw,
    entry,
    legend_beside,
    new_canvas,
    put_title,
)
from fedatlas.schema.quantities import COSTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
    put_title(canvas, title, f"{BANDS}{seeds} seeds; broken lines: bounds")
    return canvas


def draw_theory(
    title: str, runs: dict[str, str], traces: Path, theory: Path, output: list[Path]
) -> None:
    """Draw the bounds of theorems over what runs measured. runs: with titles."""
    from fedatlas.store.experiment import read_runs

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
