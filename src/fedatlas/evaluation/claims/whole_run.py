"""Tests of how the final measurement of whole runs falls with their horizon."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.evaluation.claims.one_run import FEWEST_DECADES
from fedatlas.evaluation.claims.slope import COUNTING_POWER
from fedatlas.evaluation.comparison import Direction
from fedatlas.evaluation.evidence import (
    counts,
    format_effect,
    format_interval,
    format_repeats,
    plain,
)
from fedatlas.evaluation.horizon import DECISIVE
from fedatlas.evaluation.levels import common_budget, mean_along
from fedatlas.evaluation.quantities import (
    COUNTING_FACTOR,
    EFFECT_KEYS,
    WINDOW,
    EffectTest,
    Window,
)
from fedatlas.evaluation.results import NotTestableError, Results, tested
from fedatlas.evaluation.slopes import BEYOND_EDGE, declared_sizes, sizes_of
from fedatlas.schema.claims import CaseOutcome, Effect, Kind
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.quantities import Level

#: Advantages of seeds, and the evidence of an effect.
Fall: TypeAlias = tuple[np.ndarray, Callable[[Effect], str]]

_PERFECT = 1e-12  # decades: where both laws fit exactly, rounding must not tell them apart
_LEAST = 1e-150  # of a level, which may be 0


class HorizonTest(EffectTest):
    """Fits the final measurement of runs over their horizon K; steps of such runs depend on K.

    Rates describe a limit: an outcome that changes with the larger horizons alone is not testable.

    horizon_rate: The square of the final measurement falls with the horizon as a theorem says. The
    statistic is the exponent of the fall divided by the printed one, minus 1. With `power` the
    exponent is the slope of the logarithm over that of K + 1; with `base` it is the slope over K,
    where the theorem has O(base^K). A tenth of the printed exponent counts.

    horizon_order: The final measurement falls with the horizon as an exponential, or as a power of
    K + 1, and not as the other. Both laws are fitted to a seed's logarithms by least squares. The
    statistic is how much smaller the claimed law's root mean square residual is. A factor of 1.05
    of residuals counts. Falls by less than a decade are not testable.

    series: runs by rising horizon. power, base: the theorem's power of K + 1, or base of K. order:
    the law that is claimed. window: share of a horizon, at its end, over which levels are means.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "horizon_rate": Kind(
            requires=("series",), takes=("measurement", "power", "base", "window", *EFFECT_KEYS)
        ),
        "horizon_order": Kind(
            requires=("series", "order"), takes=("measurement", "window", *EFFECT_KEYS)
        ),
    }

    series: tuple[str, ...] = Field(default=(), min_length=3)
    measurement: Level = "gradient_norm"
    power: PositiveFloat | None = None
    base: float | None = Field(default=None, gt=0, lt=1)
    order: Literal["exponential", "power law"] | None = None
    window: Window = WINDOW

    @property
    def runs(self) -> tuple[str, ...]:
        return self.series

    @property
    def unit(self) -> str:
        return "decades" if self.order else "share of the printed exponent"

    @property
    def direction(self) -> Direction:
        return "better" if self.order else "not worse"

    @property
    def tie(self) -> float:
        return COUNTING_FACTOR if self.order else COUNTING_POWER

    @model_validator(mode="after")
    def _one_exponent_is_printed(self) -> Self:
        if not self.order and (self.power is None) == (self.base is None):
            raise ValueError("state 'power' or 'base', one of them")
        return self

    def check(self, experiment: Experiment) -> None:
        horizons = declared_sizes("horizon", experiment, self.series)
        if None in horizons or horizons != sorted(set(horizons)):
            raise ValueError(f"horizon of series must rise; they are {horizons}")

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        edges = [run for run in self.runs if results.chosen[run].effort.at_edge]
        for case in tested(lambda: self.at_scale(results, 1.0)):
            found = self.tuned(results, self._settled(results, case))
            if edges and found.outcome in DECISIVE:
                found = found.not_testable(BEYOND_EDGE)
            yield found

    def _settled(self, results: Results, case: CaseOutcome) -> CaseOutcome:
        """Not testable where larger horizons alone turn a decided outcome."""
        if len(self.series) < 4 or case.outcome not in DECISIVE:
            return case
        larger = self._of_horizons(results, self.series[1:]).outcome
        if larger == case.outcome or larger not in DECISIVE:
            return case
        return case.not_testable(f"the horizons decide: {larger} without the smallest")

    def at_scale(self, results: Results, scale: float) -> Iterator[CaseOutcome]:
        yield self._of_horizons(results, self.series)

    def _of_horizons(self, results: Results, series: Sequence[str]) -> CaseOutcome:
        traces = results.selected(*series)
        horizons = sizes_of(traces, "horizon")
        levels = []
        for trace in traces:
            end = common_budget([trace], "round")
            start = (1 - self.window) * end
            # A run may start where the objective is least: to stand above it is no loss here.
            levels.append(mean_along(trace, self.measurement, "round", start, end))
        ends = np.log10(np.maximum(levels, _LEAST))
        told = ", ".join(
            f"{plain(float(np.sqrt((10 ** (2 * end)).mean())))} at K = {horizon}"
            for end, horizon in zip(ends, horizons, strict=True)
        )
        subject = f"{self.measurement} at the end, root mean square over seeds: {told}"
        if not np.isfinite(ends).all():
            raise NotTestableError(f"{subject}; some seeds were lost")
        fall = self._laws if self.order else self._exponents
        gaps, describe = fall(horizons, ends, subject)
        return self.decided(results, traces, gaps, describe, self.measurement)

    def _exponents(self, horizons: np.ndarray, ends: np.ndarray, subject: str) -> Fall:
        """By which share exponents, (seeds,), exceed the printed one."""
        x = np.log(horizons + 1.0) if self.base is None else horizons.astype(float)
        x = x - x.mean()
        exponents = -2 * log(10) * (x @ ends) / (x @ x)
        printed = self.power if self.base is None else -log(self.base)
        assert printed is not None

        def describe(effect: Effect) -> str:
            parts = (effect.estimate, effect.low, effect.high)
            found = format_interval(*((1 + part) * printed for part in parts))
            of = "a power of 1/(K + 1)" if self.base is None else "an exponent per iteration"
            return (
                f"{subject}; its square falls with {of} of {found}, printed {plain(printed)}; "
                f"a tenth of it counts{format_repeats(effect)}"
            )

        return exponents / printed - 1, describe

    def _laws(self, horizons: np.ndarray, ends: np.ndarray, subject: str) -> Fall:
        """How much less the claimed law leaves of logarithms of ends, (runs, seeds), in decades.

        NotTestableError where ends fall by too little to tell the laws apart.
        """
        decades = float(np.median(ends[0] - ends[-1]))
        if decades < FEWEST_DECADES:
            raise NotTestableError(
                f"{subject}; that is {decades:.2g} decades; {FEWEST_DECADES:g} or more tell "
                "the two laws apart"
            )
        residuals = {
            "exponential": _residuals(horizons.astype(float), ends),
            "power law": _residuals(np.log10(horizons + 1.0), ends),
        }
        ours = residuals.pop(str(self.order))
        ((other, theirs),) = residuals.items()

        def describe(effect: Effect) -> str:
            residual = format_effect(effect, f"residual of the {other}", "", "")
            return f"{subject}; the {self.order} leaves {residual}; {counts(effect)}"

        return np.log10(theirs / ours), describe


def _residuals(x: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """(seeds,) root mean square that straight lines over x, (runs,), leave of (runs, seeds)."""
    basis = np.column_stack([np.ones_like(x), x / x.max()])
    rest = levels - basis @ np.linalg.lstsq(basis, levels, rcond=None)[0]
    return np.maximum(np.sqrt(np.mean(rest**2, axis=0)), _PERFECT)
