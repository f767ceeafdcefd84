"""Figures of tuning as a cost: how far runs get by how many configurations were tried."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fedatlas.evaluation.levels import Trace
from fedatlas.evaluation.selection import scores
from fedatlas.evaluation.tuning import BAND, band_of_best, expected_best
from fedatlas.figures.style import (
    DASHED,
    Shown,
    entry,
    finish,
    new_panels,
    tick_decades,
    tick_plainly,
)
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.figures import Figure
from fedatlas.schema.quantities import LARGER_IS_BETTER, MEASUREMENTS, Level

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_LETTERS = 32  # of a line of a label
_TICKS = (1, 2, 3, 5, 10, 20, 50, 100)


class TriesFigure(Figure):
    """The expected level of the best of n configurations of each grid, and a band of it.

    The best is that by which points are chosen.

    measurement, also: of which levels are shown, a panel each.
    """

    kind: Literal["tries"]
    measurement: Level = "gradient_norm"
    also: tuple[Level, ...] = ()

    @property
    def measurements(self) -> tuple[Level, ...]:
        return (self.measurement, *self.also)

    def check(self, experiment: Experiment) -> None:
        """Something must have been chosen."""
        if not any(experiment.runs[run].grid for run in experiment.runs):
            raise ValueError("the figure's kind tries: no run has a grid")

    def compose(self, title: str, shown: Shown) -> Canvas:
        """A panel for each measurement, a line for each run with a grid.

        Levels are medians over seeds, means over the same part of the rounds as those by which
        points are chosen. Where all that was drawn may be lost, there is no expectation.
        """
        look_of, grids = shown.looks(), _grids(shown)
        canvas, axes = new_panels(len(self.measurements), 3.4)
        for place, measurement in zip(axes, self.measurements, strict=True):
            for run, traces in grids.items():
                line = _line(traces, measurement, shown.rule.window)
                _draw(place, line, look_of[shown.run_titles[run]].colour)
            name = MEASUREMENTS[measurement].long_name
            name = f"1 − {name}" if measurement in LARGER_IS_BETTER else name
            place.set_ylabel(fill(name, _LETTERS))
            place.set_yscale("log")
            tick_decades(place)
            place.set_xscale("log")
            most = max(len(traces) for traces in grids.values())
            tick_plainly(place.xaxis, [*(tick for tick in _TICKS if tick < most / 1.2), most])
            place.set_xlabel("configurations tried")
        handles = [
            entry(shown.run_titles[run], color=look_of[shown.run_titles[run]].colour, lw=1.4)
            for run in grids
        ]
        handles.append(entry(f"{BAND:.0%} of draws", color="grey", ls=DASHED, lw=0.9))
        note = (
            "expected level of the best of so many configurations, drawn without replacement\na "
            f"line begins where none may be lost\n{shown.seeds('medians of ')}"
        )
        finish(canvas, title, note, handles)
        return canvas


class _Line(NamedTuple):
    """Levels by number of tries, (tries,): expectation and band; infinite where lost."""

    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray


def _grids(shown: Shown) -> dict[str, list[Trace]]:
    """Run → its traces from the best configuration on, of runs that chose among several."""
    found = {}
    for run, points in shown.traces.items():
        ranks: Mapping[str, float] = shown.chosen[run].scores
        order = sorted(ranks, key=ranks.__getitem__)
        if len(order) > 1 and run not in shown.rule.shared and set(order) <= set(points):
            found[run] = [points[point] for point in order]
    return found


def _line(traces: list[Trace], measurement: str, window: float) -> _Line:
    levels = np.array([np.median(scores(trace, measurement, window)) for trace in traces])
    return _Line(expected_best(levels), *band_of_best(levels))


def _draw(place: Axes, line: _Line, colour: str) -> None:
    tries = np.arange(1, len(line.expected) + 1)
    expected, low, high = (10.0 ** np.where(np.isfinite(levels), levels, np.nan) for levels in line)
    place.plot(tries, expected, color=colour, lw=1.4, marker="o", ms=2.5)
    for bound in (low, high):
        place.plot(tries, bound, color=colour, lw=0.9, ls=DASHED, alpha=0.7)
