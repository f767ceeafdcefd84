"""A loss surface over two parameters as relief and contours, with its stationary points.

Colours follow the cube root of the height above the lowest value, as a surface that is high at the
rim is flat where it matters.
"""

from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from fedatlas.evaluation.study_files import StationaryPoint, Surface
from fedatlas.figures.style import legend_below, put_title

_NAMES = ("m₁", "m₂")
_VALUE = "minimum of Φ(m, a, b) over a, b"
_COLOURS = matplotlib.colormaps["viridis"]
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


def compose(title: str, surface: Surface) -> Canvas:
    """A relief on the left, contours on the right."""
    canvas = Canvas(figsize=(9.5, 4.9), layout="constrained")
    values = np.array(surface.values)
    lowest = surface.lowest
    highest = max(float(values.max()), lowest + 1e-12)  # so that a flat surface has levels
    norm = PowerNorm(_POWER, lowest, highest)
    _draw_relief(canvas, surface, values, norm)
    contours = canvas.add_subplot(1, 2, 2)
    grid = surface.first, surface.second, values
    levels = lowest + (highest - lowest) * np.linspace(0, 1, _LEVELS) ** (1 / _POWER)
    filled = contours.contourf(*grid, levels=levels, cmap=_COLOURS, norm=norm)
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


def _draw_relief(canvas: Canvas, surface: Surface, values: np.ndarray, norm: PowerNorm) -> None:
    relief: Any = canvas.add_subplot(1, 2, 1, projection="3d", computed_zorder=False)
    relief.plot_surface(
        *np.meshgrid(surface.first, surface.second),
        values,
        facecolors=_COLOURS(norm(values)),
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
        Line2D([], [], label=f"{name}: {_heights(points)}", **_mark(points[0]))
        for name, points in classes.items()
    ]
    if "saddle" in classes:
        handles.append(Line2D([], [], color="grey", ls="--", lw=0.8, label="as high as a saddle"))
    return handles


def _heights(points: list[StationaryPoint]) -> str:
    heights = [round(point.above_lowest, 6) for point in points]
    if not any(heights):
        return "at the lowest value found"
    low, high = (f"{limit:.3g}" for limit in (min(heights), max(heights)))
    return f"{low if low == high else f'{low} to {high}'} above the lowest value found"
