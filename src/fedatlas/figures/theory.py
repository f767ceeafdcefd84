"""Figures of bounds that theorems promise, beside what runs reached."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from math import nan
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
from fedatlas.figures.colours import looks
from fedatlas.figures.style import (
    BANDS,
    DASHED,
    WIDEST,
    draw,
    entry,
    finish,
    legend_beside,
    method_of,
    new_canvas,
    new_panels,
)
from fedatlas.schema.quantities import COSTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    from fedatlas.studies.worst_cases import Case

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
    look_of = looks({run_titles[run]: method_of(traces[run], run) for run in traces})
    colour_of = {title: look.colour for title, look in look_of.items()}
    of_ends = LAST_SQUARED_GRADIENT in quantities
    entries = len(traces) + max(sum(row.bounds == one for row in drawn) for one in quantities)
    height = max(3.4, 0.19 * entries)  # a legend's entry takes this much
    heights = [height] * len(quantities) + [3.4] * of_ends
    canvas = new_canvas(WIDEST, 0.4 + sum(heights))
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
    finish(canvas, title, f"{BANDS}{seeds} seeds; broken lines: bounds")
    return canvas


def draw_theory(
    title: str, runs: dict[str, str], traces: Path, theory: Path, output: list[Path]
) -> None:
    """Draw the bounds of theorems over what runs measured. runs: with titles."""
    from fedatlas.store.experiment import read_runs

    draw(output, compose_theory, title, runs, read_runs(traces), read_theory(theory))


_HIGHEST = 20.0  # of panels: what grows further is cut off
_BOUNDED = {
    "distance": "‖x − x*‖² at the end, from 1",
    "gradients": "mean of ‖∇f‖², from f − f* = 1",
}


def compose_worst_cases(title: str, cases: Sequence[Case]) -> Canvas:
    """A panel for each run: by step what its theorem promises, the exact worst case, and runs.

    cases: as `studies.worst_cases` tabulates them. The theorem's own step has a mark.
    """
    by_run: dict[str, list[Case]] = {}
    for case in cases:
        by_run.setdefault(case.run, []).append(case)
    canvas, places = new_panels(len(by_run), 1.9, sharey=True)
    lowest = min(min(case.worst, case.measured) for case in cases)
    for place, found in zip(places, by_run.values(), strict=True):
        own = sorted(found, key=lambda case: case.step)
        steps = [case.step for case in own]
        promised = [nan if case.promised is None else case.promised for case in own]
        place.plot(steps, promised, color="#D55E00", ls=DASHED, zorder=3)
        place.plot(steps, [case.worst for case in own], color="k", lw=1.5)
        place.plot(steps, [case.measured for case in own], "o", color="#0072B2", ms=3)
        for case in own:
            if case.own_step and case.promised is not None:
                place.plot(case.step, case.promised, "v", color="#D55E00", ms=5)
        if own[0].measure == "distance":
            place.axhline(1.0, color="0.6", lw=0.8, zorder=0)  # as at the start
        place.set(xscale="log", yscale="log", ylim=(lowest / 1.3, _HIGHEST))
        shown = [tick for tick in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2) if steps[0] <= tick <= 2]
        place.set_xticks(shown, [f"{tick:g}" for tick in shown])
        place.set_xticks([], minor=True)
        place.set_title(textwrap.fill(own[0].title, 40))
    for place in places:
        spec: Any = place.get_subplotspec()
        if spec.is_first_col():
            place.set_ylabel(textwrap.fill(_BOUNDED[cases[0].measure], 18))
        if spec.is_last_row():
            place.set_xlabel("step size times L")
    handles = [
        entry("theorem (mark: its own step)", color="#D55E00", ls=DASHED, marker="v"),
        entry("exact worst case", color="k"),
        entry("runs: the worst of the suite's functions", color="#0072B2", ls="", marker="o"),
    ]
    finish(canvas, title, "", handles)
    return canvas


def draw_worst_cases(title: str, cases: Path, output: list[Path]) -> None:
    """Draw theorem, exact worst case and runs by step."""
    from fedatlas.studies.worst_cases import read_cases

    draw(output, compose_worst_cases, title, read_cases(cases))


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
