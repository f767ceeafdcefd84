from collections.abc import Iterator
from math import log
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.evaluation.costs import Trace, specification
from fedatlas.evaluation.evidence import format_repeats, plain
from fedatlas.evaluation.levels import common_budget, mean_along
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.slopes import BoundTest, rising
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.measurements import Level

_LEAST = 1e-150  # of a level, which may be 0


class HorizonRateTest(BoundTest):
    """The square of a measurement at the end of runs falls with their horizon K as a theorem says.

    Runs of `series` are whole runs of rising horizons, whose steps follow the horizon. The
    statistic is the exponent of the fall over the printed one, less 1: with `power` the slope of
    its logarithm over that of K + 1, with `base` over K, where the theorem has O(base^K). Theorems
    bound from above: a faster fall reproduces.
    """

    kind: Literal["horizon_rate"]
    series: tuple[str, ...] = Field(min_length=3, description="by rising horizon")
    measurement: Level = "gradient_norm"
    power: PositiveFloat | None = Field(default=None, description="of 1/(K + 1), in the theorem")
    base: float | None = Field(default=None, gt=0, lt=1, description="of K, in the theorem")

    @property
    def runs(self) -> tuple[str, ...]:
        return self.series

    @property
    def unit(self) -> str:
        return "share of the printed exponent"

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.power is None) == (self.base is None):
            raise ValueError("state 'power' or 'base', one of them")
        return self

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        traces = results.selected(*self.series)
        horizons = [int(specification(trace)["hyper_parameters"]["horizon"]) for trace in traces]
        sizes = rising(traces, horizons, "iterations")
        ends = np.stack([self._end(trace, results.window) for trace in traces])
        told = ", ".join(
            f"{plain(float(np.sqrt((10 ** (2 * end)).mean())))} at K = {horizon}"
            for end, horizon in zip(ends, horizons, strict=True)
        )
        subject = f"{self.measurement} at the end, root mean square over seeds: {told}"
        if not np.isfinite(ends).all():
            yield CaseOutcome("", "not testable", f"{subject}; some seeds were lost")
            return
        x = np.log(sizes + 1.0) if self.base is None else sizes.astype(float)
        x = x - x.mean()
        exponents = -2 * log(10) * (x @ ends) / (x @ x)
        printed = self.power if self.base is None else -log(self.base)
        assert printed is not None
        outcome, effect = results.compare(
            exponents / printed - 1, self.criterion, self.unit, traces, self.measurement
        )
        found = [plain((1 + part) * printed) for part in (effect.estimate, effect.low, effect.high)]
        of = "a power of 1/(K + 1)" if self.base is None else "an exponent per iteration"
        evidence = (
            f"{subject}; its square falls with {of} of {found[0]} ({found[1]} to {found[2]}), "
            f"printed {plain(printed)}; a tenth of it counts{format_repeats(effect)}"
        )
        yield from results.with_tuning([CaseOutcome("", outcome, evidence, effect)], *self.series)

    def _end(self, trace: Trace, window: float) -> np.ndarray:
        """(seeds,) logarithms of levels at the end."""
        budget = common_budget([trace], "round")
        if not budget:
            return np.full(trace.sizes["seed"], np.nan)
        # A run may start where the objective is least: to stand above the start is no loss here.
        levels = mean_along(trace, self.measurement, "round", (1 - window) * budget, budget)
        return np.asarray(np.log10(np.maximum(levels, _LEAST)))
