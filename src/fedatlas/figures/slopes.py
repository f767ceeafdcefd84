"""Slopes: what runs of rising size spend or end with, and the slope that a claim states."""

import re
import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogFormatterSciNotation, NullLocator

from fedatlas.evaluation.slopes import Line, Lines, slopes_of
from fedatlas.figures.style import MARKERS, Shown, colours, legend_beside, put_title
from fedatlas.schema.claims import Claim

_COLUMNS = 2
_LETTERS = 46  # of a line above a panel
_LEAST = 0.5  # decades that an axis shows, lest what is level look steep


class _Numbers(LogFormatterSciNotation):
    """Labels the ticks that matplotlib would, as 0.02 rather than 2 × 10⁻²."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        label: str = super().__call__(x, pos)
        return f"{x:g}" if label and 1e-3 <= x < 1e4 else label


def compose(title: str, shown: Shown) -> Canvas:
    """A panel per claim: a line for each of its cases, and the slope that it states, dotted.

    Lines are geometric means over the seeds that have a value at every size. Bands reach from the
    lowest to the highest of these. The legend has the median of their slopes, and the range.
    """
    columns = min(_COLUMNS, len(shown.claims))
    rows = -(-len(shown.claims) // columns)
    canvas = Canvas(figsize=(5.9 * columns, 0.6 + 2.9 * rows), layout="constrained")
    places = canvas.subplots(rows, columns, squeeze=False)
    for place in places.flat[len(shown.claims) :]:
        place.set_visible(False)
    for place, claim in zip(places.flat, shown.claims, strict=False):
        _draw(place, claim, shown)
    put_title(canvas, title, shown.seeds("geometric mean and range of "))
    return canvas


def _draw(place: Axes, claim: Claim, shown: Shown) -> None:
    assert isinstance(claim.test, Lines)  # as experiments are checked
    lines = claim.test.lines(lambda *runs: [shown.chosen_trace(run) for run in runs])
    found = sorted(lines, key=_by_numbers)
    colour_of = colours({line.label: line.label for line in found}, {})
    handles: list[Line2D] = []
    for line, marker in zip(found, MARKERS * len(found), strict=False):
        look: dict[str, Any] = {
            "color": colour_of[line.label],
            "marker": marker,
            "ms": 4.5,
            "lw": 1.5,
        }
        handles.append(Line2D([], [], label=_told(line), **look))
        _draw_line(place, line, look)
    expected = {line.expected for line in found if line.expected is not None}
    handles += [_draw_expected(place, found[0], slope) for slope in sorted(expected)]
    place.set_xscale("log")
    place.set_yscale("log")
    sizes = np.unique(np.concatenate([line.sizes for line in found]))
    place.xaxis.set_major_locator(FixedLocator(sizes.tolist()))
    place.xaxis.set_minor_locator(NullLocator())
    place.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    place.set_xlabel(found[0].along)
    _widen(place)
    place.set_ylabel("\n".join(textwrap.wrap(found[0].of, 28)))
    place.set_title("\n".join(textwrap.wrap(claim.statement, _LETTERS)), fontsize=8)
    legend_beside(place, handles)


def _draw_line(place: Axes, line: Line, look: dict[str, Any]) -> None:
    whole = line.complete
    if not whole.size:
        return
    low, high = 10 ** whole.min(axis=1), 10 ** whole.max(axis=1)
    place.fill_between(line.sizes, low, high, color=look["color"], alpha=0.15, linewidth=0)
    place.plot(line.sizes, 10 ** whole.mean(axis=1), zorder=3, **look)


def _draw_expected(place: Axes, line: Line, slope: float) -> Line2D:
    """The slope that is claimed, through the middle of a line."""
    look: dict[str, Any] = {"color": "grey", "ls": ":", "lw": 1.2}
    whole = line.complete
    if whole.size:
        centred = np.log10(line.sizes) - np.log10(line.sizes).mean()
        place.plot(line.sizes, 10 ** (whole.mean() + slope * centred), zorder=2, **look)
    return Line2D([], [], label=f"claimed: slope {_slope(slope)}", **look)


def _told(line: Line) -> str:
    """A legend's label: the median of the seeds' slopes and their range, and who is left out."""
    whole = line.complete
    name = f"{line.label}: " if line.label else ""
    if not whole.size:
        return f"{name}no seed has all"
    slopes = slopes_of(line.sizes, whole)
    low, middle, high = (_slope(one) for one in (slopes.min(), np.median(slopes), slopes.max()))
    seeds = line.logarithms.shape[1]
    lost = seeds - whole.shape[1]
    note = f"\n{lost} of {seeds} seeds left out" if lost else ""
    return f"{name}slope {middle}\n({low} to {high}){note}"


def _slope(value: float) -> str:
    return f"{value:z.2f}".replace("-", "−")


def _by_numbers(line: Line) -> list[tuple[float, str]]:
    """Sorts Q = 4 before Q = 16."""
    parts = re.split(r"(\d+\.?\d*)", line.label)
    return [(float(part), "") if part[:1].isdigit() else (0.0, part) for part in parts]


def _widen(place: Axes) -> None:
    """Show some decades at least of the y axis."""
    low, high = np.log10(place.get_ylim())
    margin = max(0.0, _LEAST - (high - low)) / 2
    place.set_ylim(10 ** (low - margin), 10 ** (high + margin))
    for put in (place.yaxis.set_major_formatter, place.yaxis.set_minor_formatter):
        put(_Numbers(minor_thresholds=(1.5, 0.6)))
