"""Maps over declared networks: one run's time over another's, and how time falls with parties.

A cell is a network. Its number is the median over seeds, its mark the outcome of the same test that
claims are judged by.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.compared import ComparisonTest
from fedatlas.evaluation.claims.slope import LINEAR_POWER, SlopeTest
from fedatlas.evaluation.costs import specification
from fedatlas.evaluation.evidence import MARKS
from fedatlas.evaluation.results import Results
from fedatlas.federations.vertical.machines import slowdown_of
from fedatlas.figures.style import Shown, legend_below, put_title
from fedatlas.schema.claims import CaseOutcome, Outcome
from fedatlas.schema.network_model import LognormalTimes, NetworkModel
from fedatlas.schema.partitions import VerticalPartition
from fedatlas.schema.quantities import LARGER_IS_BETTER, MEASUREMENTS

_WIDTH, _HEIGHT = 0.62, 0.5  # inches of a cell
_OUTLINE: Any = {"color": "black", "lw": 2.2, "solid_capstyle": "projecting"}
_PALE = 0.6  # of the shade above which letters are white


@dataclass(frozen=True)
class _Place:
    """Where on the map a run lies.

    latency: over the time that one feature takes. spread: standard deviation of the log of times.
    straggler: in words.
    """

    parties: int
    straggler: str
    latency: float
    spread: float

    @property
    def network(self) -> tuple[str, float, float]:
        """Without the number of parties."""
        return self.straggler, self.latency, self.spread


@dataclass(frozen=True)
class _Cell:
    """value: a ratio, or an exponent; NaN where it is unknown."""

    value: float
    outcome: Outcome


@dataclass(frozen=True)
class _Row:
    """Panels side by side, one for each straggler: a map of ratios, or of exponents.

    parties: whose cells are shown. outlined: networks on which the sentence is declared to hold.
    """

    name: str
    parties: int
    cells: Mapping[_Place, _Cell]
    is_ratio: bool
    outlined: frozenset[tuple[str, float, float]]


def compose(title: str, shown: Shown) -> Canvas:
    """A row of panels for each number of parties, and one for the exponent if there are several.

    Columns are stragglers; across is the latency, up the spread of times.
    """
    results = Results(shown.traces, shown.chosen, shown.rule.window)
    places = {run: _place(specification(shown.chosen_trace(run))) for run in shown.figure.pairs}
    ratios = {
        places[run]: _ratio(_only(_pair_test(shown, run, other).judge(results)))
        for run, other in shown.figure.pairs.items()
    }
    exponents = _exponents(shown, places, results)
    rows = _rows(shown, places, ratios, exponents)
    stragglers = list(dict.fromkeys(place.straggler for place in places.values()))
    across = sorted({place.latency for place in places.values()})
    up = sorted({place.spread for place in places.values()})
    canvas = Canvas(
        figsize=(
            max(len(stragglers) * (_WIDTH * len(across) + 0.4) + 1.8, 6.0),
            len(rows) * (_HEIGHT * len(up) + 0.55) + 1.5,
        ),
        layout="constrained",
    )
    axes = canvas.subplots(len(rows), len(stragglers), squeeze=False, sharex=True, sharey=True)
    furthest = _furthest(ratios.values())
    for row, panels in zip(rows, axes, strict=True):
        _draw_row(canvas, panels, row, stragglers, across, up, furthest)
    for panel in axes[-1]:
        panel.set_xlabel("latency / time of one feature")
    for panel in axes[:, 0]:
        panel.set_ylabel("spread of times")
    found = {cell.outcome for cell in (*ratios.values(), *exponents.values())}
    handles = [
        Line2D([], [], ls="", label=f"{mark} {outcome}")
        for outcome, mark in MARKS.items()
        if outcome in found
    ]
    if shown.figure.outlined:
        handles.append(Line2D([], [], **_OUTLINE, label="declared to hold here"))
    legend_below(canvas, handles, columns=min(len(handles), 5))
    put_title(canvas, title, _note(shown, bool(exponents)))
    return canvas


def _rows(
    shown: Shown,
    places: Mapping[str, _Place],
    ratios: Mapping[_Place, _Cell],
    exponents: Mapping[_Place, _Cell],
) -> list[_Row]:
    """From few parties to many, then the exponents if there are any."""
    declared: dict[str, frozenset[tuple[str, float, float]]] = {
        kind: frozenset(places[run].network for run in runs)
        for kind, runs in shown.figure.outlined.items()
    }
    numbers = sorted({place.parties for place in places.values()})
    outlined = declared.get("ratios", frozenset())
    rows = [_Row(f"{count} parties", count, ratios, True, outlined) for count in numbers]
    if exponents:
        name, outlined = (
            f"{numbers[0]} to {numbers[-1]} parties",
            declared.get("exponents", frozenset()),
        )
        rows.append(_Row(name, numbers[0], exponents, False, outlined))
    return rows


def _furthest(cells: Iterable[_Cell]) -> float:
    """The largest |log2| of the ratios, and no less than 0.1: the end of their colours."""
    return max([0.1, *(abs(np.log2(cell.value)) for cell in cells if np.isfinite(cell.value))])


def _draw_row(
    canvas: Canvas,
    panels: Sequence[Axes],
    row: _Row,
    stragglers: Sequence[str],
    across: Sequence[float],
    up: Sequence[float],
    furthest: float,
) -> None:
    """The maps of one row, and the bar of their colours."""
    drawn: Any = None
    for where, straggler in zip(panels, stragglers, strict=True):
        cells = {
            (place.spread, place.latency): cell
            for place, cell in row.cells.items()
            if place.parties == row.parties and place.straggler == straggler
        }
        grid = np.array(
            [[cells[y, x].value if (y, x) in cells else np.nan for x in across] for y in up]
        )
        drawn = where.imshow(
            np.log2(grid) if row.is_ratio else grid,
            origin="lower",
            aspect="auto",
            cmap="RdBu_r" if row.is_ratio else "cividis",
            norm=TwoSlopeNorm(0.0, -furthest, furthest) if row.is_ratio else Normalize(0.0, 1.2),
        )
        _write(where, cells, across, up, drawn)
        part = [[(straggler, x, y) in row.outlined for x in across] for y in up]
        _outline(where, np.array(part))
        where.set_title(f"{row.name}, {straggler}", fontsize=8)
        where.set_xticks(range(len(across)), [f"{x:g}" for x in across])
        where.set_yticks(range(len(up)), [f"{y:g}" for y in up])
        where.grid(False)
    bar = canvas.colorbar(drawn, ax=list(panels), aspect=12)
    if row.is_ratio:
        bar.set_label("ratio of times")
        ticks = np.linspace(-furthest, furthest, 5)
        bar.set_ticks(ticks.tolist(), labels=[f"{2**tick:.2g}" for tick in ticks])
    else:
        bar.set_label("exponent of speed-up")


def _note(shown: Shown, has_exponents: bool) -> str:
    figure = shown.figure
    sign = "≥" if figure.measurement in LARGER_IS_BETTER else "≤"
    level = MEASUREMENTS[figure.measurement].long_name
    first, second = next(iter(figure.pairs.items()))
    titles = shown.run_titles
    note = (
        f"simulated time to {level} {sign} {figure.target:g} of {titles[first]} over that of "
        f"{titles[second]}, median of {shown.seeds()}; marks: is it surely faster"
    )
    return f"{note}; below: is its speed-up near linear" if has_exponents else note


def _place(spec: Mapping[str, Any]) -> _Place:
    """Of a run's specification; FedatlasError if the figure has no axis for its times."""
    network = NetworkModel.model_validate(spec["network"] or {})
    partition = VerticalPartition.model_validate(spec["partition"])
    law = network.compute
    if law.kind not in ("constant", "lognormal"):
        raise FedatlasError(
            f"figure: kind region shows constant and lognormal times, not {law.kind}"
        )
    return _Place(
        partition.parties,
        _straggler(network, partition),
        round(network.latency / network.seconds_per_feature, 9),
        law.spread if isinstance(law, LognormalTimes) else 0.0,
    )


def _straggler(network: NetworkModel, partition: VerticalPartition) -> str:
    """In words, with its place and how much slower it is."""
    slowdown = slowdown_of(network, partition.parties)
    if slowdown.max() == 1:
        return "no straggler"
    role = "a dominator" if slowdown.argmax() < partition.active else "a passive party"
    return f"{role} {slowdown.max():g}× slower"


def _pair_test(shown: Shown, run: str, other: str) -> ComparisonTest:
    return ComparisonTest(
        kind="cost_to_target",
        first=run,
        second=other,
        relation="faster",
        cost="simulated_time",
        measurement=shown.figure.measurement,
        target=shown.figure.target,
    )


def _exponents(shown: Shown, places: Mapping[str, _Place], results: Results) -> dict[_Place, _Cell]:
    """Of every network on which there are runs with several numbers of parties."""
    series: dict[tuple[str, float, float], dict[int, str]] = {}
    for run, place in places.items():
        of = series.setdefault(place.network, {})
        of[place.parties] = run
    found = {}
    for runs in series.values():
        if len(runs) < 2:
            continue
        rising = tuple(runs[count] for count in sorted(runs))
        test = SlopeTest(
            kind="scaling",
            series=rising,
            measurement=shown.figure.measurement,
            target=shown.figure.target,
        )
        finding = _only(test.judge(results))
        # The effect is by how much the slope is lower than that of linear speed-up.
        lower = np.nan if finding.effect is None else finding.effect.estimate
        found[places[rising[0]]] = _Cell(lower - LINEAR_POWER, finding.outcome)
    return found


def _ratio(finding: CaseOutcome) -> _Cell:
    ahead = np.nan if finding.effect is None else finding.effect.estimate
    return _Cell(10.0**-ahead if np.isfinite(ahead) else np.nan, finding.outcome)


def _only(findings: Any) -> CaseOutcome:
    (finding,) = findings
    return finding


def _write(
    where: Axes,
    panel: Mapping[tuple[float, float], _Cell],
    across: Sequence[float],
    up: Sequence[float],
    drawn: Any,
) -> None:
    """The number and the mark of every cell, legible on its colour."""
    for (y, x), cell in sorted(panel.items(), key=lambda item: item[0]):
        told = "–" if np.isnan(cell.value) else f"{cell.value:.2f}"
        shade = drawn.get_array()[up.index(y), across.index(x)]
        red, green, blue, _ = drawn.cmap(drawn.norm(shade))
        light = 0.299 * red + 0.587 * green + 0.114 * blue
        where.text(
            across.index(x),
            up.index(y),
            f"{told}\n{MARKS[cell.outcome]}",
            ha="center",
            va="center",
            fontsize=7,
            color="black" if light > _PALE or np.isnan(cell.value) else "white",
        )


def _outline(where: Axes, part: np.ndarray) -> None:
    """Draw the border of the cells (rows, columns) that are true; the edge of the map is one."""
    inside = np.pad(part, 1)
    for y, x in zip(*np.nonzero(inside), strict=True):
        low, left = y - 1.5, x - 1.5  # of the cell, without the padding
        for dy, dx, ys, xs in (
            (-1, 0, (low, low), (left, left + 1)),
            (1, 0, (low + 1, low + 1), (left, left + 1)),
            (0, -1, (low, low + 1), (left, left)),
            (0, 1, (low, low + 1), (left + 1, left + 1)),
        ):
            if not inside[y + dy, x + dx]:
                where.plot(xs, ys, **_OUTLINE, scalex=False, scaley=False, clip_on=False)
