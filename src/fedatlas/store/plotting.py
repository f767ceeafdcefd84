"""Draw figures of any runs of an atlas, as the workflow draws them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import xarray as xr
from matplotlib.figure import Figure as Canvas

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.selection import Choice
from fedatlas.figures.kinds.convergence import ConvergenceFigure
from fedatlas.figures.pgfplots import write_pgfplots
from fedatlas.figures.style import DOTS_PER_INCH, Shown, as_written, draw, look
from fedatlas.schema.config import Names, listed
from fedatlas.schema.models import validated
from fedatlas.store.atlas import Atlas
from fedatlas.store.compared import RunName, format_names, measured
from fedatlas.store.saving import check_folder_of


@dataclass(frozen=True, repr=False)
class Plot:
    """A figure, which notebooks show; figure: matplotlib's own."""

    figure: Canvas

    @property
    def note(self) -> str:
        """The meaning of lines, bands and marks, for a caption."""
        return "; ".join(str(self.figure.get_label()).splitlines())

    def save(self, path: Path | str) -> None:
        """Write it to a file, whole or not at all.

        .png, .svg or .pdf, or .tex with its numbers beside it (.dat), which pgfplots draws.
        """
        if (file := Path(path)).suffix not in (".png", ".svg", ".pdf", ".tex"):
            raise FedatlasError(f"{file}: must end in .png, .svg, .pdf or .tex")
        check_folder_of(file)
        if file.suffix == ".tex":
            write_pgfplots(self.figure, file)
        else:
            draw([file], lambda: self.figure)

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        with look():
            self.figure.savefig(picture, format="png", dpi=DOTS_PER_INCH)
        return picture.getvalue()


def plot(
    atlas: Atlas | Path | str,
    metric: str,
    cost: str | Sequence[str] = ("round", "bytes", "gradient_evaluations"),
    *,
    experiments: Names = None,
    runs: Names = None,
    all_points: bool = False,
    title: str = "",
    against: Atlas | Path | str | None = None,
    published: Names = None,
    whole: bool = False,
    rates: Mapping[str, Mapping[str, str]] | None = None,
    style: Path | str = "",
) -> Plot:
    """Draw a measurement of runs against what they spent, a panel for each cost.

    atlas: open, or the path of its file. Lines are medians over seeds at equal cost, bands reach
    from the lowest to the highest seed. metric, cost: as figures of experiments name them.
    experiments: names or patterns. runs: names; both are all by default. all_points: whether runs
    are drawn at all points of their grids. against, published, whole: as `compare` takes them; runs
    of the same problem are drawn, too. rates: run → label → formula, as in a figure's file
    (docs/adding/figure.md). style: "column" for a journal's, or a style of matplotlib, by its file
    or name. FedatlasError as of `compare`, and for a rate that a run cannot have.

    >>> drawn = fedatlas.plot(ATLAS, "gradient_norm", "round", experiments=["fedpage-first"])
    >>> drawn.save("figure.png")
    """
    declared = {
        "measurement": metric,
        "costs": listed(cost),
        "points": "all" if all_points else "selected",
        "rates": rates or {},
    }
    figure = validated(ConvergenceFigure, declared, "plot")
    traces: dict[str, dict[str, xr.Dataset]] = {}
    titles: dict[str, str] = {}
    chosen: dict[str, Choice] = {}
    found = measured(
        *(atlas, metric, figure.costs),
        experiments=experiments,
        runs=runs,
        all_points=all_points,
        against=against,
        published=published,
        whole=whole,
    )
    names = [
        RunName(one.experiment, one.run, one.title, origin)
        for one, origin in zip(found.runs, found.origins, strict=True)
    ]
    for one, name, told in zip(found.runs, names, format_names(names), strict=True):
        key = "/".join(name)
        titles[key] = told
        traces.setdefault(key, {})[one.point] = one.trace
        if one.selected:
            chosen[key] = Choice(one.point, {})
    if missing := figure.rates.keys() - {name.run for name in names}:
        told = ", ".join(sorted({name.run for name in names}))
        raise FedatlasError(f"plot: rates: no run '{min(missing)}' is drawn; runs are {told}")
    of_runs = {"/".join(name): figure.rates.get(name.run, {}) for name in names}
    figure = figure.model_copy(update={"rates": of_runs})
    theirs = frozenset("/".join(name) for name in names if name.origin == "published")
    shown = Shown(titles, traces, chosen, published=theirs)
    return drawn(figure.compose, title, shown, style=style)


def drawn(compose: Callable[..., Canvas], *content: Any, style: Path | str = "") -> Plot:
    """A figure in the common look, or in a style besides."""
    with look(style):
        return Plot(as_written(compose(*content)))
