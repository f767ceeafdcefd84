"""Convergence figures: a measurement against what runs have spent."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from fedatlas.evaluation.levels import (
    Trace,
    column,
)
from fedatlas.evaluation.quantities import EPSILON, largest_delta
from fedatlas.evaluation.selection import varied_hyper_parameters
from fedatlas.figures.colours import mixed
from fedatlas.figures.curves import (
    PUBLISHED,
    WIDTH,
    Curve,
    Row,
    bands,
    draw_panel,
    ends_early,
    ends_far_apart,
    is_clipped,
    is_logarithmic,
    look_of,
    mark_full_rounds,
    set_heights,
)
from fedatlas.figures.rates import Rate, draw_rates
from fedatlas.figures.style import (
    BANDS,
    DASHED,
    MOST_CURVES,
    Shown,
    cost_label,
    entry,
    finish,
    format_floor,
    format_hyper_parameters,
    is_narrow,
    legend_beside,
    lost_note,
    new_panels,
    row_title,
)
from fedatlas.schema.figures import Figure, check_dashed
from fedatlas.schema.quantities import (
    MEASUREMENTS,
    Cost,
    Measurement,
)
from fedatlas.schema.rates import Formula, check_names
from fedatlas.schema.runs import flat

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    from fedatlas.schema.experiments import Experiment

_LINE_STYLES: list[Any] = ["-", "--", ":", "-.", (0, (8, 3)), (0, (1, 3)), (0, (5, 1, 1, 1, 1, 1))]
_HEIGHT = 2.4  # inches of a panel
_ALONE = 3.4  # of the only one
_MOST_BANDS = 4  # of a panel, as more blend: ranges of seeds are bars then
_TARGET: dict[str, Any] = {"color": "0.4", "ls": (0, (1, 2)), "lw": 1.0, "zorder": 1}
_ORIGINS = "solid: ours; dashed, with hollow marks: published"
# Of ours and of published runs, by how often all colours were used before.
_OUR_MARKS, _THEIR_MARKS = ("", "s", "^", "D"), ("o", "s", "^", "D")
# Of rates, by their number.
_RATE_STYLES: list[Any] = [(0, (1, 1.2)), (0, (5, 1, 1, 1)), (0, (3, 1)), (0, (1, 3))]
_WIDER = "wider lines lie below lines that coincide with them"
_EARLY = "curves end with their shortest seed: {}"
_GREY = "grey: curves of the other panels"
_SCALED = "rates with a factor c go through their curve at its middle record"
_LETTERS_OF_LABEL = 34  # along the height of a panel


class ConvergenceFigure(Figure):
    """Small panels, one for each cost.

    measurement: on the y axis. costs: on the x axes, a panel each. also: further measurements, by
    the first cost.
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

    def draws(self, claim: Any) -> bool:
        """Targets that a claim asks for."""
        test = claim.test
        return bool(test.levels) and getattr(test, "measurement", "") in self.measurements

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
        """A panel for each group of curves, measurement and cost; those of a cost share its axis.

        Lines are medians over seeds at equal cost. Bands, or bars where bands would blend, reach
        from the lowest to the highest seed. Groups of many curves are several panels, which show
        the curves of the others in grey.
        """
        rows, costs = list(_rows(self, shown)), self.costs
        canvas, axes = _panels(rows, share_costs=self.rows != "partition")
        logarithmic = {
            cost: any(ends_far_apart(cost, row.curves) for row in rows) for cost in costs
        }
        apart = any(bands(row.curves) > _MOST_BANDS for row in rows)
        targets = _targets(shown)
        notes: list[str] = []
        coincide = False
        for row, places in zip(rows, axes, strict=True):
            for place, cost in zip(places, row.costs, strict=True):
                coincide |= draw_panel(place, row, cost, logarithmic[cost], apart=apart)
                for target in targets.get(row.measurement, ()):
                    place.axhline(target, **_TARGET)
            if any(is_clipped(curve, row.measurement) for curve in row.curves):
                notes.append(format_floor(row.measurement))
            places[0].set_title(row.title, loc="left")
        notes += set_heights(rows, axes, logarithmic)
        for row, places in zip(rows, axes, strict=True):
            draw_rates(row.rates, places, row.costs)
        marked = [
            mark_full_rounds(places[0], costs[0], row.curves)
            for row, places in zip(rows, axes, strict=True)
        ]
        every = [place for places in axes for place in places]
        for place in every:
            # Last, as a limit stays once it is set, also in panels that share it.
            if place.get_xscale() == "linear":
                place.set_xlim(left=0)
        if gap := _format_deltas(rows) if EPSILON in costs else "":
            notes.append(gap)
        _label(rows, axes, gap)
        notes += _lost([row for row in rows if row.measurement == self.measurement])
        early = [curve.label for row in rows for curve in row.curves if ends_early(curve)]
        if early:
            notes.append(_EARLY.format("; ".join(dict.fromkeys(early))))
        if shown.published:
            notes.insert(0, _ORIGINS)
        if coincide:
            notes.append(_WIDER)
        if any(row.others for row in rows):
            notes.append(_GREY)
        if any(rate.is_scaled for row in rows for rate in row.rates):
            notes.append(_SCALED)
        spread = BANDS.replace("bands", "bars") if apart else BANDS
        drawn = [curve.trace for row in rows for curve in row.curves]
        notes.insert(0, shown.seeds(spread, every_point=self.points == "all", drawn=drawn))
        handles = _legend(rows, any(marked), targets)
        if len(every) == 1 and not is_narrow(canvas):
            legend_beside(every[0], handles)
            handles = []
        finish(canvas, title, "\n".join(dict.fromkeys(notes)), handles)
        return canvas


def _panels(rows: Sequence[Row], *, share_costs: bool) -> tuple[Canvas, list[list[Axes]]]:
    """A figure and the axes of each row; those of further measurements follow."""
    most = max(len(row.costs) for row in rows)
    together = most - 1 + len({row.measurement for row in rows})
    columns = 0 if most == 1 else 2 if together in (2, 4) else 3
    starts, end = [], 0
    for row in rows:
        if columns and len(row.costs) > 1:
            end = -(-end // columns) * columns
        starts.append(end)
        end += len(row.costs)
    canvas, places = new_panels(end, _HEIGHT if end > 1 else _ALONE, columns)
    axes = [
        list(places[start : start + len(row.costs)])
        for start, row in zip(starts, rows, strict=True)
    ]
    used = {place for own in axes for place in own}
    for place in places:
        if place not in used:
            place.set_axis_off()
    first: dict[Any, Axes] = {}
    for row, own in zip(rows, axes, strict=True):
        apart_by = None if is_logarithmic(row.measurement, row.all) else row.group
        for cost, place in zip(row.costs, own, strict=True):
            of_cost = first.setdefault((cost, "" if share_costs else row.group), place)
            of_values = first.setdefault((row.measurement, apart_by), place)
            if of_cost is not place:
                place.sharex(of_cost)
            if of_values is not place:
                place.sharey(of_values)
    return canvas, axes


def _label(rows: Sequence[Row], axes: Sequence[Sequence[Axes]], gap: str) -> None:
    """Name the axes, each once where panels beside or below each other share it.

    gap: of ε that hold at different δ; empty without any.
    """
    at, shows = {}, []
    traces = [curve.trace for row in rows for curve in row.all]
    for row, places in zip(rows, axes, strict=True):
        for cost, place in zip(row.costs, places, strict=True):
            spec: Any = place.get_subplotspec()
            at[where := (spec.rowspan.start, spec.colspan.start)] = place
            shows.append((where, place, row, cost))
    goes_on = {
        down: all(
            (below := at.get((down + 1, own))) and below.get_shared_x_axes().joined(below, place)
            for (line, own), place in at.items()
            if line == down
        )
        for down, _ in at
    }
    for (down, across), place, row, cost in shows:
        left = at.get((down, across - 1))
        if left is not None and place.get_shared_y_axes().joined(left, place):
            place.tick_params(labelleft=False)
        else:
            name = MEASUREMENTS[row.measurement].long_name
            place.set_ylabel(textwrap.fill(name, _LETTERS_OF_LABEL))
        if goes_on[down]:
            place.tick_params(labelbottom=False)
        else:
            own = "\n(at each run's own δ)" if gap and cost == EPSILON else ""
            place.set_xlabel(cost_label(cost, traces) + own)


def _rows(figure: ConvergenceFigure, shown: Shown) -> Iterator[Row]:
    """The figure's rows; a run has one colour and mark throughout."""
    grouped: dict[str, list[Curve]] = {}
    rates: dict[str, list[Rate]] = {}
    titles, dashed = shown.titles, figure.dashed
    look_of = shown.looks(dashed)
    for run, points in shown.traces.items():
        title, is_published = titles[run], run in shown.published
        marks = _THEIR_MARKS if is_published else _OUR_MARKS
        look = look_of[title]
        mark = marks[look.again % len(marks)]
        drawn = [shown.chosen[run].point] if figure.points == "selected" else list(points)
        for number, point in enumerate(drawn):
            trace, label = points[point], title
            style = DASHED if run in dashed else PUBLISHED if is_published else "-"
            if figure.rows != "effective_step_size" and len(points) > 1:
                # As the file states them: an effective step that follows from them may be another
                # value of the same grid.
                varied = varied_hyper_parameters(point, points)
                label += f", {format_hyper_parameters(varied)}"
                style = style if number == 0 else _LINE_STYLES[number % len(_LINE_STYLES)]
            grouped.setdefault(row_title(figure.rows, trace, title), []).append(
                Curve(label, title, look.colour, style, trace, run in dashed.values(), mark)
            )
        if run in figure.rates:
            chosen = shown.chosen[run].point if run in shown.chosen else drawn[0]
            of_row = row_title(figure.rows, points[chosen], title)
            found = _rates_of(figure, run, points[chosen], look.colour)
            rates.setdefault(of_row, []).extend(found)
    for group, curves in grouped.items():
        parts = _parts(curves)
        for measurement in figure.measurements:
            for number, part in enumerate(parts, start=1):
                place = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
                titled = f"{group}{place}".strip()
                shown_here = {id(curve) for curve in part}
                own = [
                    rate
                    for rate in rates.get(group, [])
                    if measurement == figure.measurement
                    and any(rate.trace is curve.trace for curve in part)
                ]
                others = [curve for curve in curves if id(curve) not in shown_here]
                costs = figure.costs if measurement == figure.measurement else figure.costs[:1]
                yield Row(group, titled, measurement, costs, part, others, own)


def _parts(curves: list[Curve]) -> list[list[Curve]]:
    """Curves in few parts that a panel can show; those of a run, or of a pair, stay together."""
    if len(curves) <= MOST_CURVES:
        return [curves]
    pairs = any(curve.has_dashed for curve in curves)
    runs: dict[str, list[Curve]] = {}
    for curve in curves:
        runs.setdefault(curve.colour if pairs else curve.title, []).append(curve)
    even = -(-len(curves) // -(-len(curves) // MOST_CURVES))
    parts: list[list[Curve]] = [[]]
    for own in runs.values():
        for start in range(0, len(own), even):
            piece = own[start : start + even]
            if len(parts[-1]) >= even or len(parts[-1]) + len(piece) > MOST_CURVES:
                parts.append([])
            parts[-1] += piece
    return [part for part in parts if part]


def _rates_of(figure: ConvergenceFigure, run: str, trace: Trace, colour: str) -> Iterator[Rate]:
    """The rates of a run, in its colour; each has broken lines of its own."""
    for number, (label, formula) in enumerate(figure.rates[run].items()):
        style = _RATE_STYLES[number % len(_RATE_STYLES)]
        look = {"color": mixed(colour, "#000000", 0.35), "ls": style, "lw": 1.2}
        where = f"figure.rates.{run}.{label}"
        yield Rate(label, formula, figure.measurement, trace, look, where)


def _format_deltas(rows: list[Row]) -> str:
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


def _targets(shown: Shown) -> dict[str, list[float]]:
    """Measurement → targets that claims ask for."""
    found: dict[str, set[float]] = {}
    for claim in shown.claims:
        test: Any = claim.test
        found.setdefault(test.measurement, set()).update(test.levels)
    return {name: sorted(targets) for name, targets in found.items()}


def _lost(rows: Sequence[Row]) -> list[str]:
    """Who lost seeds, told once for each way."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for curve in row.curves:
            where = f" ({row.group})" if row.group and row.group != curve.title else ""
            for told in lost_note(curve.trace).split("\n")[1:]:
                found.setdefault(told, []).append(curve.label + where)
    return [f"{told}: {'; '.join(dict.fromkeys(names))}" for told, names in found.items()]


def _legend(
    rows: Sequence[Row], marked: bool, targets: Mapping[str, Sequence[float]]
) -> list[Line2D]:
    """Each run once, followed by its rates."""
    handles: dict[tuple[str, str], Line2D] = {}
    for row in rows:
        for curve in row.curves:
            look = look_of(curve, WIDTH)
            handles.setdefault((curve.label, curve.colour), entry(curve.label, **look))
            for rate in row.rates:
                if rate.trace is curve.trace:
                    handles[rate.label, rate.where] = entry(rate.label, **rate.look)
    found = list(handles.values())
    if marked:
        found.append(entry("full rounds", color="grey", marker="|", ls=""))
    if targets:
        told = ", ".join(f"{target:g}" for own in targets.values() for target in own)
        found.append(
            entry(
                f"targets of claims: {told}" if "," in told else f"target of claims: {told}",
                **_TARGET,
            )
        )
    return found
