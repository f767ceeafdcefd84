"""Figures of profiles: how much methods spend over many problems and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedatlas.evaluation.profiles import (
    MOST,
    Costs,
    Scores,
    performance_profile,
    ratios,
    runtime_profile,
    typical,
)
from fedatlas.figures.colours import Look
from fedatlas.figures.style import (
    entry,
    finish,
    new_panels,
    tick_plainly,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_HEIGHT = 2.3  # of a panel, inches
_POINTS = 400  # of a line
_SHORT = 100  # times its least cost a short axis reaches
_DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))


class CostProfiles(NamedTuple):
    """What a row of panels shows, by one cost.

    label: of its axes. tries: (tries, methods), of one try alone none.
    """

    cost: str
    label: str
    costs: Costs
    scores: Scores
    tries: np.ndarray


def compose(
    title: str,
    note: str,
    titles: Mapping[str, str],
    looks: Mapping[str, Look],
    rows: Sequence[CostProfiles],
) -> Canvas:
    """A column for each cost: runtime, data, performance profile, and the score by tries.

    titles: method → what it is called. looks: of its line.
    """
    some = any(len(row.tries) > 1 for row in rows)
    canvas, panels = new_panels((3 + some) * len(rows), _HEIGHT, len(rows))
    axes = np.reshape(np.array(panels), (3 + some, len(rows)))
    drawn = {  # dashes show what lies below, as methods may coincide
        method: {"color": looks[method].colour, "ls": _DASHES[place % len(_DASHES)], "lw": 1.4}
        for place, method in enumerate(titles)
    }
    for places, row in zip(axes.T, rows, strict=True):
        own = [drawn[method] for method in row.costs.methods]
        spent, cheapest = row.costs.spent, row.costs.unit[:, None, None]
        _steps(places[0], spent, own, row.label)
        _steps(places[1], spent / cheapest, own, f"{row.label}\nover those of the cheapest round")
        at = np.linspace(1, MOST, _POINTS)
        for line, look in zip(performance_profile(ratios(typical(spent)), at), own, strict=True):
            places[2].plot(at, line, **look)
        places[2].set_xlabel("cost over the least")
        tick_plainly(places[2].xaxis, range(1, int(MOST) + 1))
        for place, of in zip(places, ("instances", "instances", "pairs"), strict=False):
            place.set_ylabel(f"share of {of}")
            place.set_ylim(-0.02, 1.02)
        if some:
            _tries(places[3], row.tries, own)
    for place, told in zip(
        axes[:, 0],
        ("runtime profile", "data profile", "performance profile", "tuning"),
        strict=False,
    ):
        place.set_title(told, loc="left")
    handles = [entry(name, **drawn[method]) for method, name in titles.items()]
    finish(canvas, title, note, handles)
    return canvas


def _steps(place: Axes, spent: np.ndarray, looks: Sequence[Mapping[str, Any]], name: str) -> None:
    """A share by cost, on a logarithmic axis from the least to the most that was spent."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    finite = spent[np.isfinite(spent) & (spent > 0)]
    at = np.geomspace(finite.min(), finite.max(), _POINTS) if len(finite) else np.array([1.0, 2.0])
    for line, look in zip(runtime_profile(spent, at), looks, strict=True):
        place.plot(at, line, drawstyle="steps-post", **look)
    place.set_xscale("log")
    if at[-1] < _SHORT * at[0]:  # numbers of all ticks would overlap, and powers of ten be too few
        place.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        place.xaxis.set_major_formatter(EngFormatter(sep=""))
        place.xaxis.set_minor_formatter(NullFormatter())
    place.set_xlabel(name)


def _tries(place: Axes, areas: np.ndarray, looks: Sequence[Mapping[str, Any]]) -> None:
    tries = np.arange(1, len(areas) + 1)
    for line, look in zip(areas.T, looks, strict=True):
        place.plot(tries, line, marker="o", ms=2.5, **look)
    place.set_ylim(-0.02, 1.02)
    place.set_ylabel("score")
    place.set_xlabel("configurations tried")
    tick_plainly(place.xaxis, tries if len(tries) < 10 else ())
