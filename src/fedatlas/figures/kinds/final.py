"""Final values: where the seeds of every run ended, beside the numbers that the paper prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedatlas.evaluation.levels import column, diverged, mean_interval, smallest
from fedatlas.figures.colours import looks
from fedatlas.figures.style import (
    WIDEST,
    Shown,
    entry,
    finish,
    format_floor,
    lost_note,
    method_of,
    new_canvas,
)
from fedatlas.plain_text import printable
from fedatlas.schema.figures import Figure
from fedatlas.schema.quantities import MEASUREMENTS, Measurement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

_PRINTED: dict[str, Any] = {
    "marker": "D",
    "ms": 5,
    "mfc": "white",
    "mec": "black",
    "color": "black",
    "lw": 1.0,
}
_OFFSET = 0.22  # of seeds above the mean of their run, in rows


class FinalFigure(Figure):
    """Draws final measurements of all seeds at each run's selected point.

    measurement: what is compared. published: run → the number that the paper prints, alone or with
    what it prints behind ±.
    """

    kind: Literal["final"]
    measurement: Measurement = "gradient_norm"
    published: dict[str, float | tuple[float, float]] = Field(default={})

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(self.published)

    @property
    def printed(self) -> dict[str, float]:
        return {run: value for run, (value, _) in self._numbers.items()}

    @property
    def _numbers(self) -> dict[str, tuple[float, float]]:
        given = self.published.items()
        return {run: one if isinstance(one, tuple) else (one, 0.0) for run, one in given}

    def compose(self, title: str, shown: Shown) -> Canvas:
        """One row per run: its seeds as dots, their mean and 95 % interval, the printed value."""
        logarithmic = MEASUREMENTS[self.measurement].logarithmic
        rows = list(_rows(self, shown, logarithmic))
        canvas = new_canvas(WIDEST, 0.8 + 0.5 * len(rows))
        place = canvas.subplots()
        for height, row in enumerate(rows):
            _draw_row(place, height, row)
        place.grid(axis="y", visible=False)
        if logarithmic:
            place.set_xscale("log")
        else:
            place.ticklabel_format(axis="x", useOffset=False)
        labels = [printable(row.label) for row in rows]
        place.set_yticks(range(len(rows)), labels, parse_math=False)
        place.set_ylim(len(rows) - 0.5, -0.5)
        place.set_xlabel(MEASUREMENTS[self.measurement].long_name)
        note = shown.seeds()
        if any(row.is_clipped for row in rows):
            note += f"\n{format_floor(self.measurement)}"
        finish(canvas, title, note, _legend(logarithmic, self._numbers))
        return canvas


class _Row(NamedTuple):
    """A run: where its healthy seeds ended, their mean, and the bounds of its interval."""

    label: str
    colour: str
    ends: np.ndarray
    mean: float | None
    bounds: tuple[float, float] | None
    published: tuple[float, float] | None
    is_clipped: bool = False  # whether ends below what the measurement is known to were raised


def _rows(figure: FinalFigure, shown: Shown, logarithmic: bool) -> Iterator[_Row]:
    methods = {run: method_of(shown.traces[run], run) for run in shown.titles}
    look_of = looks({method: method for method in methods.values()})  # labels tell variants apart
    for run, label in shown.titles.items():
        trace = shown.chosen_trace(run)
        gone = diverged(trace)
        ends = column(trace, figure.measurement)[~gone, -1]
        known = np.maximum(ends, smallest(figure.measurement)) if logarithmic else ends
        is_clipped, ends = bool((known > ends).any()), known
        interval = np.array(mean_interval(np.log10(ends) if logarithmic else ends))
        mean, low, high = (10**interval if logarithmic else interval).tolist()
        yield _Row(
            label=label + lost_note(trace),
            colour=look_of[methods[run]].colour,
            ends=ends,
            mean=mean if len(ends) else None,
            bounds=(low, high) if len(ends) > 1 else None,
            published=figure._numbers.get(run),
            is_clipped=is_clipped,
        )


def _draw_row(place: Axes, height: int, row: _Row) -> None:
    at = np.full(len(row.ends), height - _OFFSET)
    place.plot(row.ends, at, "o", color=row.colour, ms=4, alpha=0.45, mew=0)
    if row.bounds is not None:
        place.plot(row.bounds, [height] * 2, color=row.colour, lw=1.8, solid_capstyle="butt")
    if row.mean is not None:
        place.plot(row.mean, height, "o", color=row.colour, ms=6.5, zorder=4)
    if row.published is not None:
        value, spread = row.published
        place.errorbar(value, height + _OFFSET, xerr=spread or None, **_PRINTED)


def _legend(logarithmic: bool, published: Mapping[str, tuple[float, float]]) -> list[Line2D]:
    mean = f"{'geometric ' if logarithmic else ''}mean, 95 % interval"
    handles = [
        entry("seed", color="grey", ls="", marker="o", ms=4, alpha=0.45, mew=0),
        entry(mean, color="grey", marker="o", ms=6.5, lw=1.8),
    ]
    spread = any(spread for _, spread in published.values())
    printed = entry("published, ±" if spread else "published", ls="-" if spread else "", **_PRINTED)
    return [*handles, printed] if published else handles
