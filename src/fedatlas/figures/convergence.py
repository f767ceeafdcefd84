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
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from fedatlas.claims import Figure
from fedatlas.evaluation.levels import cost_axis, diverged
from fedatlas.evaluation.selection import Choice, Traces
from fedatlas.files import write_atomically
from fedatlas.traces import MEASUREMENTS

# Okabe and Ito's palette: told apart by readers with any colour vision, and in print.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
_LINE_STYLES = ["-", "--", ":", "-."]
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
    "bytes": ("communication, both directions", "B"),
    "gradient_evaluations": ("per-sample gradients", ""),
}


@dataclass(frozen=True)
class _Curve:
    label: str
    colour: str
    style: str
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

    Lines are medians over seeds, bands reach from the lowest to the highest seed.
    """
    rows = list(_rows(figure, run_titles, traces, chosen))
    with matplotlib.rc_context(_STYLE):
        canvas = Canvas(figsize=(10.5, 0.9 + 2.6 * len(rows)), layout="constrained")
        axes = canvas.subplots(len(rows), len(_COSTS), squeeze=False, sharey="row", sharex="col")
        for line, (row_title, curves) in enumerate(rows):
            for place, cost in zip(axes[line], _COSTS, strict=True):
                _draw_panel(place, figure.measurement, cost, curves)
                place.label_outer()
            label = MEASUREMENTS[figure.measurement][0]
            axes[line, 0].set_ylabel(f"{row_title}\n{label}" if row_title else label)
        for place, (name, unit) in zip(axes[-1], _COSTS.values(), strict=True):
            place.set_xlabel(f"{name} [{unit}]" if unit else name)
        seeds = len(next(iter(next(iter(traces.values())).values())).seed)
        canvas.suptitle(f"{title}\nmedian and range of {seeds} seeds", fontsize=10)
        canvas.legend(handles=_legend(rows), loc="outside lower center", ncols=4, frameon=False)
        for output in outputs:
            with write_atomically(output) as temporary:
                metadata = {"Date": None} if output.suffix == ".svg" else None
                canvas.savefig(temporary, dpi=150, metadata=metadata)


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
        by_point = figure.rows != "effective_step_size" and len(shown) > 1
        for number, point in enumerate(shown):
            trace = points[point]
            label = run_titles[run]
            if by_point:
                label += f", step {trace.attrs['effective_step_size']:g}"
            style = _LINE_STYLES[number % len(_LINE_STYLES)] if by_point else "-"
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
    for curve in curves:
        healthy = ~diverged(curve.trace)
        if not healthy.any():
            continue
        # Seeds of one run differ in cost only by when their full rounds fell.
        x = np.median(cost_axis(curve.trace, cost)[healthy], axis=0)
        y = curve.trace[measurement].transpose("seed", "record").to_numpy()[healthy]
        place.fill_between(
            x, y.min(axis=0), y.max(axis=0), color=curve.colour, alpha=0.18, linewidth=0
        )
        place.plot(x, np.median(y, axis=0), color=curve.colour, ls=curve.style, lw=1.4)
        if cost == "round":
            _mark_full_rounds(place, curve)
    if measurement != "train_accuracy":
        place.set_yscale("log")
    place.xaxis.set_major_formatter(EngFormatter(sep=""))
    place.set_xlim(left=0)


def _mark_full_rounds(place: Axes, curve: _Curve) -> None:
    """Ticks on the lower edge where full rounds are rare events, all seeds together."""
    full = curve.trace["full_participations"].transpose("seed", "record").to_numpy()
    rounds = cost_axis(curve.trace, "round")
    new = np.diff(full, axis=1) > 0
    if not new.any() or np.nanmax(full) > 0.5 * np.nanmax(rounds):
        return
    at = rounds[:, 1:][new]
    transform = place.get_xaxis_transform()
    place.plot(at, np.zeros_like(at), "|", color=curve.colour, ms=6, alpha=0.5, transform=transform)


def _legend(rows: list[tuple[str, list[_Curve]]]) -> list[Line2D | Patch]:
    curves = {curve.label: curve for _, line in rows for curve in line}
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=curve.colour, ls=curve.style, label=label)
        for label, curve in curves.items()
    ]
    gone = {curve.label for _, line in rows for curve in line if diverged(curve.trace).any()}
    handles += [Patch(facecolor="none", label=f"{label}: some seeds diverged") for label in gone]
    if any((curve.trace["full_participations"] > 0).any() for curve in curves.values()):
        handles.append(Line2D([], [], color="grey", marker="|", ls="", label="full rounds"))
    return handles
