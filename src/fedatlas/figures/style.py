"""What figures of every kind share: colours, scales, labels and titles."""

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr
from matplotlib.figure import Figure as Canvas

from fedatlas.evaluation.selection import Traces
from fedatlas.files import write_atomically

# Okabe and Ito's palette: told apart by readers with any colour vision, and in print; then three of
# Tol's muted ones for those who compare more than seven.
_COLOURS = [
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#882255", "#999933", "#AAAAAA"),
]
DASHED = (0, (4, 1.5))
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "fedatlas",  # equal figures are equal files
    "svg.fonttype": "path",
}
_LETTERS_PER_INCH = 13  # of a title


def colours(titles: Mapping[str, str], dashed: Mapping[str, str]) -> dict[str, str]:
    """Title → colour, in the order of `titles`; a dashed one has the colour of another.

    titles: run or group → title; dashed: run or group → the one whose colour it takes.
    """
    own = [title for name, title in titles.items() if name not in dashed]
    distinct = list(dict.fromkeys(own))
    found = {title: _COLOURS[place % len(_COLOURS)] for place, title in enumerate(distinct)}
    return found | {titles[name]: found[titles[other]] for name, other in dashed.items()}


def legend_beside() -> dict[str, Any]:
    """Where a legend stands: to the right of its axes, over no data."""
    return {
        "loc": "center left",
        "bbox_to_anchor": (1.02, 0.5),
        "frameon": False,
        "fontsize": 8,
        "handlelength": 2.8,
    }


def put_title(canvas: Canvas, title: str, note: str) -> None:
    """A title, and below it what lines and marks are, no wider than the canvas."""
    widest = int(canvas.get_figwidth() * _LETTERS_PER_INCH)
    # Lines of about one length, so that no word stands alone.
    even = len(title) // (len(title) // widest + 1) + 10
    lines = textwrap.wrap(title, min(widest, even))
    lines += [part for line in note.splitlines() for part in textwrap.wrap(line, widest)]
    canvas.suptitle("\n".join(lines), fontsize=10)


def save(canvas: Canvas, outputs: list[Path]) -> None:
    """Write a figure to each of `outputs` (.svg, .png), whole or not at all."""
    for output in outputs:
        with write_atomically(output) as temporary:
            metadata = {"Date": None} if output.suffix == ".svg" else None
            canvas.savefig(temporary, dpi=150, metadata=metadata)


def seeds_of(traces: Traces) -> int:
    """How many seeds every run has."""
    first: xr.Dataset = next(iter(next(iter(traces.values())).values()))
    return first.sizes["seed"]
