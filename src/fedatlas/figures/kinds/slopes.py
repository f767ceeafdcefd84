"""Slopes: what runs of rising size spend or end with, and the slope that a claim states."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from fedatlas.evaluation.slopes import Line, slopes_of
from fedatlas.figures.colours import colours
from fedatlas.figures.style import (
    BANDS,
    MARKERS,
    Shown,
    entry,
    finish,
    new_panels,
    tick_decades,
    tick_plainly,
)
from fedatlas.schema.claims import Claim
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.figures import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

_COLUMNS = 2
_LETTERS = 60  # of a line above a panel
_LEAST = 0.5  # decades that an axis shows, lest what is level look steep


class SlopesFigure(Figure):
    """Costs or ends by which claims of slopes are judged, against the size, and what is claimed.

    claims: ids of claims whose slopes are drawn, a panel each.
    """

    kind: Literal["slopes"]
    claims: tuple[str, ...] = Field(min_length=1)

    def draws(self, claim: Claim) -> bool:
        return claim.id in self.claims

    def check(self, experiment: Experiment) -> None:
        sloping = [claim.id for claim in experiment.claims if claim.test.has_slopes]
        for name in self.claims:
            if name not in sloping:
                raise ValueError(
                    f"the figure's claims: '{name}' is no claim of a slope; such claims are "
                    f"{', '.join(sloping) or 'none'}"
                )

    def compose(self, title: str, shown: Shown) -> Canvas:
        """A panel per claim: a line for each of its cases, and the slope that it states, dotted.

        Lines are geometric means over the seeds that have a value at every size. Bands reach from
        the lowest to the highest of these. The legend has the median of their slopes, and the
        range.
        """
        claims = sorted(shown.claims, key=lambda claim: self.claims.index(claim.id))
        canvas, places = new_panels(len(claims), 3.7, _COLUMNS if len(claims) > 1 else 0)
        for place, claim in zip(places, claims, strict=True):
            _draw(place, claim, shown)
        finish(canvas, title, shown.seeds(BANDS.replace("median", "geometric mean")))
        return canvas


def _draw(place: Axes, claim: Claim, shown: Shown) -> None:
    lines = claim.test.lines(lambda *runs: [shown.chosen_trace(run) for run in runs])
    found = sorted(lines, key=_by_numbers)
    colour_of = colours(line.label for line in found)
    handles: list[Line2D] = []
    for line, marker in zip(found, MARKERS * len(found), strict=False):
        look = {"color": colour_of[line.label], "marker": marker, "ms": 4.5, "lw": 1.5}
        handles.append(entry(_told(line), **look))
        _draw_line(place, line, look)
    expected = {line.expected for line in found if line.expected is not None}
    handles += [_draw_expected(place, found[0], slope) for slope in sorted(expected)]
    place.set_xscale("log")
    place.set_yscale("log")
    sizes = np.unique(np.concatenate([line.sizes for line in found]))
    tick_plainly(place.xaxis, sizes.tolist())
    place.set_xlabel(found[0].along)
    _widen(place)
    place.set_ylabel("\n".join(textwrap.wrap(found[0].of, 28)))
    place.set_title(textwrap.fill(claim.statement, _LETTERS), fontsize=9)
    below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.24), "frameon": False}
    place.legend(handles=handles, **below)


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
    return entry(f"claimed: slope {_slope(slope)}", **look)


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
    return f"{name}slope {middle} ({low} to {high}){note}"


def _slope(value: float) -> str:
    return f"{value:z.2f}".replace("-", "−")


def _by_numbers(line: Line) -> list[tuple[float, str]]:
    """Sorts Q = 4 before Q = 16."""
    parts = re.split(r"(\d+\.?\d*)", line.label)
    return [(float(part), "") if part[:1].isdigit() else (0.0, part) for part in parts]


def _widen(place: Axes) -> None:
    """Show some decades at least of the vertical axis."""
    low, high = np.log10(place.get_ylim())
    margin = max(0.0, _LEAST - (high - low)) / 2
    place.set_ylim(10 ** (low - margin), 10 ** (high + margin))
    tick_decades(place)
