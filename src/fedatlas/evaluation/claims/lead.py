"""Leads of one run over another, in two places."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
from pydantic import PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparing import (
    EFFECT_KEYS,
    SHARES,
    EffectTest,
    Measured,
    by_cost,
    check_pairs,
    format_ends,
    range_before,
    robustly,
    shared_range,
)
from fedatlas.evaluation.comparison import advantages
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import counts, format_effect
from fedatlas.evaluation.results import NotTestableError, Results
from fedatlas.schema.claims import CaseOutcome, Kind
from fedatlas.schema.quantities import Cost, Level


class LeadTest(EffectTest):
    """By how much more `first` is ahead of `second` in one place than in another.

    The statistic is the lead in the second place minus that in the first, seed by seed, in units of
    the measurement.

    gap_widens: By how much more `first` is ahead of `second` under one cost than under another.
    Both are compared after a declared time under each cost. The statistic is the lead under the
    second of `costs` minus that under the first. A seed that one run lost is infinitely far behind
    under either cost, and shows no widening.

    lead_grows_with_step: By how much more `first` is ahead of `second` at a large step than at a
    small one. Both are compared at equal cost, at the largest and the smallest effective step size
    that both have. The statistic is the lead at the largest minus that at the smallest.

    first, second: runs; the claim is about the first. costs: where the gap is narrow, and where it
    is wide: [latency(10), latency(100)]. at: what of each cost to compare after; None: the largest
    that both runs spent.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "gap_widens": Kind(
            requires=("first", "second", "measurement", "costs"), takes=("at", *EFFECT_KEYS)
        ),
        "lead_grows_with_step": Kind(
            requires=("first", "second"), takes=("measurement", "cost", *EFFECT_KEYS)
        ),
    }

    first: str
    second: str
    measurement: Level = "gradient_norm"
    cost: Cost = "round"
    costs: tuple[Cost, Cost] | None = None
    at: tuple[PositiveFloat, PositiveFloat] | None = None

    @property
    def counted(self) -> tuple[str, ...]:
        return self.costs or (self.cost,)

    @property
    def of_choice(self) -> bool:
        return self.costs is not None

    @model_validator(mode="after")
    def _costs_differ(self) -> Self:
        if self.costs and self.costs[0] == self.costs[1]:
            raise ValueError(f"costs: {self.costs[0]} stands twice; name two costs")
        return self

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        if self.costs:
            traces = results.selected(*self.runs)
            outcome = robustly(partial(self._under_costs, results, traces), SHARES)
            yield results.tuned(outcome, *self.runs)
            return
        steps = results.common_steps(*self.runs)
        if len(steps) < 2:
            raise FedatlasError(
                f"runs '{self.first}' and '{self.second}' share one effective step size, nothing "
                "to compare"
            )
        ends = {step: steps[step] for step in (min(steps), max(steps))}
        pairs = {
            step: [results.traces[run][points[run]] for run in self.runs]
            for step, points in ends.items()
        }
        outcome = robustly(partial(self._at_steps, results, pairs), SHARES)
        tuning = [
            f"at step {step:g}: {how}"
            for step, points in ends.items()
            if (how := results.tuning_at(points))
        ]
        yield replace(outcome, evidence="; ".join([outcome.evidence, *tuning]))

    def _under_costs(self, results: Results, traces: Sequence[Trace], share: float) -> CaseOutcome:
        found = []
        for cost, at in zip(self.costs or (), self.at or (None, None), strict=True):
            start, budget = range_before(traces, self.runs, cost, at)
            if share * budget <= start:
                raise NotTestableError("one run has no record before the time of comparison")
            found.append(by_cost(traces, self.measurement, cost, share * budget, results.window))
        return self._widened(results, [traces, traces], found)

    def _at_steps(
        self, results: Results, pairs: Mapping[float, Sequence[Trace]], share: float
    ) -> CaseOutcome:
        traces = [trace for pair in pairs.values() for trace in pair]
        _, budget = shared_range(traces, self.cost, share)
        found = []
        for step, pair in pairs.items():
            own = by_cost(pair, self.measurement, self.cost, budget, results.window)
            found.append(own._replace(subject=f"{own.subject} at effective step {step:g}"))
        return self._widened(results, list(pairs.values()), found)

    def _widened(
        self, results: Results, pairs: Sequence[Sequence[Trace]], found: Sequence[Measured]
    ) -> CaseOutcome:
        """The lead that should be narrow, then the one that should be wide.

        A seed that both runs lost in one place, or that one run lost in both, shows no change.
        """
        traces = [trace for pair in pairs for trace in pair]
        check_pairs(traces)
        leads = [advantages(*each.losses) for each in found]
        unknown = np.isinf(leads[0]) & (leads[0] == leads[1])
        for each in found:
            unknown |= np.isinf(each.losses).all(axis=0)
        if unknown.all():
            raise NotTestableError("a run without any seed shows no gap")
        with np.errstate(invalid="ignore"):
            gaps = np.where(unknown, 0.0, leads[1] - leads[0])
        outcome, effect = results.compare(gaps, self.criterion, self.unit, traces, self.measurement)
        levels = "; ".join(
            f"{each.subject}: "
            + ", ".join(
                format_ends(run, values, self.unit, self.measurement)
                for run, values in zip(self.runs, each.losses, strict=True)
            )
            for each in found
        )
        gap = format_effect(effect, f"the gap in {self.measurement}:", "wider", "narrower")
        if self.unit == "decades":
            gap = format_effect(effect, f"ratio of {self.measurement}", "", "")
        rows = results.of_test_rows(traces, self.measurement)
        return CaseOutcome("", outcome, f"{levels}; {gap}; {counts(effect)}{rows}", effect)
