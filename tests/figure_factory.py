"""Figures of made traces, and what is drawn in them."""

from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend

from fedatlas.evaluation.selection import Choice
from fedatlas.figures.style import Shown, draw
from fedatlas.schema.figures import Figure

#: Of runs that tests name so.
TITLES = {
    **{"page": "FedPAGE", "avg": "FedAvg", "scaffold": "SCAFFOLD"},
    **{"async": "VFB²-SVRG", "sync": "VFB-SVRG", "pooled": "NonF"},
}


def figure_of(**keys: Any) -> Figure:
    """A figure of the kind that the keys name."""
    return Figure.model_validate(keys)


def shown(traces: dict[str, Any], titles: dict[str, str] = TITLES) -> Shown:
    """Traces at their first points; a run without a title has its name."""
    chosen = {run: Choice(next(iter(points)), {}) for run, points in traces.items()}
    return Shown({run: titles.get(run, run) for run in traces}, traces, chosen)


def composed(
    traces: dict[str, Any],
    figure: Figure | None = None,
    titles: dict[str, str] = TITLES,
    title: str = "A title",
) -> Canvas:
    """The figure of these traces, by default one of convergence."""
    return (figure or figure_of()).compose(title, shown(traces, titles))


def is_drawn(outputs: list[Path], *content: Any) -> None:
    """Draw, and check that what is written is neither empty nor full."""
    draw(outputs, *content)
    for output in outputs:
        if output.suffix == ".png":
            inked = (matplotlib.image.imread(output)[..., :3] < 0.9).any(axis=2)
            assert inked.shape[1] > 700 and 0.002 < inked.mean() < 0.9
        else:
            assert output.read_text(encoding="utf-8").rstrip().endswith("</svg>")


def legend_of(axes: Axes) -> Legend:
    """A panel's legend, or the one below all panels."""
    canvas: Any = axes.get_figure()
    own = axes.get_legend()
    return canvas.legends[0] if own is None else own


def legend(axes: Axes) -> list[str]:
    """The labels of a panel's legend, or of the one below all panels."""
    return [text.get_text() for text in legend_of(axes).get_texts()]


def caption(canvas: Canvas) -> str:
    """What stands below all panels, on one line."""
    told = [text for text in canvas.texts if text is not canvas._suptitle]  # type: ignore[attr-defined]
    return " ".join(text.get_text().replace("\n", " ") for text in told)


def medians(axes: Axes) -> dict[str, np.ndarray]:
    """Lines as thick as medians are, by colour."""
    return {to_hex(line.get_color()): line.get_xydata() for line in axes.lines if line.get_lw() > 1}
