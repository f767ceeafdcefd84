"""Figures of studies: loss surfaces, processes beside their simulation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedatlas.evaluation.tables import StationaryPoint, Surface, read_surface
from fedatlas.figures.colours import colours
from fedatlas.figures.style import (
    DASHED,
    draw,
    entry,
    finish,
    new_panels,
    tick_plainly,
)
from fedatlas.studies.validation import Pair, read_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

_NAMES = ("m₁", "m₂")
_VALUE = "minimum of Φ(m, a, b) over a, b"
_COLOUR_MAP = "viridis"
_POWER = 1 / 3
_LEVELS = 25  # of contours
_TICKS = 7  # of the colour bar
# Degenerate points are small, as they may fill a curve. Orange stands out on all of viridis.
_MARKS: dict[str, dict[str, Any]] = {
    "minimum": {"marker": "o", "ms": 8, "mew": 0.7},
    "saddle": {"marker": "X", "ms": 10, "mew": 0.7},
    "maximum": {"marker": "^", "ms": 9, "mew": 0.7},
    "degenerate": {"marker": "o", "ms": 3, "mew": 0},
}


_FORMS = {False: "asynchronous", True: "synchronous"}


def compose_landscape(title: str, surface: Surface) -> Canvas:
    """Contours of a loss surface with its stationary points.

    Colours follow the cube root of the height above the lowest value, as a surface that is high at
    the rim is flat where it matters.
    """
    from matplotlib.colors import PowerNorm

    canvas, (contours,) = new_panels(1, 4.4)
    values = np.array(surface.values)
    lowest = surface.lowest
    highest = max(float(values.max()), lowest + 1e-12)  # so that a flat surface has levels
    norm = PowerNorm(_POWER, lowest, highest)
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
    note = "stationary points by the eigenvalues of the Hessian"
    finish(canvas, title, note, _legend(surface))
    return canvas


def draw_landscape(title: str, landscape: Path, output: list[Path]) -> None:
    """Draw a loss surface with its stationary points."""
    draw(output, compose_landscape, title, read_surface(landscape))


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
    canvas, (by_time, delays, speed_up) = new_panels(3, 3.0)
    colour_of = colours(_FORMS.values())
    most = max(pair.parties for pair in pairs)
    for pair in pairs:
        if pair.parties == most:
            colour = colour_of[_FORMS[pair.synchronous]]
            by_time.plot(pair.real.seconds, pair.real.objective, color=colour)
            by_time.plot(pair.simulated.seconds, pair.simulated.objective, color=colour, ls=DASHED)
    by_time.set(xlabel="seconds, real or simulated", ylabel="objective f(w)")
    by_time.set_title(f"{most} parties")
    chosen = next(pair for pair in pairs if pair.parties == most and not pair.synchronous)
    _draw_delays(delays, chosen, colour_of["asynchronous"])
    delays.set_title(f"{most} parties, asynchronous")
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
    finish(canvas, title, "", handles)
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
    place.legend(frameon=False)
    place.set(xlabel="updates that the reads of a sum lacked", ylabel="share of sums")
