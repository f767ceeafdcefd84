"""Declared rates beside the curves of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import column, common_costs, diverged, drawn_values, is_counted
from fedatlas.evaluation.selection import hyper_parameters
from fedatlas.schema.quantities import COSTS
from fedatlas.schema.rates import FACTOR, START, check_names, evaluate, formula_names
from fedatlas.schema.runs import flat

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedatlas.evaluation.levels import Trace

_FINE = 400  # points of a line at least
_ROOM = 0.06  # of an axis, beyond a rate that would leave it


@dataclass(frozen=True)
class Rate:
    """A formula of a measurement of a run at one point. look: of its line.

    where: its key, as errors call it.
    """

    label: str
    formula: str
    measurement: str
    trace: Trace
    look: dict[str, Any]
    where: str

    @property
    def is_scaled(self) -> bool:
        """Whether it is drawn through its curve."""
        return FACTOR in formula_names(self.formula)

    def line(self, cost: str, *, logarithmic: bool) -> tuple[np.ndarray, np.ndarray, float]:
        """Costs and values along the run, and the value at the middle record.

        Costs are those at which medians are drawn, and rise evenly between records. A logarithmic
        axis begins at the first record with a cost.
        """
        self._check()
        healthy = ~diverged(self.trace)
        spent = common_costs(self.trace, cost) if is_counted(self.trace, cost) else np.empty(0)
        if not len(spent):
            return np.empty(0), np.empty(0), np.nan
        curve = np.median(drawn_values(self.trace, self.measurement)[healthy], axis=0)
        records, middle = np.arange(len(curve)), len(curve) // 2
        fine = np.union1d(records, np.linspace(0, records[-1], _FINE))
        values: dict[str, Any] = flat(hyper_parameters(self.trace)) | {START: curve[0], FACTOR: 1.0}
        for name in formula_names(self.formula) & COSTS.keys():
            values[name] = np.interp(fine, records, common_costs(self.trace, name))
        found, at = evaluate(self.formula, values), int(np.searchsorted(fine, middle))
        if self.is_scaled:
            without = evaluate(self.formula, values | {FACTOR: 0.0})
            with np.errstate(all="ignore"):
                factor = (curve[middle] - without[at]) / (found[at] - without[at])
            found = evaluate(self.formula, values | {FACTOR: factor})
        x = np.interp(fine, records, spent)
        first = spent[spent > 0].min(initial=np.inf) if logarithmic else -np.inf
        shown = np.isfinite(found) & (x >= first)
        return x[shown], found[shown], float(found[at])

    def _check(self) -> None:
        """Raise FedatlasError where the run has not what the formula names."""
        try:
            check_names(self.formula, flat(hyper_parameters(self.trace)))
        except ValueError as error:
            raise FedatlasError(f"{self.where}: {error}") from None
        for name in formula_names(self.formula) & COSTS.keys():
            column(self.trace, name)


def draw_rates(rates: Sequence[Rate], places: Sequence[Axes], costs: Sequence[str]) -> None:
    """Draw rates into a row of panels that share their y axis, which holds each rate's middle.

    Elsewhere a rate may leave the axis, which is that of the curves: an exponential would squeeze
    them. costs: of the panels.
    """
    low, high = places[0].get_ylim()
    is_logarithmic = places[0].get_yscale() == "log"
    for place, cost in zip(places, costs, strict=True):
        for rate in rates:
            x, y, middle = rate.line(cost, logarithmic=place.get_xscale() == "log")
            shown = y > 0 if is_logarithmic else np.full(len(y), True)
            place.plot(x[shown], y[shown], zorder=2.5, **rate.look)
            if np.isfinite(middle) and (middle > 0 or not is_logarithmic):
                low, high = _holding(middle, low, high, logarithmic=is_logarithmic)
    places[0].set_ylim(low, high)


def _holding(value: float, low: float, high: float, *, logarithmic: bool) -> tuple[float, float]:
    """Limits that hold the value, too."""
    if low <= value <= high:
        return low, high
    room = (max(value, high) / min(value, low)) ** _ROOM if logarithmic else 0.0
    if logarithmic:
        return (value / room, high) if value < low else (low, value * room)
    room = _ROOM * (max(value, high) - min(value, low))
    return (value - room, high) if value < low else (low, value + room)
