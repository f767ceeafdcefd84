"""Scaling figures: speed-up, by simulated time or another cost, against parties or clients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from fedatlas.evaluation.costs import Trace, specification
from fedatlas.evaluation.slopes import Size, costs_to, sizes_of
from fedatlas.figures.style import DASHED, MARKERS, Shown, colours, legend_beside, put_title
from fedatlas.schema.figures import Figure
from fedatlas.schema.quantities import AXES, LARGER_IS_BETTER, MEASUREMENTS


def compose(title: str, shown: Shown) -> Canvas:
    """One line per group: the cost of its first run over that of each run, seed by seed.

    Lines are medians. Bands reach from the lowest to the highest seed. The legend counts the seeds
    that are left out because they miss the target with some number of parties.
    """
    figure = shown.figure
    dashed = _dashed_groups(figure)
    colour_of = colours({label: label for label in figure.groups}, dashed)
    canvas = Canvas(figsize=(7.0, 4.0), layout="constrained")
    place = canvas.subplots()
    handles: list[Line2D] = []
    ticks: set[int] = set()
    holders = "parties"
    for number, (label, runs) in enumerate(figure.groups.items()):
        series = [shown.chosen_trace(run) for run in runs]
        holders, counts = _holders(series)
        spent = costs_to(series, figure.measurement, figure.target, figure.cost)
        whole = np.isfinite(spent).all(axis=0)
        lost = int((~whole).sum())
        note = f"\n{lost} of {len(whole)} seeds miss the target" if lost else ""
        look: dict[str, Any] = {
            "color": colour_of[label],
            "ls": DASHED if label in dashed else "-",
            "marker": MARKERS[number % len(MARKERS)],
            "ms": 4.5,
            "mfc": "white" if label in dashed else colour_of[label],
        }
        handles.append(Line2D([], [], label=label + note, **look))
        ticks |= set(counts.tolist())
        if not whole.any():
            continue
        speed_up = spent[0, whole] / spent[:, whole]
        low, high = speed_up.min(axis=1), speed_up.max(axis=1)
        place.fill_between(counts, low, high, color=look["color"], alpha=0.15, linewidth=0)
        place.plot(counts, np.median(speed_up, axis=1), lw=1.5, zorder=3, **look)
    ends = np.array([min(ticks), max(ticks)])
    place.plot(ends, ends / ends[0], color="grey", lw=1.0, ls=":", zorder=2)
    handles.append(Line2D([], [], color="grey", lw=1.0, ls=":", label="ideal"))
    place.set_xscale("log", base=2)
    place.set_yscale("log", base=2)
    place.xaxis.set_major_locator(FixedLocator(sorted(ticks)))
    for axis in (place.xaxis, place.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    place.set_xlabel(holders)
    one = {"parties": "one party", "clients": "one client"}[holders]
    first = one if ends[0] == 1 else f"{ends[0]} {holders}"
    place.set_ylabel(f"speed-up over {first}")
    legend_beside(place, handles)
    spread = shown.seeds("median and range of ")
    level = MEASUREMENTS[figure.measurement].long_name
    sign = "≥" if figure.measurement in LARGER_IS_BETTER else "≤"
    spent_on = AXES[figure.cost].long_name if figure.cost in AXES else figure.cost
    put_title(canvas, title, f"{spent_on} to {level} {sign} {figure.target:g}; {spread}")
    return canvas


def _holders(series: Sequence[Trace]) -> tuple[Size, np.ndarray]:
    """What runs have ever more of, and how many."""
    vertical = "parties" in specification(series[0])["partition"]
    size: Size = "parties" if vertical else "clients"
    return size, sizes_of(series, size)


def _dashed_groups(figure: Figure) -> dict[str, str]:
    group_of = {run: label for label, runs in figure.groups.items() for run in runs}
    return {
        group_of[run]: group_of[other]
        for run, other in figure.dashed.items()
        if run in group_of and other in group_of
    }
