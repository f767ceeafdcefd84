"""Maps over declared networks: one run's time over another's, and how time falls with parties.

A cell is a network. Its number is the median over seeds, its mark the outcome of the same test that
claims are judged by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.compared import ComparisonTest
from fedatlas.evaluation.claims.slope import LINEAR_POWER, SlopeTest
from fedatlas.evaluation.evidence import MARKS
from fedatlas.evaluation.levels import specification
from fedatlas.evaluation.results import Results, judged
from fedatlas.figures.style import Shown, entry, finish, new_canvas
from fedatlas.schema.claims import CaseOutcome, ClaimTest, Outcome
from fedatlas.schema.figures import Figure
from fedatlas.schema.network_model import LognormalTimes, NetworkModel
from fedatlas.schema.partitions import VerticalPartition
from fedatlas.schema.quantities import LARGER_IS_BETTER, MEASUREMENTS, Level, check_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_WIDTH, _HEIGHT = 0.62, 0.55  # inches of a cell
_FULL = 1.0  # |log2| that the colours of ratios reach at least: from half to twice
_OUTLINE: Any = {"ec": "black", "fc": "none", "lw": 1.6}
_PALE = 0.6  # of the shade above which letters are white


class RegionFigure(Figure):
    """Maps over networks of one run's time over another's, and of speed-up.

    measurement, target: to which the time is taken.
    pairs: run → the run with which its time is compared, on the same network.
    outlined: where a claim is given to hold, on maps of ratios and of exponents: first runs of
        pairs.
    """

    kind: Literal["region"]
    measurement: Level = "gradient_norm"
    target: PositiveFloat = 1e-3
    pairs: dict[str, str] = Field(min_length=1)
    outlined: dict[Literal["ratios", "exponents"], tuple[str, ...]] = Field(default={})

    @property
    def runs(self) -> tuple[str, ...]:
        return (*self.pairs, *self.pairs.values())

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        for runs in self.outlined.values():
            if unpaired := sorted({*runs} - {*self.pairs}):
                raise ValueError(f"outlined: '{unpaired[0]}' is not the first run of a pair")
        check_target(self, self.measurement, self.target)
        return self

    def compose(self, title: str, shown: Shown) -> Canvas:
        """A row of panels for each number of parties, and one for exponents if there are several.

        Columns are stragglers; across is the latency, up the spread of times.
        """
        results = Results(shown.traces, shown.chosen)
        places = {run: place_of(specification(shown.chosen_trace(run))) for run in self.pairs}
        rows = self._rows(places, results)
        networks = [place.network for place in places.values()]
        grid = _Grid(
            list(dict.fromkeys(network.straggler for network in networks)),
            sorted({network.latency for network in networks}),
            sorted({network.spread for network in networks}),
            max(
                [
                    _FULL,
                    *(abs(np.log2(ratio)) for row in rows if row.is_ratio for ratio in row.known),
                ]
            ),
        )
        columns = len(grid.stragglers)
        canvas = new_canvas(
            max(columns * (_WIDTH * len(grid.across) + 0.4) + 1.8, 6.0),
            len(rows) * (_HEIGHT * len(grid.up) + 0.55) + 0.8,
        )
        axes = canvas.subplots(len(rows), columns, squeeze=False, sharex=True, sharey=True)
        drawn = [_draw_row(panels, row, grid) for row, panels in zip(rows, axes, strict=True)]
        bar = canvas.colorbar(drawn[0], ax=axes, aspect=40, pad=0.02, label="ratio of times")
        ticks = np.linspace(-grid.furthest, grid.furthest, 5)
        bar.set_ticks(ticks.tolist(), labels=[f"{2**tick:.2g}" for tick in ticks])
        for panel in axes[-1]:
            panel.set_xlabel("latency / time of one feature")
        for panel in axes[:, 0]:
            panel.set_ylabel("spread of times")
        found = {cell.outcome for row in rows for cell in row.cells.values()}
        handles = [
            entry(f"{mark} {outcome}", ls="") for outcome, mark in MARKS.items() if outcome in found
        ]
        if self.outlined:
            handles.append(
                entry("declared to hold here", ls="", marker="s", ms=9, mec="black", mfc="none")
            )
        sign = "≥" if self.measurement in LARGER_IS_BETTER else "≤"
        level = MEASUREMENTS[self.measurement].long_name
        first, second = (shown.run_titles[run] for run in next(iter(self.pairs.items())))
        note = (
            f"simulated time to {level} {sign} {self.target:g} of {first} over that of {second}, "
            f"median of {shown.seeds()}\nmarks: is it surely faster"
        )
        if not rows[-1].is_ratio:
            note += (
                "\nlast row: exponents of speed-up, in the colours of what twice as many parties "
                "make of the time\nmarks there: is speed-up near linear"
            )
        finish(canvas, title, note, handles)
        return canvas

    def _rows(self, places: Mapping[str, _Place], results: Results) -> list[_Row]:
        """Ratios from few parties to many, then exponents where parties rise on a network."""
        series: dict[_Network, dict[int, str]] = {}
        for run, (parties, network) in places.items():
            series.setdefault(network, {})[parties] = run
        outlined = {
            kind: {places[run].network for run in runs} for kind, runs in self.outlined.items()
        }
        numbers = sorted({place.parties for place in places.values()})
        rows = []
        for parties in numbers:
            runs = {network: own[parties] for network, own in series.items() if parties in own}
            cells = {network: _ratio(self, run, results) for network, run in runs.items()}
            rows.append(_Row(f"{parties} parties", cells, True, outlined.get("ratios", set())))
        exponents = {
            network: _exponent(self, [own[parties] for parties in sorted(own)], results)
            for network, own in series.items()
            if len(own) > 1
        }
        if exponents:
            name = f"{numbers[0]} to {numbers[-1]} parties"
            rows.append(_Row(name, exponents, False, outlined.get("exponents", set())))
        return rows


class _Network(NamedTuple):
    """straggler: in words. latency: over the time that one feature takes.

    spread: standard deviation of the log of times.
    """

    straggler: str
    latency: float
    spread: float


class _Place(NamedTuple):
    """Where on the map a run lies."""

    parties: int
    network: _Network


class _Cell(NamedTuple):
    """value: a ratio, or an exponent; NaN where it is unknown."""

    value: float
    outcome: Outcome


class _Row(NamedTuple):
    """Panels side by side, one for each straggler: a map of ratios, or of exponents.

    outlined: networks on which the claim is declared to hold.
    """

    name: str
    cells: Mapping[_Network, _Cell]
    is_ratio: bool
    outlined: set[_Network]

    @property
    def known(self) -> list[float]:
        """Finite values."""
        return [cell.value for cell in self.cells.values() if np.isfinite(cell.value)]


class _Grid(NamedTuple):
    """across: latencies. up: spreads. furthest: |log2| of ratios at the end of their colours."""

    stragglers: list[str]
    across: list[float]
    up: list[float]
    furthest: float


def _draw_row(panels: Sequence[Axes], row: _Row, grid: _Grid) -> Any:
    """The maps of one row; returns one of them."""
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.patches import Rectangle

    drawn: Any = None
    across, up, furthest = grid.across, grid.up, grid.furthest
    for where, straggler in zip(panels, grid.stragglers, strict=True):
        networks = [[_Network(straggler, x, y) for x in across] for y in up]
        cells = [[row.cells.get(network) for network in line] for line in networks]
        values = np.array([[cell.value if cell else np.nan for cell in line] for line in cells])
        drawn = where.imshow(
            np.log2(values) if row.is_ratio else -values,
            origin="lower",
            aspect="auto",
            cmap="RdBu_r",
            norm=TwoSlopeNorm(0.0, -furthest, furthest),
        )
        for y, line in enumerate(cells):
            for x, cell in enumerate(line):
                if cell:
                    _write(where, cell, y, x, drawn)
                if networks[y][x] in row.outlined:
                    where.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, **_OUTLINE))
        where.set_title(f"{row.name}, {straggler}", fontsize=9)
        where.set_xticks(range(len(across)), [f"{x:g}" for x in across])
        where.set_yticks(range(len(up)), [f"{y:g}" for y in up])
        where.grid(False)
    return drawn


def place_of(spec: Mapping[str, Any]) -> _Place:
    """The place of a run's specification; FedatlasError if no axis is for its times."""
    from fedatlas.federations.vertical.machines import slowdown_of  # which loads scipy

    network = NetworkModel.model_validate(spec["network"] or {})
    partition = VerticalPartition.model_validate(spec["partition"])
    law = network.compute
    if law.kind not in ("constant", "lognormal"):
        raise FedatlasError(
            f"figure: kind region shows constant and lognormal times, not {law.kind}"
        )
    slowdown, straggler = slowdown_of(network, partition.parties), "no straggler"
    if slowdown.max() != 1:
        role = "a dominator" if slowdown.argmax() < partition.active else "a passive party"
        straggler = f"{role} {slowdown.max():g}× slower"
    spread = law.spread if isinstance(law, LognormalTimes) else 0.0
    latency = round(network.latency / network.seconds_per_feature, 9)
    return _Place(partition.parties, _Network(straggler, latency, spread))


def _ratio(figure: RegionFigure, run: str, results: Results) -> _Cell:
    test = ComparisonTest(
        kind="cost_to_target",
        first=run,
        second=figure.pairs[run],
        relation="faster",
        cost="simulated_time",
        measurement=figure.measurement,
        target=figure.target,
    )
    found, ahead = _judged(test, results)
    return _Cell(10.0**-ahead if np.isfinite(ahead) else np.nan, found.outcome)


def _exponent(figure: RegionFigure, runs: Sequence[str], results: Results) -> _Cell:
    """How time falls along runs of rising numbers of parties."""
    test = SlopeTest(
        kind="scaling", series=tuple(runs), measurement=figure.measurement, target=figure.target
    )
    # The effect is by how much the slope is lower than that of linear speed-up.
    found, lower = _judged(test, results)
    return _Cell(lower - LINEAR_POWER, found.outcome)


def _judged(test: ClaimTest, results: Results) -> tuple[CaseOutcome, float]:
    """What a test of one case finds, and its estimate; NaN without any."""
    (found,) = judged(test, results)
    return found, np.nan if found.effect is None else found.effect.estimate


def _write(where: Axes, cell: _Cell, row: int, column: int, drawn: Any) -> None:
    """The number and the mark of a cell, legible on its colour."""
    red, green, blue, _ = drawn.cmap(drawn.norm(drawn.get_array()[row, column]))
    light = 0.299 * red + 0.587 * green + 0.114 * blue
    told = "–" if np.isnan(cell.value) else f"{cell.value:.2f}".replace("-", "−")
    where.text(
        column,
        row,
        f"{told}\n{MARKS[cell.outcome]}",
        ha="center",
        va="center",
        fontsize=8.5,
        color="black" if light > _PALE or np.isnan(cell.value) else "white",
    )
