"""Convergence figures: a measurement against rounds, bytes and gradient evaluations."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator

from fedatlas.claims import Figure
from fedatlas.evaluation.levels import column, cost_axis, diverged
from fedatlas.evaluation.selection import Choice, Traces
from fedatlas.files import write_atomically
from fedatlas.traces import MEASUREMENTS

# Okabe and Ito's palette: told apart by readers with any colour vision, and in print.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
_LINE_STYLES: list[Any] = ["-", "--", ":", "-.", (0, (8, 3)), (0, (1, 3)), (0, (5, 1, 1, 1, 1, 1))]
_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "fedatlas",  # equal figures are equal files
    "svg.fonttype": "path",
}
_COSTS = {
    "round": ("communication rounds", ""),
    "bytes": ("bytes communicated, both directions", "B"),
    "gradient_evaluations": ("per-sample gradients", ""),
}


@dataclass(frozen=True)
class _Curve:
    label: str
    colour: str
    style: Any
    trace: xr.Dataset


def draw(
    title: str,
    figure: Figure,
    run_titles: Mapping[str, str],
    traces: Traces,
    chosen: Mapping[str, Choice],
    outputs: list[Path],
) -> None:
    """Draw one experiment's figure and write it to each of `outputs` (.svg, .png).

    Lines are medians over seeds at equal cost, bands reach from the lowest to the highest seed.
    """
    with matplotlib.rc_context(_STYLE):
        canvas = compose(title, figure, run_titles, traces, chosen)
        for output in outputs:
            with write_atomically(output) as temporary:
                metadata = {"Date": None} if output.suffix == ".svg" else None
                canvas.savefig(temporary, dpi=150, metadata=metadata)


def compose(
    title: str,
    figure: Figure,
    run_titles: Mapping[str, str],
    traces: Traces,
    chosen: Mapping[str, Choice],
) -> Canvas:
    """The figure as an object of matplotlib; its look is set by `draw`."""
    rows = list(_rows(figure, run_titles, traces, chosen))
    canvas = Canvas(figsize=(11.5, 0.9 + 2.5 * len(rows)), layout="constrained")
    axes = canvas.subplots(
        len(rows),
        len(_COSTS),
        squeeze=False,
        sharey="row",
        # Unequal partitions differ a thousandfold in what a round costs.
        sharex="none" if figure.rows == "partition" else "col",
    )
    for line, (row_title, curves) in enumerate(rows):
        for place, cost in zip(axes[line], _COSTS, strict=True):
            _draw_panel(place, figure.measurement, cost, curves)
        label = MEASUREMENTS[figure.measurement][0]
        axes[line, 0].set_ylabel(f"{row_title}\n{label}" if row_title else label)
        marked = _mark_full_rounds(axes[line, 0], curves)
        axes[line, -1].legend(
            handles=_legend(curves, marked),
            loc="center left",
            bbox_to_anchor=(1.02, 0.5),
            frameon=False,
            fontsize=8,
            handlelength=2.8,
        )
    for place in axes.flat:
        # Only when all is drawn: a limit that is set stays, also for panels that share it.
        place.set_xlim(left=0)
    for place, (name, _) in zip(axes[-1], _COSTS.values(), strict=True):
        place.set_xlabel(name)
    seeds = next(iter(next(iter(traces.values())).values())).sizes["seed"]
    note = f"median and range of {seeds} seeds" if seeds > 1 else "one seed"
    canvas.suptitle(f"{title}\n{note}", fontsize=10)
    return canvas


def _rows(
    figure: Figure,
    run_titles: Mapping[str, str],
    traces: Traces,
    chosen: Mapping[str, Choice],
) -> Iterator[tuple[str, list[_Curve]]]:
    """Titles of the figure's rows and their curves; a run has one colour throughout."""
    grouped: dict[str, list[_Curve]] = {}
    titles = list(dict.fromkeys(run_titles[run] for run in traces))
    for run, points in traces.items():
        colour = _COLOURS[titles.index(run_titles[run]) % len(_COLOURS)]
        shown = [chosen[run].point] if figure.points == "selected" else list(points)
        for number, point in enumerate(shown):
            trace = points[point]
            label, style = run_titles[run], "-"
            if figure.rows != "effective_step_size" and len(points) > 1:
                label += f", step {trace.attrs['effective_step_size']:g}"
                style = _LINE_STYLES[number % len(_LINE_STYLES)]
            grouped.setdefault(_row_title(figure, trace), []).append(
                _Curve(label, colour, style, trace)
            )
    yield from grouped.items()


def _row_title(figure: Figure, trace: xr.Dataset) -> str:
    if figure.rows == "effective_step_size":
        return f"effective step {trace.attrs['effective_step_size']:g}"
    if figure.rows == "partition":
        return f"{json.loads(trace.attrs['specification'])['partition']['clients']} clients"
    return ""


def _draw_panel(place: Axes, measurement: str, cost: str, curves: list[_Curve]) -> None:
    for above, curve in enumerate(reversed(curves)):
        healthy = ~diverged(curve.trace)
        if not healthy.any():
            continue
        # Later curves lie on earlier ones; widths keep both to be seen where they coincide.
        order, width = -above, 1.3 + 0.7 * above
        costs = cost_axis(curve.trace, cost)[healthy]
        values = column(curve.trace, measurement)[healthy]
        x, y = _at_equal_cost(costs, values)
        low, high = y.min(axis=0), y.max(axis=0)
        place.fill_between(x, low, high, color=curve.colour, alpha=0.15, linewidth=0)
        # Thin edges tell bands apart where they overlap.
        place.plot(x, np.stack([low, high], axis=1), color=curve.colour, lw=0.4, alpha=0.5)
        median = np.median(y, axis=0)
        place.plot(x, median, color=curve.colour, ls=curve.style, lw=width, zorder=3 + 0.1 * order)
    if not place.lines:
        place.text(0.5, 0.5, "every seed diverged", transform=place.transAxes, ha="center")
    if measurement != "train_accuracy":
        place.set_yscale("log")
    place.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    place.xaxis.set_major_formatter(EngFormatter(_COSTS[cost][1], sep=""))


def _at_equal_cost(costs: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Seeds' values (seeds, points) at common costs (points,), up to where every seed has one.

    Seeds of one run differ in cost by when their full rounds fell.
    """
    x = np.minimum(np.median(costs, axis=0), costs[:, -1].min())
    return x, np.stack([np.interp(x, *seed) for seed in zip(costs, values, strict=True)])


def _mark_full_rounds(place: Axes, curves: list[_Curve]) -> bool:
    """Ticks on the lower edge, all seeds together, where full rounds are rare events."""
    marked = 0
    for curve in curves:
        if "full_participations" not in curve.trace:
            continue
        full = column(curve.trace, "full_participations")
        new = np.diff(full, axis=1) > 0
        if not 0 < new.mean() < 0.3:
            continue
        at = cost_axis(curve.trace, "round")[:, 1:][new]
        foot = 0.03 * marked  # curves one above the other: their marks may coincide
        place.vlines(
            at, foot, foot + 0.025, curve.colour, lw=0.8, transform=place.get_xaxis_transform()
        )
        marked += 1
    return marked > 0


def _legend(curves: list[_Curve], marked: bool) -> list[Line2D]:
    handles = []
    for curve in curves:
        gone, seeds = int(diverged(curve.trace).sum()), curve.trace.sizes["seed"]
        note = f"\n{gone} of {seeds} seeds diverged" if gone else ""
        handles.append(Line2D([], [], color=curve.colour, ls=curve.style, label=curve.label + note))
    if marked:
        handles.append(Line2D([], [], color="grey", marker="|", ls="", label="full rounds"))
    return handles
