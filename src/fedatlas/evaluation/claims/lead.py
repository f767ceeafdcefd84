"""Tests that compare the lead of one run over another in two places."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
from pydantic import PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import advantages
from fedatlas.evaluation.evidence import bound_of_ratio, counts, format_effect
from fedatlas.evaluation.horizon import BUDGETS, Row
from fedatlas.evaluation.learnt import beside_constant
from fedatlas.evaluation.quantities import (
    EFFECT_KEYS,
    WINDOW,
    EffectTest,
    Measured,
    Window,
    at_floor,
    by_cost,
    format_ends,
    shared_range,
)
from fedatlas.evaluation.results import NotTestableError, Results
from fedatlas.schema.claims import CaseOutcome, Effect, Kind
from fedatlas.schema.quantities import Cost, Level


class LeadTest(EffectTest):
    """Compares how far `first` is ahead of `second` in two places.

    The statistic is the lead in the second place minus that in the first, seed by seed, in units of
    the measurement.

    gap_widens: `first` is further ahead of `second` under one cost than under another. Both runs
    are compared after a declared time under each cost. The statistic is the lead under the second
    of `costs` minus that under the first. A seed that one run lost is infinitely far behind under
    either cost, and shows no widening.

    lead_grows_with_step: `first` is further ahead of `second` at a large step than at a small one.
    Both runs are compared at equal cost, at the largest and the smallest effective step size that
    both have. The statistic is the lead at the largest minus that at the smallest.

    first, second: runs; the claim is about the first. costs: the cost with the narrow gap, then the
    one with the wide gap: [latency(10), latency(100)]. at: the amount of each cost after which to
    compare; None: the largest that both runs spent. window: share of that cost, at its end, over
    which levels are means.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "gap_widens": Kind(
            requires=("first", "second", "measurement", "costs"),
            takes=("at", "window", *EFFECT_KEYS),
        ),
        "lead_grows_with_step": Kind(
            requires=("first", "second"), takes=("measurement", "cost", "window", *EFFECT_KEYS)
        ),
    }

    first: str
    second: str
    measurement: Level = "gradient_norm"
    cost: Cost = "round"
    costs: tuple[Cost, Cost] | None = None
    at: tuple[PositiveFloat, PositiveFloat] | None = None
    window: Window = WINDOW

    @property
    def counted(self) -> tuple[str, ...]:
        return self.costs or (self.cost,)

    @property
    def of_choice(self) -> bool:
        return self.costs is not None

    @property
    def row(self) -> Row | None:
        return BUDGETS

    @model_validator(mode="after")
    def _costs_differ(self) -> Self:
        if self.costs and self.costs[0] == self.costs[1]:
            raise ValueError(f"costs: {self.costs[0]} stands twice; name two costs")
        return self

    def tuned(self, results: Results, case: CaseOutcome) -> CaseOutcome:
        if self.costs:
            return super().tuned(results, case)
        tuning = [
            f"at step {step:g}: {how}"
            for step, points in self._steps(results).items()
            if (how := results.tuning_at(points))
        ]
        return replace(case, evidence="; ".join([case.evidence, *tuning]))

    def _steps(self, results: Results) -> Mapping[float, Mapping[str, str]]:
        """The points of both runs at the smallest and at the largest step."""
        steps = results.common_steps(*self.runs)
        if len(steps) < 2:
            raise FedatlasError(
                f"runs '{self.first}' and '{self.second}' share one effective step size, nothing "
                "to compare"
            )
        return {step: steps[step] for step in (min(steps), max(steps))}

    def at_scale(self, results: Results, scale: float) -> Iterator[CaseOutcome]:
        """The lead that should be narrow against the one that should be wide.

        A seed that both runs lost in one place, or that one run lost in both, shows no change.
        """
        found: list[Measured] = []
        if self.costs:
            pair = traces = results.selected(*self.runs)
            places = [pair, pair]
            for cost, at in zip(self.costs, self.at or (None, None), strict=True):
                _, end = shared_range(pair, cost, scale, at)
                found.append(by_cost(pair, self.measurement, cost, end, self.window))
        else:
            pairs = {
                step: results.at(points.items()) for step, points in self._steps(results).items()
            }
            places = list(pairs.values())
            traces = [trace for pair in places for trace in pair]
            _, end = shared_range(traces, self.cost, scale)
            for step, pair in pairs.items():
                own = by_cost(pair, self.measurement, self.cost, end, self.window)
                found.append(own._replace(subject=f"{own.subject} at effective step {step:g}"))
        leads = [advantages(*each.losses) for each in found]
        unknown = np.isinf(leads[0]) & (leads[0] == leads[1])
        for each in found:
            unknown |= np.isinf(each.losses).all(axis=0)
        if unknown.all():
            raise NotTestableError("a run without any seed shows no gap")
        with np.errstate(invalid="ignore"):
            gaps = np.where(unknown, 0.0, leads[1] - leads[0])
        ends = [format_ends(self.runs, each, self.unit, self.measurement) for each in found]
        gap_in = f"the gap in {self.measurement}:"
        if self.unit == "decades":
            gap_in = f"ratio of {self.measurement}"

        def describe(effect: Effect) -> str:
            gap = format_effect(effect, gap_in, "wider", "narrower")
            rows = results.of_test_rows(traces, self.measurement)
            return "; ".join([*ends, gap, counts(effect) + rows])

        narrow, wide = (at_floor(each, self.unit, self.measurement) for each in found)
        bound = bound_of_ratio(wide[0] or narrow[1], wide[1] or narrow[0])
        case = self.decided(results, traces, gaps, describe, self.measurement, bound=bound)
        # Where runs have learnt nothing they have no lead.
        beside = [
            beside_constant(
                self, results, case, list(zip(pair, each.losses, strict=True)), self.measurement
            )
            for pair, each in zip(places, found, strict=True)
        ]
        yield next((own for own in beside if own.outcome != case.outcome), beside[0])
