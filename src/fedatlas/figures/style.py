"""What all figures share: look, colours, rows, legends, titles, files.

matplotlib is imported when something is drawn, as plans read the keys of figures.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import above_start, diverged, smallest
from fedatlas.evaluation.selection import Choice, Traces, choices, seen_test_rows
from fedatlas.files import write_atomically
from fedatlas.plain_text import printable
from fedatlas.schema.claims import Claim
from fedatlas.schema.figures import Figure
from fedatlas.schema.models import read_json, validated
from fedatlas.schema.runs import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    from fedatlas.evaluation.levels import Trace

# Okabe and Ito's palette, for any colour vision and print; then Tol's muted colours.
_COLOURS = [
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#882255", "#999933", "#AAAAAA", "#332288", "#117733", "#CC6677", "#44AA99"),
    *("#661100", "#DDCC77"),
]
DASHED = (0, (4, 1.5))
STYLE: Any = {
    "font.size": 9,
    "legend.fontsize": 8,
    "figure.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "fedatlas",  # equal figures give equal files
    "svg.fonttype": "path",
    "pdf.fonttype": 42,  # fonts within, as journals ask for
}
MARKERS = "osD^vP*"
#: What curves and the bands around them are, before the number of seeds.
BANDS = "lines: median, bands: range of "
DOTS_PER_INCH = 150
_LETTERS_PER_INCH = 13  # in a title of 10 points
_NARROW = 4.5  # inches
_ROOM_OF_LINE = 0.6  # inches of a legend beside its texts
#: By name, besides files of the user's.
STYLES = {"column": Path(__file__).with_name("column.mplstyle")}
# How many times its lowest value a short logarithmic axis reaches, and ticks between powers of ten.
_TICKS = {6: (1.0, 2.0, 3.0, 4.0, 6.0, 8.0), 50: (1.0, 2.0, 5.0)}
_MOST_TICKS = 12


@dataclass(frozen=True)
class Shown:
    """The results that an experiment's figure shows.

    run_titles: run → title. traces: run → point → trace. chosen: run → its tuned configuration.
    rule: by which it was chosen. claims: whose slopes are drawn. published: runs that are.
    """

    run_titles: Mapping[str, str]
    traces: Traces
    chosen: Mapping[str, Choice]
    rule: Selection = field(default_factory=Selection)
    claims: tuple[Claim, ...] = ()
    published: frozenset[str] = frozenset()

    @property
    def titles(self) -> dict[str, str]:
        """The titles of runs that have traces."""
        return {run: self.run_titles[run] for run in self.traces}

    def chosen_trace(self, run: str) -> Trace:
        """A run's trace at its tuned configuration."""
        return self.traces[run][self.chosen[run].point]

    def seeds(self, spread: str = "", *, every_point: bool = False) -> str:
        """How many seeds each run has, and whether points were chosen on test rows.

        spread: what is drawn of several seeds. every_point: whether no choice is shown.
        """
        chosen = any(choice.effort.tried > 1 for choice in self.chosen.values())
        by = seen_test_rows(self.rule.measurement)
        points = f"; points chosen{by}" if by and chosen and not every_point else ""
        sizes = {one.sizes["seed"] for points in self.traces.values() for one in points.values()}
        if max(sizes) == 1:
            return f"one seed{points}"
        told = f"{min(sizes)} to {max(sizes)}" if len(sizes) > 1 else max(sizes)
        return f"{spread}{told} seeds{points}"


def colours(
    titles: Iterable[str] | Mapping[str, str], dashed: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Title → colour, in the order of titles.

    titles: of runs or groups, by name where some are dashed. dashed: run or group → the one whose
    colour it takes.
    """
    places = _places(titles, dashed or {})
    return {title: _COLOURS[place % len(_COLOURS)] for title, place in places.items()}


def colour_rounds(titles: Mapping[str, str], dashed: Mapping[str, str]) -> dict[str, int]:
    """Title → how often all colours were used before: what `colours` gives is not distinct."""
    places = _places(titles, dashed)
    return {title: place // len(_COLOURS) for title, place in places.items()}


def _places(titles: Iterable[str] | Mapping[str, str], dashed: Mapping[str, str]) -> dict[str, int]:
    """Title → its place in the order of colours."""
    by_name = titles if isinstance(titles, Mapping) else {title: title for title in titles}
    own = dict.fromkeys(title for name, title in by_name.items() if name not in dashed)
    found = {title: place for place, title in enumerate(own)}
    return found | {by_name[name]: found[by_name[other]] for name, other in dashed.items()}


def row_title(rows: str, trace: Trace, run_title: str) -> str:
    """The row in which a trace is shown; empty if there is one row only. rows: a figure's key."""
    if rows == "effective_step_size":
        return f"effective step {trace.attrs['effective_step_size']:g}"
    if rows == "partition":
        clients = json.loads(trace.attrs["specification"])["partition"]["clients"]
        return f"{clients if isinstance(clients, int) else ' + '.join(map(str, clients))} clients"
    if rows == "algorithm":
        return str(trace.attrs["algorithm_title"])
    return run_title if rows == "run" else ""


def format_hyper_parameters(values: Mapping[str, Any]) -> str:
    """Hyper-parameters by name with their values, in words."""
    told = []
    for name, value in values.items():
        words = name.replace("_", " ")
        shown = f"{value:g}" if isinstance(value, float) else value
        told.append(f"no {words}" if value is None else f"{words} {shown}")
    return ", ".join(told)


def new_canvas(width: float, height: float) -> Canvas:
    """An empty figure; inches, unless a style of the user's says how large figures are."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=_asked_size() or (width, height), layout="constrained")


def _asked_size() -> Any:
    """Inches that a style of the user's says; None without one."""
    from matplotlib import rcParams, rcParamsDefault

    asked = rcParams["figure.figsize"]
    return None if asked == rcParamsDefault["figure.figsize"] else asked


def entry(label: str, **look: Any) -> Line2D:
    """An entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **look)


def is_narrow(canvas: Canvas) -> bool:
    """Whether a figure has no room for panels, legends and notes beside each other."""
    return bool(canvas.get_figwidth() < _NARROW)


def letters_within(inches: float, points: float) -> int:
    """How many letters of a size fit into a width."""
    return int(inches * _LETTERS_PER_INCH * 10 / points)


def legend_beside(place: Axes, handles: list[Line2D]) -> None:
    """Put a legend to the right of its axes; of a narrow figure below all, no wider than it."""
    canvas = place.get_figure(root=True)
    if canvas is not None and is_narrow(canvas):
        widest = letters_within(canvas.get_figwidth() - _ROOM_OF_LINE, _points("legend.fontsize"))
        for one in handles:
            lines = str(one.get_label()).splitlines()
            one.set_label("\n".join(textwrap.fill(line, widest) for line in lines))
        legend_below(canvas, handles, columns=1)
        return
    place.legend(
        handles=handles,
        loc="center left",
        bbox_to_anchor=(1.02, 0.5),
        frameon=False,
        handlelength=2.8,
    )


def legend_below(canvas: Canvas, handles: list[Line2D], columns: int) -> None:
    """Put a legend below all axes."""
    canvas.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)


def tick_plainly(axis: Axis, values: Iterable[float] = ()) -> None:
    """Label ticks as plain numbers, and put them at these values alone if there are any."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if places := list(values):
        axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def tick_decades(place: Axes) -> None:
    """Label a vertical logarithmic axis plainly, between powers of ten, too, where it is short."""
    from matplotlib.ticker import LogLocator

    low, high = place.get_ylim()
    subs = next((subs for times, subs in _TICKS.items() if high < times * low), None)
    if subs is not None:
        tick_plainly(place.yaxis)
        place.yaxis.set_major_locator(LogLocator(subs=subs, numticks=_MOST_TICKS))


def put_title(canvas: Canvas, title: str, note: str) -> None:
    """Put a title with a note below it, no wider than the canvas.

    The note is the canvas's label, too. A narrow one of a paper leaves it to the caption.
    """
    canvas.set_label(note)
    size = _points("figure.titlesize")
    widest = letters_within(canvas.get_figwidth(), size)
    # Lines of about equal length leave no word alone.
    even = len(title) // (len(title) // widest + 1) + 10
    lines = textwrap.wrap(title, min(widest, even))
    told = () if _asked_size() and is_narrow(canvas) else note.splitlines()
    lines += [part for line in told for part in textwrap.wrap(line, widest)]
    if lines:
        canvas.suptitle("\n".join(lines), fontsize=size)


def _points(key: Literal["figure.titlesize", "legend.fontsize"]) -> float:
    """The size of letters that the style says."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=rcParams[key]).get_size_in_points())


def as_written(canvas: Canvas) -> Canvas:
    """The figure with its texts as they are: no formula between dollars, no control characters.

    Numbers at ticks may be formulas; words there need `parse_math=False` and `printable`.
    """
    from matplotlib.axis import Tick
    from matplotlib.text import Text

    numbers = {label for tick in canvas.findobj(Tick) for label in (tick.label1, tick.label2)}
    for words in set(canvas.findobj(Text)) - numbers:
        words.set_parse_math(False)
        words.set_text(printable(words.get_text()))
    return canvas


@contextmanager
def look(style: Path | str = "") -> Iterator[None]:
    """The common look within, and then what a style of matplotlib says: its file or name."""
    import matplotlib
    from matplotlib import style as styles

    with matplotlib.rc_context(STYLE):
        try:
            if style:
                styles.use(STYLES.get(str(style), style))
        except OSError:
            raise FedatlasError(
                f"style: '{style}' is no file of matplotlib's and no style; there is 'column', and "
                "those that matplotlib.style.available names"
            ) from None
        yield


def draw(outputs: list[Path], compose: Callable[..., Canvas], *content: Any) -> None:
    """Compose a figure in the common look; write it to each output, by its ending, whole or not."""
    with look():
        canvas = as_written(compose(*content))
        for output in outputs:
            with write_atomically(output) as temporary:
                dated = {".svg": "Date", ".pdf": "CreationDate"}.get(output.suffix)
                metadata = {dated: None} if dated else None
                canvas.savefig(temporary, dpi=DOTS_PER_INCH, metadata=metadata)


def draw_figure(
    title: str,
    figure: Figure,
    runs: dict[str, str],
    traces: Path,
    selection: Path,
    output: list[Path],
    claims: list[Claim] = [],  # noqa: B006
) -> None:
    """Draw an experiment's figure. runs: with titles. claims: whose slopes it has."""
    from fedatlas.store.experiment import read_runs

    record = read_json(selection)
    rule = validated(Selection, record.get("rule"), f"{selection}: key 'rule'")
    shown = Shown(runs, read_runs(traces), choices(record), rule, tuple(claims))
    draw(output, figure.compose, title, shown)


def format_floor(measurement: str) -> str:
    """Where values below what a measurement is known to are drawn, for a title."""
    floor = f"{smallest(measurement):.0e}"
    return f"values below {floor} are drawn at {floor}: below it they are not told apart"


def lost_note(trace: Trace) -> str:
    """Lines of a label about seeds that diverged, or end above their start; empty without any."""
    gone = diverged(trace)
    worse = above_start(trace)[:, -1] & ~gone
    told = {"diverged": gone, "end above the start": worse}
    return "".join(
        f"\n{of.sum()} of {len(of)} seeds {what}" for what, of in told.items() if of.any()
    )
