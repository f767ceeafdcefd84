"""What all figures share: look, colours, rows, legends, titles, files."""

import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Tick
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.text import Text

from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.levels import above_start, diverged, smallest
from fedatlas.evaluation.selection import Choice, Traces, seen_test_rows
from fedatlas.files import write_atomically
from fedatlas.plain_text import printable
from fedatlas.schema.claims import Claim
from fedatlas.schema.figures import Figure
from fedatlas.schema.runs import Selection

# Okabe and Ito's palette, for any colour vision and print; then three of Tol's muted colours.
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
    "svg.hashsalt": "fedatlas",  # equal figures give equal files
    "svg.fonttype": "path",
}
MARKERS = "osD^vP*"
DOTS_PER_INCH = 150
_LETTERS_PER_INCH = 13  # in a title


@dataclass(frozen=True)
class Shown:
    """What an experiment's figure shows.

    run_titles: run → title. traces: run → point → trace. chosen: run → its chosen point. rule: by
    which it was chosen. claims: whose slopes are drawn.
    """

    figure: Figure
    run_titles: Mapping[str, str]
    traces: Traces
    chosen: Mapping[str, Choice]
    rule: Selection = field(default_factory=Selection)
    claims: tuple[Claim, ...] = ()
    published: frozenset[str] = frozenset()

    def chosen_trace(self, run: str) -> xr.Dataset:
        """A run's trace at its chosen point."""
        return self.traces[run][self.chosen[run].point]

    def seeds(self, spread: str = "") -> str:
        """How many seeds each run has, and which points saw test rows.

        spread: what is drawn of several seeds.
        """
        chosen = any(choice.effort.tried > 1 for choice in self.chosen.values())
        by = seen_test_rows(self.rule.measurement)
        every = self.figure.kind == "convergence" and self.figure.points == "all"
        points = f"; points chosen{by}" if by and chosen and not every else ""
        sizes = {one.sizes["seed"] for points in self.traces.values() for one in points.values()}
        if max(sizes) == 1:
            return f"one seed{points}"
        told = f"{min(sizes)} to {max(sizes)}" if len(sizes) > 1 else max(sizes)
        return f"{spread}{told} seeds{points}"


def colours(titles: Mapping[str, str], dashed: Mapping[str, str]) -> dict[str, str]:
    """Title → colour, in the order of titles.

    titles: run or group → title. dashed: run or group → the one whose colour it takes.
    """
    places = _places(titles, dashed)
    return {title: _COLOURS[place % len(_COLOURS)] for title, place in places.items()}


def colour_rounds(titles: Mapping[str, str], dashed: Mapping[str, str]) -> dict[str, int]:
    """Title → how often all colours were used before: what `colours` gives is not distinct."""
    places = _places(titles, dashed)
    return {title: place // len(_COLOURS) for title, place in places.items()}


def _places(titles: Mapping[str, str], dashed: Mapping[str, str]) -> dict[str, int]:
    """Title → its place in the order of colours."""
    own = dict.fromkeys(title for name, title in titles.items() if name not in dashed)
    found = {title: place for place, title in enumerate(own)}
    return found | {titles[name]: found[titles[other]] for name, other in dashed.items()}


def row_title(figure: Figure, trace: xr.Dataset, run_title: str) -> str:
    """The row in which the figure shows a trace; empty if it has one row only."""
    if figure.rows == "effective_step_size":
        return f"effective step {trace.attrs['effective_step_size']:g}"
    if figure.rows == "partition":
        clients = json.loads(trace.attrs["specification"])["partition"]["clients"]
        return f"{clients if isinstance(clients, int) else ' + '.join(map(str, clients))} clients"
    return run_title if figure.rows == "run" else ""


def format_hyper_parameters(values: Mapping[str, Any]) -> str:
    """Hyper-parameters by name with their values, in words."""
    return ", ".join(_told(name.replace("_", " "), value) for name, value in values.items())


def _told(name: str, value: Any) -> str:
    if value is None:
        return f"no {name}"
    return f"{name} {f'{value:g}' if isinstance(value, float) else value}"


def legend_beside(place: Axes, handles: list[Line2D]) -> None:
    """A legend to the right of its axes."""
    place.legend(
        handles=handles,
        loc="center left",
        bbox_to_anchor=(1.02, 0.5),
        frameon=False,
        fontsize=8,
        handlelength=2.8,
    )


def legend_below(canvas: Canvas, handles: list[Line2D], columns: int) -> None:
    """A legend below all axes."""
    canvas.legend(
        handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=8
    )


def put_title(canvas: Canvas, title: str, note: str) -> None:
    """A title with a note below it, no wider than the canvas."""
    widest = int(canvas.get_figwidth() * _LETTERS_PER_INCH)
    # Lines of about equal length leave no word alone.
    even = len(title) // (len(title) // widest + 1) + 10
    lines = textwrap.wrap(title, min(widest, even))
    lines += [part for line in note.splitlines() for part in textwrap.wrap(line, widest)]
    canvas.suptitle("\n".join(lines), fontsize=10)


def as_written(canvas: Canvas) -> Canvas:
    """The figure with its texts as they are: no formula between dollars, no control characters.

    Numbers at ticks may be formulas; words there need `parse_math=False` and `printable`.
    """
    numbers = {label for tick in canvas.findobj(Tick) for label in (tick.label1, tick.label2)}
    for words in set(canvas.findobj(Text)) - numbers:
        words.set_parse_math(False)
        words.set_text(printable(words.get_text()))
    return canvas


def draw(outputs: list[Path], compose: Callable[..., Canvas], *content: Any) -> None:
    """Compose a figure in the common look; write it to each output (.svg, .png), whole or not."""
    with matplotlib.rc_context(STYLE):
        canvas = as_written(compose(*content))
        for output in outputs:
            with write_atomically(output) as temporary:
                metadata = {"Date": None} if output.suffix == ".svg" else None
                canvas.savefig(temporary, dpi=DOTS_PER_INCH, metadata=metadata)


def format_floor(measurement: str) -> str:
    """What a title says where values below what a measurement is known to are drawn there."""
    floor = f"{smallest(measurement):.0e}"
    return f"values below {floor} are drawn at {floor}: below it they are not told apart"


def lost_note(trace: Trace) -> str:
    """A label's lines about seeds that diverged, or end above their start; empty without any."""
    gone = diverged(trace)
    worse = above_start(trace)[:, -1] & ~gone
    told = {"diverged": gone, "end above the start": worse}
    return "".join(
        f"\n{of.sum()} of {len(of)} seeds {what}" for what, of in told.items() if of.any()
    )
