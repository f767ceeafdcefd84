"""Bounds of theorems over what runs measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from fedatlas.evaluation.costs import column
from fedatlas.evaluation.levels import diverged
from fedatlas.evaluation.theory_table import SQUARED_GRADIENT, SUBOPTIMALITY, Row, running_means
from fedatlas.figures.style import DASHED, colours, legend_beside, put_title

_LABELS = {
    SQUARED_GRADIENT: "mean of ‖∇f(x)‖² over all rounds so far",
    SUBOPTIMALITY: "mean of f(x) − f* over all rounds so far",
}


def compose(
    title: str,
    run_titles: Mapping[str, str],
    traces: Mapping[str, Mapping[str, xr.Dataset]],
    rows: Sequence[Row],
) -> Canvas:
    """A panel for each bounded quantity: what runs measured, and the bounds that cover them.

    Lines of runs are medians with the range of seeds, at the run's first point that a theorem
    covers. Bounds of theorems as printed are dotted, corrected ones and those with constants of
    their proofs dashed. rows: as `studies.theory.tabulate_theory` makes them.
    """
    drawn = [row for row in rows if row.covered and row.constant is not None]
    quantities = list(dict.fromkeys(row.bounds for row in drawn)) or [SQUARED_GRADIENT]
    colour_of = colours(dict(run_titles), {})
    canvas = Canvas(figsize=(8.0, 0.8 + 3.4 * len(quantities)), layout="constrained")
    places = canvas.subplots(len(quantities), squeeze=False).flat
    for quantity, place in zip(quantities, places, strict=True):
        own = [row for row in drawn if row.bounds == quantity]
        optimum = next((row.optimum for row in own), None)
        handles = []
        for run, points in traces.items():
            of_run = [row for row in own if row.run == run]
            trace = points[of_run[0].point if of_run else next(iter(points))]
            colour = colour_of[run_titles[run]]
            _draw_measured(place, trace, quantity, optimum, colour)
            label = run_titles[run] + ("" if of_run else "\n(no theorem promises its rounds)")
            handles.append(Line2D([], [], color=colour, label=label))
            handles += [
                _draw_bound(place, row, colour) for row in _bounds_of(of_run, trace.attrs["point"])
            ]
        if not drawn:
            place.text(0.5, 0.5, "no theorem covers a run", transform=place.transAxes, ha="center")
        place.set(xscale="log", yscale="log", xlabel="communication rounds R")
        place.set_ylabel(_LABELS[quantity])
        legend_beside(place, handles)
    first = next(iter(next(iter(traces.values())).values()))
    seeds = first.sizes["seed"]
    put_title(
        canvas, title, f"measured: median and range of {seeds} seeds; broken lines: bounds C/R"
    )
    return canvas


def _draw_measured(
    place: Axes, trace: xr.Dataset, quantity: str, optimum: float | None, colour: str
) -> None:
    """The running mean: median and range of the seeds that did not diverge."""
    healthy = ~diverged(trace)
    if not healthy.any():
        return
    rounds = column(trace, "round")[healthy][0, 1:]  # a logarithmic axis has no 0
    means = running_means(trace, quantity, optimum)[healthy, 1:]
    place.fill_between(rounds, means.min(0), means.max(0), color=colour, alpha=0.15, lw=0)
    place.plot(rounds, np.median(means, axis=0), color=colour, lw=1.5)


def _draw_bound(place: Axes, row: Row, colour: str) -> Line2D:
    """C/R, and its entry in a legend."""
    assert row.constant is not None  # as no other is drawn
    look: Any = {"color": colour, "ls": ":" if row.version == "as printed" else DASHED}
    rounds = np.geomspace(1, row.rounds, 50)
    place.plot(rounds, row.constant / rounds, lw=1.2, **look)
    return Line2D([], [], label=f"{row.theorem}, {row.version}", **look)


def _bounds_of(rows: Sequence[Row], point: str) -> list[Row]:
    """Those of one point; as printed only where no other version of the theorem covers it."""
    own = [row for row in rows if row.point == point]
    others = {row.theorem for row in own if row.version != "as printed"}
    return [row for row in own if row.version != "as printed" or row.theorem not in others]
