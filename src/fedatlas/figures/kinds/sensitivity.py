"""Sensitivity figures: how far runs get at the values of a hyper-parameter in their grids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.evaluation.levels import Trace, reached, specification
from fedatlas.evaluation.selection import hyper_parameters, number_at, varied_hyper_parameters
from fedatlas.figures.colours import colours
from fedatlas.figures.style import (
    Shown,
    entry,
    finish,
    format_hyper_parameters,
    new_panels,
    row_title,
    tick_decades,
)
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.figures import EFFECTIVE_STEP_SIZE, Figure
from fedatlas.schema.quantities import LARGER_IS_BETTER, MEASUREMENTS, Level
from fedatlas.schema.runs import flat

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

_END = 0.1  # share of the rounds that counts as early, and as late
_LOOKS: list[tuple[Any, str]] = [
    *(("-", "o"), ((0, (4, 1.5)), "s"), ((0, (1, 1.2)), "^"), ((0, (6, 1.5, 1, 1.5)), "D")),
    *(((0, (9, 2)), "v"), ((0, (1, 3)), "P"), ((0, (5, 1, 1, 1, 1, 1)), "X")),
]
_BOUND: dict[str, Any] = {"ls": (0, (2, 1.5)), "lw": 1.1, "alpha": 0.9, "zorder": 1.5}
_SHARED = "0.35"  # colour of a bound on lines of several colours
_RING: dict[str, Any] = {"marker": "o", "ms": 9, "mfc": "none", "mew": 1.2, "ls": ""}
_ALL_LOST: dict[str, Any] = {"marker": "x", "ms": 5, "ls": ""}
_SOME_LOST: dict[str, Any] = {"marker": "+", "ms": 6, "ls": ""}
_CROSS_ROOM = 0.05  # of a panel's height, for the crosses of one line
_HEIGHT = 2.1  # inches of a panel
_LETTERS_OF_AXIS = 28  # of a line along a panel's height
_LETTERS_OF_LABEL = 60  # of a bound, in a line of the legend


class SensitivityFigure(Figure):
    """The levels by which points are chosen against a hyper-parameter of grids.

    measurement: by which points are chosen. rows: what tells rows of panels apart.
    hyper_parameter: on the x axis; `effective_step_size` is each method's own.
    bounds: run → theorem → the largest value of the hyper-parameter that it covers.
    """

    kind: Literal["sensitivity"]
    measurement: Level = "gradient_norm"
    rows: Literal["effective_step_size", "partition", "run", "none"] = "none"
    hyper_parameter: str
    bounds: dict[str, dict[str, PositiveFloat]] = Field(default={})

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(self.bounds)

    @property
    def shows_every_point(self) -> bool:
        return True

    @model_validator(mode="after")
    def _row_has_several_values(self) -> Self:
        if self.hyper_parameter == self.rows:
            raise ValueError("hyper_parameter: must be one of which a row has several values")
        return self

    def check(self, experiment: Experiment) -> None:
        """The figure shows what points are chosen by, against what every run states."""
        chosen_by, name = experiment.selection.measurement, self.hyper_parameter
        if self.measurement != chosen_by:
            raise ValueError(
                f"the figure shows {self.measurement}, but points are chosen by {chosen_by}: kind "
                "sensitivity needs the same measurement"
            )
        for run, declared in experiment.runs.items():
            # A mapping within a run's values, or another experiment, may hold it, too.
            known = name in (*declared.hyper_parameters, *declared.grid) or declared.tuned_in
            if not known and name != EFFECTIVE_STEP_SIZE and "." not in name:
                raise ValueError(f"the figure's hyper_parameter: run '{run}' states no '{name}'")

    def compose(self, title: str, shown: Shown) -> Canvas:
        """A column for each part of the rounds, a line for each run and what else it varies.

        Markers are medians over seeds of the mean level, as points are chosen by; bars reach from
        the lowest to the highest seed. Points that lost seeds have a cross on top.
        """
        columns, rows = _columns(shown.rule.window), _rows(self, shown)
        panels = len(rows) * len(columns)
        canvas, places = new_panels(panels, _HEIGHT, len(columns), sharex=True)
        axes = np.reshape(np.array(places), (len(rows), len(columns)))
        values = [*(value for row in rows for line in row.lines for value in line.values)]
        values += [value for row in rows for _, value in row.bounds]
        if min(values) > 0 and max(values) >= 10 * min(values):
            axes[0, 0].set_xscale("log")  # all panels share it
        name = MEASUREMENTS[self.measurement].long_name
        name = f"1 − {name}" if self.measurement in LARGER_IS_BETTER else name
        for row, places in zip(rows, axes, strict=True):
            for number, place in enumerate(places):
                _draw_panel(place, row, number)
            places[0].set_ylabel(
                fill(f"{row.title}: {name}" if row.title else name, _LETTERS_OF_AXIS)
            )
        for place, column in zip(axes[0], columns, strict=True):
            place.set_title(column.title)
        for place in axes[-1]:
            place.set_xlabel(self.hyper_parameter.replace("_", " "))
        note = shown.seeds("geometric mean over rounds; median and range of ")
        finish(canvas, title, note, _legend(rows))
        return canvas


class _Column(NamedTuple):
    """Over which rounds levels are means: the last `window` of the first `until` of all."""

    title: str
    until: float
    window: float


class _Line(NamedTuple):
    """A run at one combination of what else its points differ by, from small to large values.

    levels: (columns, points, seeds). chosen: index of the chosen point, if it lies on this line.
    """

    label: str
    colour: str
    look: tuple[Any, str]
    values: np.ndarray
    levels: np.ndarray
    chosen: int | None


class _Row(NamedTuple):
    """bounds: theorem and the largest value that it covers, with the colour of its run."""

    title: str
    lines: list[_Line]
    bounds: dict[tuple[str, float], str]


def _columns(window: float) -> list[_Column]:
    """Early, the levels by which points are chosen and, unless these are the last ones, late."""
    scored = "all rounds" if window == 1 else f"last {100 * window:.3g} % of the rounds"
    columns = [_Column("first tenth of the rounds", _END, 1.0)]
    columns.append(_Column(f"{scored},\nby which points are chosen", 1.0, window))
    if window > _END:
        columns.append(_Column("last tenth of the rounds", 1.0, _END))
    return columns


def _rows(figure: SensitivityFigure, shown: Shown) -> list[_Row]:
    """The figure's rows; a run has one colour throughout."""
    look_of = shown.looks()
    grouped: dict[str, _Row] = {}
    for run, points in shown.traces.items():
        label = shown.run_titles[run]
        of_row: dict[str, dict[str, Trace]] = {}
        for point, trace in points.items():
            title = row_title(figure.rows, trace, label)
            of_row.setdefault(title, {})[point] = trace
        for title, traces in of_row.items():
            row = grouped.setdefault(title, _Row(title, [], {}))
            row.lines.extend(_lines(figure, shown, run, traces, look_of[label].colour))
            for bound in figure.bounds.get(run, {}).items():
                mixed = bound in row.bounds or figure.rows == "run"
                row.bounds[bound] = _SHARED if mixed else look_of[label].colour
    return list(grouped.values())


def _lines(
    figure: SensitivityFigure, shown: Shown, run: str, traces: Mapping[str, Trace], colour: str
) -> list[_Line]:
    """The lines of a run in one row; of its colour, or of their own where the row is of one run."""
    columns = _columns(shown.rule.window)
    value_of = {point: _value(figure.hyper_parameter, trace) for point, trace in traces.items()}
    chosen = _chosen(shown, run, [*traces])
    on_lines = _on_lines(traces, value_of)
    alone = figure.rows == "run" and len(on_lines) > 1
    colour_of = colours(on_lines.keys()) if alone else {}
    lines = []
    for number, (told, points) in enumerate(on_lines.items()):
        levels = [
            [_levels(traces[point], figure.measurement, column) for point in points]
            for column in columns
        ]
        named = [] if alone and told else [shown.run_titles[run]]
        lines.append(
            _Line(
                ", ".join([*named, told] if told else named),
                colour_of.get(told, colour),
                _LOOKS[number % len(_LOOKS)],
                np.array([value_of[point] for point in points]),
                np.array(levels),
                points.index(chosen) if chosen in points else None,
            )
        )
    return lines


def _on_lines(traces: Mapping[str, Trace], value_of: Mapping[str, float]) -> dict[str, list[str]]:
    """Points from small to large values, by what else they differ in, in words.

    That is what points with the same value differ in: not a step that the value comes with.
    """
    varied: dict[str, None] = {}
    for value in value_of.values():
        alike = {point: traces[point] for point in traces if value_of[point] == value}
        for point in alike:
            varied |= dict.fromkeys(varied_hyper_parameters(point, alike))
    on_lines: dict[str, list[str]] = {}
    for point, trace in traces.items():
        declared = flat(hyper_parameters(trace))
        told = format_hyper_parameters({key: declared[key] for key in varied if key in declared})
        on_lines.setdefault(told, []).append(point)
    return {told: sorted(points, key=value_of.__getitem__) for told, points in on_lines.items()}


def _chosen(shown: Shown, run: str, points: Sequence[str]) -> str | None:
    """The run's chosen point if it is one of these, otherwise the best of these that lost no seed.

    Experiments that state a step and tune the rest take that one.
    """
    choice = shown.chosen[shown.rule.shared.get(run, run)]
    if choice.point in points:
        return choice.point
    best = min(points, key=choice.scores.__getitem__)
    return best if np.isfinite(choice.scores[best]) else None


def _value(name: str, trace: Trace) -> float:
    """Where on the x axis a point lies."""
    if name == EFFECTIVE_STEP_SIZE:
        return round(float(trace.attrs[name]), 12)
    return number_at(trace, name)


def _levels(trace: Trace, measurement: str, column: _Column) -> np.ndarray:
    """(seeds,) mean levels, +inf for a lost seed."""
    budget = column.until * specification(trace)["rounds"]
    return reached(trace, measurement, "round", budget, column.window)


def _draw_panel(place: Axes, row: _Row, column: int) -> None:
    if any(np.isfinite(line.levels[column]).any() for line in row.lines):
        place.set_yscale("log")
    else:
        place.text(0.5, 0.5, "every seed was lost", transform=place.transAxes, ha="center")
        place.set_yticks([])
    for above, line in enumerate(reversed(row.lines)):
        order: Any = {"color": line.colour, "zorder": 3 + 0.01 * above}
        (style, marker), (medians, (low, high)) = line.look, _heights(line.levels[column])
        place.plot(line.values, medians, ls=style, marker=marker, ms=4, lw=1.2, **order)
        place.vlines(line.values, low, high, lw=1.0, alpha=0.6, **order)
        if (at := line.chosen) is not None:
            # Of growing size: rings of several lines in one place lie about each other.
            ring = _RING | {"ms": _RING["ms"] + 1.5 * above, "mec": line.colour, "zorder": 4}
            place.plot(line.values[at], medians[at], **ring)
    # After the lines: limits of a bound alone, a single value, may be too close for matplotlib.
    for (_, value), colour in row.bounds.items():
        place.axvline(value, color=colour, **_BOUND)
    lossy = [line for line in row.lines if not np.isfinite(line.levels[column]).all()]
    _make_room(place, _CROSS_ROOM * (len(lossy) + 1))
    for above, line in enumerate(reversed(lossy)):
        height = 1 - _CROSS_ROOM * (above + 0.5)  # of their own for each line, as they may coincide
        for lost, cross in zip(_losses(line.levels[column]), (_ALL_LOST, _SOME_LOST), strict=True):
            heights = np.full(lost.sum(), height)
            on_top = place.get_xaxis_transform()
            place.plot(line.values[lost], heights, color=line.colour, transform=on_top, **cross)


def _make_room(place: Axes, share: float) -> None:
    """Keep so much of a logarithmic axis free on top."""
    if place.get_yscale() == "log":
        low, high = np.log10(place.get_ylim())
        place.set_ylim(top=10 ** (high + (high - low) * share / (1 - share)))
        tick_decades(place)


def _heights(levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median over all seeds and range of those that are left, (points,) and (2, points).

    levels: (points, seeds), +inf for a lost seed. NaN where there is none.
    """
    left = np.isfinite(levels)
    low, high = np.where(left, levels, np.inf).min(1), np.where(left, levels, -np.inf).max(1)
    heights = np.stack([np.median(levels, axis=1), low, high])
    heights = 10.0 ** np.where(np.isfinite(heights), heights, np.nan)
    return heights[0], heights[1:]


def _losses(levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(points,) where every seed is lost, and where some are but not all."""
    left = np.isfinite(levels)
    return ~left.any(axis=1), left.any(axis=1) & ~left.all(axis=1)


def _legend(rows: Sequence[_Row]) -> list[Line2D]:
    """Lines and bounds of all rows, each once."""
    handles: dict[Any, Line2D] = {}
    for row in rows:
        for line in row.lines:
            if line.label == row.title:
                continue
            style, marker = line.look
            look: Any = {"color": line.colour, "ls": style, "marker": marker, "ms": 4, "lw": 1.2}
            handles.setdefault((line.label, line.colour, marker), entry(line.label, **look))
        for (theorem, value), colour in row.bounds.items():
            label = fill(f"bound of {theorem}: {value:.2g}", _LETTERS_OF_LABEL)
            handles.setdefault((label, colour), entry(label, color=colour, **_BOUND))
    lines = [line for row in rows for line in row.lines]
    found = list(handles.values())
    if any(line.chosen is not None for line in lines):
        found.append(entry("chosen of a run", color="grey", **_RING | {"mec": "grey"}))
    lost = [_losses(levels) for line in lines for levels in line.levels]
    if any(whole.any() for whole, _ in lost):
        found.append(entry("every seed lost", color="grey", **_ALL_LOST))
    if any(some.any() for _, some in lost):
        found.append(entry("some seeds lost", color="grey", **_SOME_LOST))
    return found
