"""Final values: where the seeds of every run ended, beside what the paper prints."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from fedatlas.claims import Figure
from fedatlas.evaluation.levels import column, diverged, mean_interval, smallest
from fedatlas.evaluation.selection import Choice, Traces
from fedatlas.figures.style import LOGARITHMIC, colours, legend_beside, put_title, seeds_of
from fedatlas.traces import MEASUREMENTS

_OFFSET = 0.22  # of seeds above their run's mean, in rows


def compose(
    title: str,
    figure: Figure,
    run_titles: Mapping[str, str],
    traces: Traces,
    chosen: Mapping[str, Choice],
) -> Canvas:
    """One row per run: its seeds as dots, their mean and its 95 % interval, the published value."""
    canvas = Canvas(figsize=(7.5, 1.3 + 0.5 * len(traces)), layout="constrained")
    place = canvas.subplots()
    colour_of = colours({run: run_titles[run] for run in traces}, {})
    logarithmic = figure.measurement in LOGARITHMIC
    labels = []
    for row, (run, points) in enumerate(traces.items()):
        trace, colour = points[chosen[run].point], colour_of[run_titles[run]]
        gone = diverged(trace)
        ends = np.maximum(
            column(trace, figure.measurement)[~gone, -1], smallest(figure.measurement)
        )
        note = f"\n{gone.sum()} of {len(gone)} seeds diverged" if gone.any() else ""
        labels.append(run_titles[run] + note)
        place.plot(
            ends, np.full(len(ends), row - _OFFSET), "o", color=colour, ms=4, alpha=0.45, mew=0
        )
        if len(ends):
            mean, *bounds = _mean(ends, logarithmic)
            if len(ends) > 1:
                place.plot(bounds, [row, row], color=colour, lw=1.8, solid_capstyle="butt")
            place.plot(mean, row, "o", color=colour, ms=6.5, zorder=4)
        if run in figure.published:
            place.plot(figure.published[run], row + _OFFSET, "D", mfc="white", mec="black", ms=5)
    place.set_yticks(range(len(labels)), labels)
    place.set_ylim(len(labels) - 0.5, -0.5)
    place.grid(axis="y", visible=False)
    if logarithmic:
        place.set_xscale("log")
    place.set_xlabel(MEASUREMENTS[figure.measurement][0])
    place.legend(handles=_legend(logarithmic, bool(figure.published)), **legend_beside())
    seeds = seeds_of(traces)
    put_title(canvas, title, f"{seeds} seeds" if seeds > 1 else "one seed")
    return canvas


def _mean(ends: np.ndarray, logarithmic: bool) -> np.ndarray:
    """The mean over seeds and the bounds of its interval."""
    if logarithmic:
        return 10 ** np.array(mean_interval(np.log10(ends)))
    return np.array(mean_interval(ends))


def _legend(logarithmic: bool, published: bool) -> list[Line2D]:
    mean = f"{'geometric ' if logarithmic else ''}mean, 95 % interval"
    grey: dict[str, Any] = {"color": "grey", "ls": ""}
    handles = [
        Line2D([], [], marker="o", ms=4, alpha=0.45, mew=0, label="seed", **grey),
        Line2D([], [], marker="o", ms=6.5, color="grey", lw=1.8, label=mean),
    ]
    if published:
        mark = Line2D([], [], marker="D", ms=5, mfc="white", mec="black", ls="", label="published")
        handles.append(mark)
    return handles
