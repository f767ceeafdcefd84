"""The common style of figures: look, colours, rows, legends, titles, files.

matplotlib is imported when something is drawn, as plans read the keys of figures.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import above_start, diverged, smallest
from fedatlas.evaluation.selection import Choice, Traces, choices, seen_test_rows
from fedatlas.figures.colours import Look, looks
from fedatlas.files import write_atomically
from fedatlas.plain_text import printable
from fedatlas.schema.claims import Claim
from fedatlas.schema.figures import Figure
from fedatlas.schema.models import read_json, validated
from fedatlas.schema.quantities import axis
from fedatlas.schema.runs import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

    from fedatlas.evaluation.levels import Trace

DASHED = (0, (4, 1.5))
STYLE: Any = {
    "font.size": 9,
    "legend.fontsize": 9,
    "axes.titlesize": 9.5,
    "figure.titlesize": 10.5,
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
#: Inches of a figure: 900 pixels on the site and in a README, where its smallest letters have 11.
WIDEST = 9.4
MOST_CURVES = 8  # of a panel; more are spread over several
_LEAST_PANEL, _LEAST_HEIGHT = 2.7, 1.7  # inches of a panel with its labels
_ROOM_OF_TITLE = 0.35  # inches
_LETTERS_PER_INCH = 13  # of 10 points
_NARROW = 4.5  # inches
_ROOM_OF_LINE = 0.6  # inches of a legend beside its texts
_LETTERS_OF_LINE = 6  # of which its line takes the room
_CAPTION = 8.5  # points
_SMALLEST_TITLE = 9.0  # points
_EDGE = 0.08  # inches around captions and legends
_LETTERS_BESIDE = 36  # of a line of a legend beside panels
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

    def looks(self, dashed: Mapping[str, str] | None = None) -> dict[str, Look]:
        """Title → look of its runs. dashed: run → the one whose look it takes."""
        dashed = dashed or {}
        methods: dict[str, str] = {}
        for run, points in self.traces.items():
            if run not in dashed:
                methods.setdefault(self.run_titles[run], method_of(points, self.run_titles[run]))
        found = looks(methods)
        partners = {run: self.run_titles[other] for run, other in dashed.items()}
        return found | {self.run_titles[run]: found[title] for run, title in partners.items()}

    def seeds(
        self, spread: str = "", *, every_point: bool = False, drawn: Iterable[Trace] | None = None
    ) -> str:
        """How many seeds each run has, and whether points were chosen on test rows.

        spread: what is drawn of several seeds. every_point: whether no choice is shown. drawn: only
        these traces, and of their seeds those that did not diverge.
        """
        chosen = any(choice.effort.tried > 1 for choice in self.chosen.values())
        by = seen_test_rows(self.rule.measurement)
        points = f"; points chosen{by}" if by and chosen and not every_point else ""
        sizes = {one.sizes["seed"] for points in self.traces.values() for one in points.values()}
        if drawn is not None:
            sizes = {int((~diverged(one)).sum()) for one in drawn} - {0} or {0}
        if max(sizes) == 1:
            return f"one seed{points}"
        told = f"{min(sizes)} to {max(sizes)}" if len(sizes) > 1 else max(sizes)
        return f"{spread}{told} seeds{points}"


def method_of(points: Mapping[str, Trace], title: str) -> str:
    """The method of a run; the run's title where its traces do not say it."""
    return next(
        (str(one.attrs["algorithm"]) for one in points.values() if "algorithm" in one.attrs), title
    )


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


def cost_label(cost: str, traces: Iterable[Trace]) -> str:
    """The label of an axis; what exchanges of parties are is said where such runs are shown."""
    parties = any("update_epoch" in trace for trace in traces)
    return axis("round" if cost == "exchanges" and not parties else cost).label


def format_hyper_parameters(values: Mapping[str, Any]) -> str:
    """Hyper-parameters by name with their values, in words."""
    told = []
    for name, value in values.items():
        words = name.replace("_", " ")
        shown = f"{value:g}" if isinstance(value, float) else value
        told.append(f"no {words}" if value is None else f"{words} {shown}")
    return ", ".join(told)


def new_canvas(width: float, height: float) -> Canvas:
    """An empty figure of so many inches, no wider than pages show.

    A style of the user's that says how large figures are has its way.
    """
    from matplotlib.figure import Figure as Canvas

    size = _asked_size() or (min(width, WIDEST), height)
    return Canvas(figsize=size, layout="constrained")


def new_panels(
    panels: int, height: float, columns: int = 0, **shared: Any
) -> tuple[Canvas, Sequence[Axes]]:
    """A figure of so many panels in rows of about equal length, and its axes.

    height: of a panel, inches. columns: that belong side by side, if they have the room; by default
    as many as have it. shared: axes, as `Figure.subplots` takes them.
    """
    asked = _asked_size()
    most = max(1, int((asked[0] if asked else WIDEST) / _LEAST_PANEL))
    rows = -(-panels // min(columns or panels, most))
    across = columns if 0 < columns <= most else -(-panels // rows)
    canvas = new_canvas(WIDEST, _ROOM_OF_TITLE + rows * height)
    if asked:
        canvas.set_figheight(max(canvas.get_figheight(), rows * min(height, _LEAST_HEIGHT)))
    places = canvas.subplots(rows, across, squeeze=False, **shared).ravel()
    for place in places[panels:]:
        place.set_axis_off()
    return canvas, places[:panels]


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
    """Put a legend to the right of the only panel of its row."""
    for one in handles:
        one.set_label(_wrapped(str(one.get_label()), _LETTERS_BESIDE))
    place.legend(handles=handles, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)


def _wrapped(told: str, widest: int) -> str:
    return "\n".join(textwrap.fill(printable(line), widest) for line in told.splitlines())


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


def finish(canvas: Canvas, title: str, note: str, handles: Sequence[Line2D] = ()) -> None:
    """Put a title of one line above all panels, and below them a legend and the note as a caption.

    The note, a line for each thing it says, is the canvas's label, too. A narrow figure of a paper
    leaves it to the paper's caption. The figure grows by what stands below its panels.
    """
    width, height, size = *canvas.get_size_inches(), _points("figure.titlesize")
    if len(title) > letters_within(width, _SMALLEST_TITLE) and " — " in title:
        title, _, source = title.rpartition(" — ")
        note = f"{source}\n{note}"
    canvas.set_label(note)
    if is_narrow(canvas):
        title = textwrap.fill(title, letters_within(width, size))
    elif title:
        size = max(_SMALLEST_TITLE, min(size, 10 * _LETTERS_PER_INCH * width / len(title)))
    if title:
        canvas.suptitle(title, fontsize=size)
    caption, legend, below = None, None, _EDGE
    if note and not (_asked_size() and is_narrow(canvas)):
        told = ". ".join(_capital(line) for line in note.splitlines()) + "."
        lines = textwrap.wrap(told, letters_within(width - 2 * _EDGE, _CAPTION))
        look: Any = {"fontsize": _CAPTION, "color": "0.25", "va": "bottom", "linespacing": 1.25}
        caption = canvas.text(_EDGE / width, 0, "\n".join(lines), **look)
        below += len(lines) * 1.25 * _CAPTION / 72 + _EDGE
    at = below
    if handles:
        legend = _legend_below(canvas, list(handles))
        below += legend.get_window_extent().height / canvas.get_dpi() + _EDGE
    # A user's own size holds, but for a column's: its width leaves no other room.
    whole = height if _asked_size() and not is_narrow(canvas) else height + below
    canvas.set_figheight(whole)
    if caption is not None:
        caption.set_y(_EDGE / whole)
    if legend is not None:
        legend.set_bbox_to_anchor((0.5, at / whole))
    engine: Any = canvas.get_layout_engine()
    engine.set(rect=(0, below / whole, 1, 1 - below / whole))


def _capital(told: str) -> str:
    """With a capital letter; a Greek one means something else, and stays."""
    return told[:1].upper() + told[1:] if told[:1].isascii() else told


def _legend_below(canvas: Canvas, handles: list[Line2D]) -> Legend:
    """A legend of as few lines as its width allows."""
    width = canvas.get_figwidth()
    widest = letters_within(width - _ROOM_OF_LINE, _points("legend.fontsize"))
    for one in handles:
        one.set_label(_wrapped(str(one.get_label()), widest))
    longest = max(len(line) for one in handles for line in str(one.get_label()).splitlines())
    room = letters_within(width, _points("legend.fontsize"))
    columns = min(len(handles), 1 + room // (longest + _LETTERS_OF_LINE))
    while True:
        rows = -(-len(handles) // columns)
        legend = canvas.legend(
            handles=handles, ncols=-(-len(handles) // rows), loc="lower center",
            frameon=False, borderaxespad=0, borderpad=0,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)
        if columns == 1 or legend.get_window_extent().width < (width - _EDGE) * canvas.get_dpi():
            return legend
        legend.remove()
        columns -= 1


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
