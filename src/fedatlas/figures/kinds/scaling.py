"""Scaling figures: speed-up, by simulated time or another cost, against parties or clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.evaluation.levels import Trace, cost_to_reach, log_target, specification
from fedatlas.evaluation.slopes import Size, sizes_of
from fedatlas.figures.colours import looks
from fedatlas.figures.style import (
    BANDS,
    DASHED,
    MARKERS,
    Shown,
    entry,
    finish,
    legend_beside,
    method_of,
    new_panels,
    tick_plainly,
)
from fedatlas.schema.figures import Figure, check_dashed
from fedatlas.schema.quantities import (
    LARGER_IS_BETTER,
    MEASUREMENTS,
    Cost,
    Level,
    axis,
    check_target,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


class ScalingFigure(Figure):
    """Speed-up against the number of parties or clients, a line for each group of runs.

    measurement, target: to which the cost is taken. cost: of which there is less by the speed-up.
    groups: label → runs by rising number of parties or clients.
    dashed: run drawn in dashes → the run whose colour it takes.
    """

    kind: Literal["scaling"]
    measurement: Level = "gradient_norm"
    target: PositiveFloat = 1e-3
    cost: Cost = "simulated_time"
    groups: dict[str, tuple[str, ...]] = Field(min_length=1)
    dashed: dict[str, str] = Field(default={})

    @property
    def counted(self) -> tuple[str, ...]:
        return (self.cost,)

    @property
    def runs(self) -> tuple[str, ...]:
        grouped = (run for runs in self.groups.values() for run in runs)
        return (*self.dashed, *self.dashed.values(), *grouped)

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        check_dashed(self.dashed)
        check_target(self, self.measurement, self.target)
        return self

    def compose(self, title: str, shown: Shown) -> Canvas:
        """One line per group: the cost of its first run over that of each run, seed by seed.

        Lines are medians. Bands reach from the lowest to the highest seed. The legend counts the
        seeds that are left out because they miss the target with some number of parties.
        """
        dashed = _dashed_groups(self)
        methods = {
            label: method_of(shown.traces[runs[0]], label)
            for label, runs in self.groups.items()
            if label not in dashed
        }
        look_of = looks(methods)
        look_of |= {label: look_of[other] for label, other in dashed.items()}
        canvas, (place,) = new_panels(1, 3.4)
        handles = []
        target = log_target(self.measurement, self.target)
        ticks: set[int] = set()
        holders = "parties"
        for number, (label, runs) in enumerate(self.groups.items()):
            series = [shown.chosen_trace(run) for run in runs]
            holders, counts = _holders(series)
            spent = np.stack(
                [cost_to_reach(run, self.measurement, self.cost, target) for run in series]
            )
            whole = np.isfinite(spent).all(axis=0)
            lost = int((~whole).sum())
            note = f"\n{lost} of {len(whole)} seeds miss the target" if lost else ""
            look: dict[str, Any] = {
                "color": look_of[label].colour,
                "ls": DASHED if label in dashed else "-",
                "marker": MARKERS[number % len(MARKERS)],
                "ms": 4.5,
                "mfc": "white" if label in dashed else look_of[label].colour,
            }
            handles.append(entry(label + note, **look))
            ticks |= set(counts.tolist())
            if not whole.any():
                continue
            speed_up = spent[0, whole] / spent[:, whole]
            low, high = speed_up.min(axis=1), speed_up.max(axis=1)
            place.fill_between(counts, low, high, color=look["color"], alpha=0.15, linewidth=0)
            place.plot(counts, np.median(speed_up, axis=1), lw=1.5, zorder=3, **look)
        ends = np.array([min(ticks), max(ticks)])
        ideal: Any = {"color": "grey", "lw": 1.0, "ls": ":"}
        place.plot(ends, ends / ends[0], zorder=2, **ideal)
        handles.append(entry("ideal", **ideal))
        place.set_xscale("log", base=2)
        place.set_yscale("log", base=2)
        tick_plainly(place.xaxis, sorted(ticks))
        tick_plainly(place.yaxis)
        place.set_xlabel(holders)
        one = {"parties": "one party", "clients": "one client"}[holders]
        first = one if ends[0] == 1 else f"{ends[0]} {holders}"
        place.set_ylabel(f"speed-up over {first}")
        legend_beside(place, handles)
        spread = shown.seeds(BANDS)
        level = MEASUREMENTS[self.measurement].long_name
        sign = "≥" if self.measurement in LARGER_IS_BETTER else "≤"
        spent_on = axis(self.cost).long_name
        finish(canvas, title, f"{spent_on} to {level} {sign} {self.target:g}\n{spread}")
        return canvas


def _holders(series: Sequence[Trace]) -> tuple[Size, np.ndarray]:
    """What runs have ever more of, and how many."""
    vertical = "parties" in specification(series[0])["partition"]
    size: Size = "parties" if vertical else "clients"
    return size, sizes_of(series, size)


def _dashed_groups(figure: ScalingFigure) -> dict[str, str]:
    group_of = {run: label for label, runs in figure.groups.items() for run in runs}
    return {
        group_of[run]: group_of[other]
        for run, other in figure.dashed.items()
        if run in group_of and other in group_of
    }
