"""Drawing an experiment's figure, whatever its kind."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure as Canvas

from fedatlas.evaluation.selection import Choice, Traces
from fedatlas.figures import convergence, final, scaling, style
from fedatlas.schema.figures import Figure

_KINDS = {
    "convergence": convergence.compose,
    "scaling": scaling.compose,
    "final": final.compose,
}


def draw(
    title: str,
    figure: Figure,
    run_titles: Mapping[str, str],
    traces: Traces,
    chosen: Mapping[str, Choice],
    outputs: list[Path],
) -> None:
    """Draw one experiment's figure and write it to each output (.svg, .png)."""
    style.draw(outputs, compose, title, style.Shown(figure, run_titles, traces, chosen))


def compose(title: str, shown: style.Shown) -> Canvas:
    """The figure as an object of matplotlib, in matplotlib's own look."""
    return _KINDS[shown.figure.kind](title, shown)
