"""Convergence figures: a measurement against what runs have spent."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from fedatlas.evaluation.levels import (
    Trace,
    column,
    common_costs,
    cost_axis,
    diverged,
    drawn_values,
    is_counted,
)
from fedatlas.evaluation.quantities import EPSILON, largest_delta
from fedatlas.evaluation.selection import varied_hyper_parameters
from fedatlas.figures.pgfplots import HIGH, LOW
from fedatlas.figures.rates import Rate, draw_rates
from fedatlas.figures.style import (
    BANDS,
    DASHED,
    Shown,
    colour_rounds,
    colours,
    entry,
    format_floor,
    format_hyper_parameters,
    is_narrow,
    legend_beside,
    lost_note,
    new_canvas,
    put_title,
    row_title,
)
from fedatlas.schema.figures import Figure, check_dashed
from fedatlas.schema.quantities import (
    LARGER_IS_BETTER,
    MEASUREMENTS,
    Cost,
    Measurement,
    axis,
)
from fedatlas.schema.rates import Formula, check_names
from fedatlas.schema.runs import flat

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    from fedatlas.schema.experiments import Experiment

_LINE_STYLES: list[Any] = ["-", "--", ":", "-.", (0, (8, 3)), (0, (1, 3)), (0, (5, 1, 1, 1, 1, 1))]
_WIDTH = 1.3  # of the thinnest lines
_HEIGHT = 2.5  # inches of a row, at least
_STACKED, _LINE = 1.7, 0.15  # inches of a panel among stacked ones, and of a line of their legend
_NEXT_TO_NOTHING = 100  # how many times a start's cost the next record's is
# What the axis of a measurement that rises to 1 says where it leaves out the start of curves.
_CUT = "(curves start below this axis)"
_LEFT = "(a seed leaves this axis)"
# A lowest or highest seed that makes the axis longer than so many times is left out of its limits.
_STRETCH = 4.0
# Of published runs.
_PUBLISHED: Any = (0, (5, 2))
_ORIGINS = "solid: ours; dashed, with hollow marks: published"
# Of ours and of published runs, by how often all colours were used before.
_OUR_MARKS, _THEIR_MARKS = ("", "s", "^", "D"), ("o", "s", "^", "D")
_BETWEEN_MARKS = 0.14  # of the panel's diagonal
# Of rates, by their number.
_RATE_STYLES: list[Any] = [(0, (1, 1.2)), (0, (5, 1, 1, 1)), (0, (3, 1)), (0, (1, 3))]
_WIDER = "wider lines lie below, so that coinciding ones are seen"
_SCALED = "rates with a factor c go through their curve at its middle record"
_LETTERS_OF_LABEL = 34  # along the height of a panel


class ConvergenceFigure(Figure):
    """Small panels, a column for each cost, a row for each measurement.

    measurement: on the y axis. also: further ones, each in a row of its own.
    costs: on the x axes, a column each.
    rows: what tells rows of panels apart. points: of grids, all or the selected ones.
    dashed: run drawn in dashes → the run whose colour it takes.
    rates: run → label → a formula of `measurement` that is drawn beside the run's curve.
    """

    kind: Literal["convergence"] = "convergence"
    measurement: Measurement = "gradient_norm"
    also: tuple[Measurement, ...] = ()
    costs: tuple[Cost, ...] = Field(
        default=("round", "bytes", "gradient_evaluations"), min_length=1
    )
    rows: Literal["effective_step_size", "partition", "algorithm", "run", "none"] = "none"
    points: Literal["all", "selected"] = "all"
    dashed: dict[str, str] = Field(default={})
    rates: dict[str, dict[str, Formula]] = Field(default={})

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (self.measurement, *self.also)

    @property
    def counted(self) -> tuple[str, ...]:
        return self.costs

    @property
    def runs(self) -> tuple[str, ...]:
        return (*self.dashed, *self.dashed.values(), *self.rates)

    @property
    def shows_every_point(self) -> bool:
        return self.points == "all"

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        if len(set(self.measurements)) != len(self.measurements):
            raise ValueError(f"also: a measurement stands twice in {', '.join(self.measurements)}")
        if self.rows == "effective_step_size" and self.points == "selected":
            raise ValueError("rows by effective_step_size need points: all")
        check_dashed(self.dashed)
        if self.dashed and self.points == "all":
            raise ValueError("dashed needs points: selected, as lines tell points apart otherwise")
        return self

    def check(self, experiment: Experiment) -> None:
        """Rates name what their runs state."""
        for run, formulas in self.rates.items():
            declared = experiment.runs[run]
            if declared.tuned_in is not None:
                continue  # what another experiment chooses is known when the figure is drawn
            tried = {name: values[0] for name, values in declared.grid.items()}
            for label, formula in formulas.items():
                try:
                    check_names(formula, flat(declared.hyper_parameters) | tried)
                except ValueError as error:
                    raise ValueError(f"figure.rates.{run}.{label}: {error}") from None

    def compose(self, title: str, shown: Shown) -> Canvas:
        """One row per group of curves and measurement, one column per cost axis.

        Lines are medians over seeds at equal cost. Bands reach from the lowest to the highest seed.
        """
        rows, costs = list(_rows(self, shown)), self.costs
        heights = [_height(row) if row.measurement == self.measurement else _HEIGHT for row in rows]
        canvas = new_canvas(2.5 + 3.0 * len(costs), 0.9 + sum(heights))
        stacked = is_narrow(canvas)
        # Unequal partitions differ a thousandfold in what a round costs.
        axes = _panels(canvas, heights, len(costs), share_costs=self.rows != "partition")
        logarithmic = {
            cost: any(_ends_far_apart(cost, row.curves) for row in rows) for cost in costs
        }
        notes: list[str] = []
        for row, places in zip(rows, axes, strict=True):
            for place, cost in zip(places, costs, strict=True):
                _draw_panel(place, row.measurement, cost, row.curves, logarithmic[cost])
                if _is_logarithmic(row.measurement, row.curves):
                    place.set_yscale("log")
            if any(_is_clipped(curve, row.measurement) for curve in row.curves):
                notes.append(format_floor(row.measurement))
            widest = _LETTERS_OF_LABEL // (2 if stacked else 1)
            label = textwrap.fill(MEASUREMENTS[row.measurement].long_name, widest)
            if row.measurement in LARGER_IS_BETTER:
                low, high, told = _heights(row, logarithmic)
                places[0].set_ylim(low, high)  # the row shares them
                places[0].ticklabel_format(axis="y", useOffset=False)
                label = "\n".join([label, *told])
            for place in places if stacked else places[:1]:
                place.set_ylabel(f"{row.title}\n{label}" if row.title else label)
            draw_rates(row.rates, places, costs)
            marked = _mark_full_rounds(places[0], costs[0], row.curves)
            if row.measurement == self.measurement:  # rows of other measurements share its curves
                legend_beside(places[-1], _legend(row, marked))
        for place in axes.flat:
            # Last, as a limit stays once it is set, also in panels that share it.
            if place.get_xscale() == "linear":
                place.set_xlim(left=0)
        if apart := _format_deltas(rows) if EPSILON in costs else "":
            notes.append(apart)
        for places in axes if stacked else axes[-1:]:
            for place, cost in zip(places, costs, strict=True):
                own = "\n(at each run's own δ)" if apart and cost == EPSILON else ""
                place.set_xlabel(axis(cost).label + own)
        origins = [_ORIGINS] * bool(shown.published)
        if any(len(row.curves) > 1 for row in rows):
            notes.append(_WIDER)
        if any(rate.is_scaled for row in rows for rate in row.rates):
            notes.append(_SCALED)
        seeds = shown.seeds(BANDS, every_point=self.points == "all")
        put_title(canvas, title, "\n".join([seeds, *origins, *dict.fromkeys(notes)]))
        if stacked:
            texts = [text.get_text() for legend in canvas.legends for text in legend.get_texts()]
            lines = sum(1 + text.count("\n") for text in texts)
            least = _STACKED * axes.size + _LINE * lines
            canvas.set_figheight(max(canvas.get_figheight(), least))
        return canvas


def _panels(
    canvas: Canvas, heights: list[float], costs: int, *, share_costs: bool
) -> np.ndarray[Any, Any]:
    """Axes (rows, costs); those of a narrow figure lie below each other."""
    if not is_narrow(canvas):
        return canvas.subplots(
            len(heights),
            costs,
            squeeze=False,
            height_ratios=heights,
            sharey="row",
            sharex="col" if share_costs else "none",
        )
    axes = canvas.subplots(len(heights) * costs, 1, squeeze=False).reshape(-1, costs)
    for first, *others in axes:
        for place in others:
            place.sharey(first)
    return axes


class _Curve(NamedTuple):
    """has_dashed: whether another curve of its colour is drawn in dashes on top of it.

    mark: along the line; hollow if the run is published.
    """

    label: str
    colour: str
    style: Any
    trace: Trace
    has_dashed: bool = False
    mark: str = ""


class _Row(NamedTuple):
    title: str
    measurement: str
    curves: list[_Curve]
    rates: list[Rate]


def _rows(figure: ConvergenceFigure, shown: Shown) -> Iterator[_Row]:
    """The figure's rows; a run has one colour and mark throughout."""
    grouped: dict[str, list[_Curve]] = {}
    rates: dict[str, list[Rate]] = {}
    titles, dashed = shown.titles, figure.dashed
    colour_of, used = colours(titles, dashed), colour_rounds(titles, dashed)
    for run, points in shown.traces.items():
        title, is_published = titles[run], run in shown.published
        marks = _THEIR_MARKS if is_published else _OUR_MARKS
        mark = marks[used[title] % len(marks)]
        drawn = [shown.chosen[run].point] if figure.points == "selected" else list(points)
        for number, point in enumerate(drawn):
            trace, label = points[point], title
            style = DASHED if run in dashed else _PUBLISHED if is_published else "-"
            if figure.rows != "effective_step_size" and len(points) > 1:
                # As the file states them: an effective step that follows from them may be another
                # value of the same grid.
                varied = varied_hyper_parameters(point, points)
                label += f", {format_hyper_parameters(varied)}"
                style = style if number == 0 else _LINE_STYLES[number % len(_LINE_STYLES)]
            grouped.setdefault(row_title(figure.rows, trace, title), []).append(
                _Curve(label, colour_of[title], style, trace, run in dashed.values(), mark)
            )
        if run in figure.rates:
            chosen = shown.chosen[run].point if run in shown.chosen else drawn[0]
            of_row = row_title(figure.rows, points[chosen], title)
            found = _rates_of(figure, run, points[chosen], colour_of[title])
            rates.setdefault(of_row, []).extend(found)
    for of_row, curves in grouped.items():
        for measurement in figure.measurements:
            own = rates.get(of_row, []) if measurement == figure.measurement else []
            yield _Row(of_row, measurement, curves, own)


def _rates_of(figure: ConvergenceFigure, run: str, trace: Trace, colour: str) -> Iterator[Rate]:
    """The rates of a run, in its colour; each has broken lines of its own."""
    for number, (label, formula) in enumerate(figure.rates[run].items()):
        style = _RATE_STYLES[number % len(_RATE_STYLES)]
        look = {"color": _mixed(colour, "black", 0.35), "ls": style, "lw": 1.2}
        where = f"figure.rates.{run}.{label}"
        yield Rate(label, formula, figure.measurement, trace, look, where)


def _format_deltas(rows: list[_Row]) -> str:
    """At which δ the ε of curves hold in the end; empty where it is 0 throughout."""
    ends = {
        curve.label: largest_delta(column(curve.trace, "delta")[:, -1])
        for row in rows
        for curve in row.curves
        if "delta" in curve.trace
    }
    above_0 = {label: delta for label, delta in ends.items() if delta}
    if not above_0:
        return ""
    told = ", ".join(f"{delta:.3g} of {label}" for label, delta in above_0.items())
    others = "; 0 of all others, which holds at every δ" if len(above_0) < len(ends) else ""
    head = "ε at different δ above 0 is not comparable; " if len(above_0) > 1 else ""
    return f"{head}δ in the end: {told}{others}"


def _draw_panel(
    place: Axes, measurement: str, cost: str, curves: list[_Curve], logarithmic: bool
) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    thicker = min(0.7, 1.4 / max(len(curves) - 1, 1))
    for above, curve in enumerate(reversed(curves)):
        # Later curves are drawn first and wider, so that coinciding ones are both seen.
        order, thickness = -above, _WIDTH + thicker * above
        x, y = _healthy_seeds(curve, measurement, cost, logarithmic)
        if not len(y):
            continue
        band = y.min(axis=0), y.max(axis=0)
        # Dashes are on top of all, the lines that they may coincide with below all.
        level = 0.1 * order + (curve.style == DASHED) - curve.has_dashed
        place.fill_between(x, *band, color=curve.colour, alpha=0.15, linewidth=0)
        # Thin edges keep overlapping bands distinct.
        for end, name in zip(band, (LOW, HIGH), strict=True):
            place.plot(x, end, color=curve.colour, lw=0.4, alpha=0.5, label=name)
        look = _look(curve, thickness)
        place.plot(x, np.median(y, axis=0), zorder=3 + level, label=curve.label, **look)
    if not place.lines:
        place.text(0.5, 0.5, "nothing to draw", transform=place.transAxes, ha="center")
    if logarithmic:
        place.set_xscale("log")
        return
    place.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    unit = axis(cost).ticks
    if unit is not None:
        place.xaxis.set_major_formatter(EngFormatter(unit, sep=""))


def _is_clipped(curve: _Curve, measurement: str) -> bool:
    """Whether values that are drawn lie below what the measurement is known to."""
    healthy = ~diverged(curve.trace)
    below = drawn_values(curve.trace, measurement) > column(curve.trace, measurement)
    return bool(below[healthy].any())


def _look(curve: _Curve, width: float) -> dict[str, Any]:
    """How a line is drawn; where dashes coincide with the line of their colour, both are seen."""
    if curve.style == DASHED:
        return {"color": _mixed(curve.colour, "black", 0.35), "ls": DASHED, "lw": 1.3}
    if curve.has_dashed:
        return {"color": _mixed(curve.colour, "white", 0.5), "ls": curve.style, "lw": 3.2}
    look = {"color": curve.colour, "ls": curve.style, "lw": width}
    if curve.mark:
        inside = "white" if curve.style == _PUBLISHED else curve.colour
        look |= {"marker": curve.mark, "markevery": _BETWEEN_MARKS, "ms": 4.5, "mfc": inside}
    return look


def _mixed(colour: str, other: str, share: float) -> tuple[float, ...]:
    """A colour with a share of another."""
    from matplotlib.colors import to_rgb

    pair = zip(to_rgb(colour), to_rgb(other), strict=True)
    return tuple((1 - share) * own + share * more for own, more in pair)


def _heights(
    row: _Row, logarithmic: Mapping[str, bool]
) -> tuple[float | None, float | None, list[str]]:
    """Limits of a row's y axis, and what the axis must say of curves that they cut.

    Curves start at the score of a constant and end close together; the start would squeeze the
    ends. It is the first tenth of costs on a linear x axis, of records on a logarithmic one. A seed
    that falls, too, would squeeze all others: see `_STRETCH`.
    logarithmic: by cost, whether the x axis is.
    """
    kept, left = [np.empty((1, 0))], [np.empty(0)]
    for cost, is_logarithmic in logarithmic.items():
        for curve in row.curves:
            x, y = _healthy_seeds(curve, row.measurement, cost, is_logarithmic)
            if len(y):
                late = np.arange(len(x)) >= len(x) / 10 if is_logarithmic else x >= x[-1] / 10
                kept.append(y[:, late])
                left.append(y[:, ~late].ravel())
    values = np.concatenate([y.ravel() for y in kept])
    if not len(values):
        return None, None, []
    inner = np.concatenate([_without_extremes(y).ravel() for y in kept])
    leaves = bool(np.ptp(values) > _STRETCH * np.ptp(inner) > 0)
    values = inner if leaves else values
    low, high = values.min(), values.max()
    margin = max(0.05 * (high - low), 1e-3)
    cut = bool((np.concatenate(left) < low - margin).any())
    return low - margin, high + margin, [_CUT] * cut + [_LEFT] * leaves


def _without_extremes(values: np.ndarray) -> np.ndarray:
    """Without the lowest and highest seed of each record; all of fewer than four seeds."""
    return np.sort(values, axis=0)[1:-1] if len(values) >= 4 else values


def _healthy_seeds(
    curve: _Curve, measurement: str, cost: str, logarithmic: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Costs (points,) and values (seeds, points) to draw; empty if every seed diverged."""
    x = common_costs(curve.trace, cost) if is_counted(curve.trace, cost) else np.empty(0)
    if not len(x):
        return np.empty(0), np.empty((0, 0))
    healthy = ~diverged(curve.trace)
    costs = cost_axis(curve.trace, cost)[healthy]
    values = drawn_values(curve.trace, measurement)[healthy]
    y = np.stack([np.interp(x, *seed) for seed in zip(costs, values, strict=True)])
    if not logarithmic:
        return x, y
    # A logarithmic axis has no place for a cost of 0. It would show at length, as a line, what
    # nobody recorded between a start that costs next to nothing and the next record.
    shown = x > 0
    shown[:1] &= len(x) < 3 or x[1] < _NEXT_TO_NOTHING * x[0]
    return x[shown], y[:, shown]


def _ends_far_apart(cost: str, curves: list[_Curve]) -> bool:
    """Whether the shortest curve would be invisible beside the longest."""
    ends = [
        cost_axis(curve.trace, cost)[~diverged(curve.trace)].max(initial=-np.inf)
        for curve in curves
        if is_counted(curve.trace, cost)
    ]
    ends = [end for end in ends if np.isfinite(end)]
    return bool(ends) and max(ends) > 8 * min(ends)


def _is_logarithmic(measurement: str, curves: list[_Curve]) -> bool:
    """Whether the y axis is logarithmic; that of an objective only if it falls by a decade."""
    if measurement != "objective":
        return MEASUREMENTS[measurement].logarithmic
    ends = np.concatenate(
        [column(curve.trace, measurement)[~diverged(curve.trace)].ravel() for curve in curves]
    )
    return bool(len(ends)) and ends.max() > 10 * ends.min()


def _mark_full_rounds(place: Axes, cost: str, curves: list[_Curve]) -> bool:
    """Mark the full rounds of all seeds on the lower edge, if they are rare; whether any are."""
    marked = 0
    for curve in curves:
        if "full_participations" not in curve.trace or not is_counted(curve.trace, cost):
            continue
        full = column(curve.trace, "full_participations")
        new = np.diff(full, axis=1) > 0
        if not 0 < new.mean() < 0.3:
            continue
        at = cost_axis(curve.trace, cost)[:, 1:][new]
        foot = 0.03 * marked  # one above the other, as marks of two curves may coincide
        place.vlines(
            at, foot, foot + 0.025, curve.colour, lw=0.8, transform=place.get_xaxis_transform()
        )
        marked += 1
    return marked > 0


def _height(row: _Row) -> float:
    """Inches of a row with a legend: a long one would leave its panels no room."""
    lines = sum(1 + _label(curve).count("\n") for curve in row.curves) + len(row.rates)
    return max(_HEIGHT, 0.19 * lines)


def _label(curve: _Curve) -> str:
    return curve.label + lost_note(curve.trace)


def _legend(row: _Row, marked: bool) -> list[Line2D]:
    """Each run is followed by its rates."""
    handles = []
    for curve in row.curves:
        handles.append(entry(_label(curve), **_look(curve, _WIDTH)))
        own = [rate for rate in row.rates if rate.trace is curve.trace]
        handles += [entry(rate.label, **rate.look) for rate in own]
    if marked:
        handles.append(entry("full rounds", color="grey", marker="|", ls=""))
    return handles
