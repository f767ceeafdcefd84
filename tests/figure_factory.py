"""Figures of made traces, and what is drawn in them."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Canvas

from fedatlas.evaluation.selection import Choice
from fedatlas.figures.style import Shown
from fedatlas.schema.figures import Figure


def figure_of(**keys: Any) -> Figure:
    """A figure of the kind that the keys name."""
    return Figure.model_validate(keys)


def shown(traces: dict[str, Any], titles: dict[str, str] | None = None) -> Shown:
    """Traces at their first points; a run without a title has its name."""
    chosen = {run: Choice(next(iter(points)), {}) for run, points in traces.items()}
    return Shown({run: (titles or {}).get(run, run) for run in traces}, traces, chosen)


def composed(
    traces: dict[str, Any],
    figure: Figure | None = None,
    titles: dict[str, str] | None = None,
    title: str = "A title",
) -> Canvas:
    """The figure of these traces, by default one of convergence."""
    return (figure or figure_of()).compose(title, shown(traces, titles))


def legend(axes: Axes) -> list[str]:
    """The labels of a panel's legend."""
    return [text.get_text() for text in axes.get_legend().get_texts()]


def medians(axes: Axes) -> dict[str, np.ndarray]:
    """Lines as thick as medians are, by colour."""
    return {to_hex(line.get_color()): line.get_xydata() for line in axes.lines if line.get_lw() > 1}
