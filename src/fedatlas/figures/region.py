"""Maps over declared networks: one run's time over another's, and how time falls with parties.

A cell is a network. Its number is the median over seeds, its mark the outcome of the same test that
claims are judged by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.cost_to_target import CostToTargetTest
from fedatlas.evaluation.claims.scaling import LINEAR_POWER, ScalingTest
from fedatlas.evaluation.costs import specification
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.verdict_words import MARKS
from fedatlas.figures.style import Shown, legend_below, put_title
from fedatlas.schema.claims import Finding, Outcome
from fedatlas.schema.measurements import LARGER_IS_BETTER, MEASUREMENTS
from fedatlas.schema.network_model import LognormalTimes, NetworkModel
from fedatlas.schema.partitions import VerticalPartition

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
    stragglers = list(dict.fromkeys(place.straggler for place in places.values()))
    numbers = sorted({place.parties for place in places.values()})
    rows: list[tuple[str, Mapping[_Place, _Cell], int]] = [
        (f"{count} parties", ratios, count) for count in numbers
    ]
    if exponents:
        rows.append((f"{numbers[0]} to {numbers[-1]} parties", exponents, numbers[0]))
    outlined = {
        kind: {places[run].network for run in runs} for kind, runs in shown.figure.outlined.items()
    }
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
    furthest = max(
        (abs(np.log2(cell.value)) for cell in ratios.values() if np.isfinite(cell.value)),
        default=0.0,
    )
    by_ratio = TwoSlopeNorm(0.0, -max(furthest, 0.1), max(furthest, 0.1))
    by_exponent = Normalize(0.0, 1.2)
    for number, (name, cells, count) in enumerate(rows):
        is_ratio = cells is ratios
        drawn: Any = None
        for column, straggler in enumerate(stragglers):
            panel = {
                (place.spread, place.latency): cell
                for place, cell in cells.items()
                if place.parties == count and place.straggler == straggler
            }
            grid = np.array(
                [[panel[y, x].value if (y, x) in panel else np.nan for x in across] for y in up]
            )
            where = axes[number, column]
            drawn = where.imshow(
                np.log2(grid) if is_ratio else grid,
                origin="lower",
                aspect="auto",
                cmap="RdBu_r" if is_ratio else "cividis",
                norm=by_ratio if is_ratio else by_exponent,
            )
            _write(where, panel, across, up, drawn)
            stated = outlined.get("ratios" if is_ratio else "exponents", set())
            part = [[(straggler, x, y) in stated for x in across] for y in up]
            _outline(where, np.array(part))
            where.set_title(f"{name}, {straggler}", fontsize=8)
            where.set_xticks(range(len(across)), [f"{x:g}" for x in across])
            where.set_yticks(range(len(up)), [f"{y:g}" for y in up])
            where.grid(False)
            if number == len(rows) - 1:
                where.set_xlabel("latency / time of one feature")
            if column == 0:
                where.set_ylabel("spread of times")
        bar = canvas.colorbar(drawn, ax=list(axes[number]), aspect=12)
        if is_ratio:
            bar.set_label("ratio of times")
            ticks = np.linspace(-max(furthest, 0.1), max(furthest, 0.1), 5)
            bar.set_ticks(ticks.tolist(), labels=[f"{2**tick:.2g}" for tick in ticks])
        else:
            bar.set_label("exponent of speed-up")
    found = {cell.outcome for cell in (*ratios.values(), *exponents.values())}
    handles = [
        Line2D([], [], ls="", label=f"{mark} {outcome}")
        for outcome, mark in MARKS.items()
        if outcome in found
    ]
    if outlined:
        handles.append(Line2D([], [], **_OUTLINE, label="stated to hold here"))
    legend_below(canvas, handles, columns=min(len(handles), 5))
    put_title(canvas, title, _note(shown, bool(exponents)))
    return canvas


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
    straggler = "no straggler"
    if network.straggler > 1:
        place = network.straggler_party
        place = partition.parties - 1 if place is None else place
        role = "a dominator" if place < partition.active else "a passive party"
        straggler = f"{role} {network.straggler:g}× slower"
    return _Place(
        partition.parties,
        straggler,
        round(network.latency / network.seconds_per_feature, 9),
        law.spread if isinstance(law, LognormalTimes) else 0.0,
    )


def _pair_test(shown: Shown, run: str, other: str) -> CostToTargetTest:
    return CostToTargetTest(
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
        test = ScalingTest(
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


def _ratio(finding: Finding) -> _Cell:
    ahead = np.nan if finding.effect is None else finding.effect.estimate
    return _Cell(10.0**-ahead if np.isfinite(ahead) else np.nan, finding.outcome)


def _only(findings: Any) -> Finding:
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
