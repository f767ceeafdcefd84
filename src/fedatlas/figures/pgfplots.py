"""A figure's curves for pgfplots: LaTeX draws them in the paper's own fonts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedatlas.files import write_text
from fedatlas.latex import text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Labels of lines that bound the band of the next line that is drawn.
LOW, HIGH = "_low", "_high"
_HEAD = r"""% \usepackage{pgfplots, xcolor}
% \usepgfplotslibrary{fillbetween, groupplots}
% \pgfplotsset{compat=1.18}
\begin{tikzpicture}
\begin{groupplot}[group style={group size=COLUMNS, horizontal sep=1.8cm, vertical sep=1.8cm},
  reverse legend, legend style={font=\footnotesize, draw=none, at={(0.5,-0.3)}, anchor=north,
  cells={anchor=west}}]
"""


def write_pgfplots(canvas: Canvas, path: Path) -> None:
    """Write the picture (.tex), and beside it its numbers (.dat): x, y and ends of bands."""
    import pandas as pd

    columns: dict[str, pd.Series[Any]] = {}
    numbers = path.with_suffix(".dat")
    places = [place for place in canvas.axes if any(_is_curve(line) for line in place.lines)]
    lines = [
        line
        for place in places
        for line in _panel(place, columns, numbers.name, last=place is places[-1])
    ]
    size = places[0].get_gridspec() if places else None
    head = _HEAD.replace("COLUMNS", f"{size.ncols} by {size.nrows}" if size else "1 by 1")
    write_text(numbers, pd.DataFrame(columns).to_csv(sep=" ", index=False, na_rep="nan"))
    write_text(
        path, "\n".join([head.rstrip(), *lines, r"\end{groupplot}", r"\end{tikzpicture}", ""])
    )


def _is_curve(line: Any) -> bool:
    return not str(line.get_label()).startswith("_")


def _panel(place: Axes, columns: dict[str, Any], file: str, *, last: bool) -> Iterator[str]:
    """A panel's curves, those that are drawn last on top; the last panel has the legend."""
    import pandas as pd
    from matplotlib.colors import to_hex

    told = {
        "xlabel": f"{{{text(place.get_xlabel())}}}",
        "ylabel": f"{{{text(place.get_ylabel())}}}",
    }
    told |= {f"{name}mode": "log" for name in "xy" if getattr(place, f"get_{name}scale")() == "log"}
    yield rf"\nextgroupplot[{', '.join(f'{name}={value}' for name, value in told.items())}]"
    band: dict[str, Any] = {}
    for line in place.lines:
        label = str(line.get_label())
        if label in (LOW, HIGH):
            band[label] = line.get_ydata()
        if not _is_curve(line):
            continue
        at = len([name for name in columns if name.startswith("x")])
        columns[f"x{at}"] = pd.Series(line.get_xdata())
        columns[f"y{at}"] = pd.Series(line.get_ydata())
        columns |= {f"{name[1:]}{at}": pd.Series(values) for name, values in band.items()}
        yield rf"\definecolor{{curve{at}}}{{HTML}}{{{to_hex(line.get_color())[1:].upper()}}}"
        for own in (f"{name[1:]}{at}" for name in band):
            end = rf"\addplot[name path={own}, draw=none, forget plot]"
            yield rf"{end} table[x=x{at}, y={own}] {{{file}}};"
        if band:
            ends = f"fill between[of=low{at} and high{at}]"
            yield rf"\addplot[curve{at}, opacity=0.15, forget plot] {ends};"
        dashes = ", dashed" if line.get_linestyle() != "-" else ""
        yield rf"\addplot[curve{at}, thick{dashes}] table[x=x{at}, y=y{at}] {{{file}}};"
        if last:
            yield rf"\addlegendentry{{{text(label)}}}"
        band = {}
