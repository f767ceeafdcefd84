"""A figure's curves for pgfplots: LaTeX draws them in the paper's own fonts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedatlas.figures.style import is_narrow, letters_within
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
COLOURS
\begin{groupplot}[group style={group size=COLUMNS, horizontal sep=1.8cm, vertical sep=1.8cm},
  scale only axis, width=WIDTHin, height=HEIGHTin, label style={font=\footnotesize},
  tick label style={font=\footnotesize}, xlabel style={text width=WIDTHin, align=center},
  reverse legend, legend to name=NAME, legend columns=ENTRIES,
  legend style={font=\footnotesize, draw=none, cells={anchor=west, align=left}}]
"""
_LEGEND = r"\node[anchor=north] at (current bounding box.south) {\pgfplotslegendfromname{NAME}};"
_COLOUR = r"\definecolor"
_WIDEST = 7.1  # inches of a page's text
_LABEL, _BETWEEN = 0.85, 0.71  # inches of the vertical axis's labels, and between panels
_POINTS = 8  # of \footnotesize


def write_pgfplots(canvas: Canvas, path: Path) -> None:
    """Write the picture (.tex), and beside it its numbers (.dat): x, y and ends of bands."""
    import pandas as pd

    columns: dict[str, pd.Series[Any]] = {}
    numbers = path.with_suffix(".dat")
    widest = letters_within(min(canvas.get_figwidth(), _WIDEST) - _LABEL, _POINTS)
    widest = widest if is_narrow(canvas) else widest // 2
    places = [place for place in canvas.axes if any(_is_curve(line) for line in place.lines)]
    seen: dict[str, str] = {}
    lines = [
        line
        for place in places
        for line in _panel(place, columns, numbers.name, widest * (place is places[-1]), seen)
    ]
    size = places[0].get_gridspec() if places else None
    across = size.ncols if size else 1
    width = min(canvas.get_figwidth(), _WIDEST) - _LABEL - _BETWEEN * (across - 1)
    told = {
        # The legend needs them outside the panels.
        "COLOURS": "\n".join(line for line in lines if line.startswith(_COLOUR)),
        "COLUMNS": f"{across} by {size.nrows if size else 1}",
        "WIDTH": f"{width / across:.2f}",
        "HEIGHT": f"{min(0.65 * width / across, 2.0):.2f}",
        "NAME": re.sub(r"\W", "-", path.stem),
        "ENTRIES": "1" if is_narrow(canvas) else "2",
    }
    head, legend = (re.sub("|".join(told), lambda key: told[key[0]], of) for of in (_HEAD, _LEGEND))
    write_text(numbers, pd.DataFrame(columns).to_csv(sep=" ", index=False, na_rep="nan"))
    ends = (r"\end{groupplot}", legend, r"\end{tikzpicture}", "")
    drawn = (line for line in lines if not line.startswith(_COLOUR))
    write_text(path, "\n".join([head.rstrip(), *drawn, *ends]))


def _is_curve(line: Any) -> bool:
    return not str(line.get_label()).startswith("_")


def _panel(
    place: Axes, columns: dict[str, Any], file: str, widest: int, seen: dict[str, str]
) -> Iterator[str]:
    """A panel's curves, those that are drawn last on top.

    widest: letters in a line of the legend, which the last panel hands over; 0 for others.
    seen: label → the look of curves so far.
    """
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
        yield rf"{_COLOUR}{{curve{at}}}{{HTML}}{{{to_hex(line.get_color())[1:].upper()}}}"
        for own in (f"{name[1:]}{at}" for name in band):
            end = rf"\addplot[name path={own}, draw=none, forget plot]"
            yield rf"{end} table[x=x{at}, y={own}] {{{file}}};"
        if band:
            ends = f"fill between[of=low{at} and high{at}]"
            yield rf"\addplot[curve{at}, opacity=0.15, forget plot] {ends};"
        dashes = ", dashed" if line.get_linestyle() != "-" else ""
        look = f"curve{at}, thick{dashes}"
        yield rf"\addplot[{look}] table[x=x{at}, y=y{at}] {{{file}}};"
        if widest:
            seen.pop(label, None)
            yield _entry(label, widest)
        else:
            seen[label] = look
        band = {}
    for label, look in seen.items() if widest else ():
        yield rf"\addlegendimage{{{look}}}"
        yield _entry(label, widest)


def _entry(label: str, widest: int) -> str:
    told = r" \\ ".join(map(text, textwrap.wrap(label, widest)))
    return rf"\addlegendentry{{{told}}}"
