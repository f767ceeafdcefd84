"""Drawing an experiment's figure, whatever its kind."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure as Canvas

from fedatlas.evaluation.selection import Choice, Traces
from fedatlas.figures import convergence, final, scaling
from fedatlas.figures.style import STYLE, save
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
    """Draw one experiment's figure and write it to each of `outputs` (.svg, .png)."""
    with matplotlib.rc_context(STYLE):
        save(compose(title, figure, run_titles, traces, chosen), outputs)


def compose(
    title: str,
    figure: Figure,
    run_titles: Mapping[str, str],
    traces: Traces,
    chosen: Mapping[str, Choice],
) -> Canvas:
    """The figure as an object of matplotlib; its look is set by `draw`."""
    return _KINDS[figure.kind](title, figure, run_titles, traces, chosen)
