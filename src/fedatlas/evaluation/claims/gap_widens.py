from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import advantages
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import counts, effect_told, spent
from fedatlas.evaluation.levels import common_budget, common_start
from fedatlas.evaluation.relations import (
    SHARES,
    ComparisonTest,
    judged_again,
    losses_by,
    told_ends,
)
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, PairTest
from fedatlas.schema.cost_names import Cost
from fedatlas.schema.measurements import Level


class GapWidensTest(ComparisonTest, PairTest):
    """By how much more `first` is ahead of `second` under one cost than under another.

    Both are compared after a stated time under each cost. The statistic is the lead under the
    second of `costs` minus that under the first, seed by seed, in units of the measurement. A seed
    that one run lost is infinitely far behind under either cost, and shows no widening.
    """

    kind: Literal["gap_widens"]
    measurement: Level
    costs: tuple[Cost, Cost] = Field(
        description="where the gap is narrow, and where it is wide: [latency(10), latency(100)]"
    )
    at: tuple[PositiveFloat, PositiveFloat] | None = Field(
        default=None,
        description="what of each cost to compare after; None: the largest that both runs spent",
    )

    @property
    def counted(self) -> tuple[str, ...]:
        return self.costs

    @model_validator(mode="after")
    def _costs_differ(self) -> Self:
        if self.costs[0] == self.costs[1]:
            raise ValueError(f"costs: {self.costs[0]} stands twice; name two costs")
        return self

    def judge(self, results: Results) -> Iterator[Finding]:
        yield from results.with_tuning([self._finding(results)], *self.runs)

    def _finding(self, results: Results) -> Finding:
        traces = results.selected(*self.runs)
        most = [common_budget(traces, cost) for cost in self.costs]
        starts = [common_start(traces, cost) for cost in self.costs]
        if not all(most):
            return Finding("", "not testable", "every seed of both diverged")
        budgets = most if self.at is None else list(self.at)
        for cost, budget, end in zip(self.costs, budgets, most, strict=True):
            if budget > end:
                raise FedatlasError(
                    f"'at: {budget:g}' lies beyond {spent(cost, end)}, the most that "
                    f"'{self.first}' and '{self.second}' both spent"
                )
        if any(budget <= start for budget, start in zip(budgets, starts, strict=True)):
            return Finding(
                "", "not testable", "one run has no record before the time of comparison"
            )
        again = {
            words: partial(self._at, results, traces, [share * budget for budget in budgets])
            for words, share in SHARES.items()
            if all(share * budget > start for budget, start in zip(budgets, starts, strict=True))
        }
        return judged_again(self._at(results, traces, budgets), again)

    def _at(self, results: Results, traces: Sequence[Trace], budgets: Sequence[float]) -> Finding:
        # (costs, runs, seeds)
        losses = [
            [losses_by(trace, self.measurement, cost, budget, results.window) for trace in traces]
            for cost, budget in zip(self.costs, budgets, strict=True)
        ]
        narrow, wide = (advantages(*of_runs) for of_runs in losses)
        # A seed that one run lost is as far behind under either cost.
        lost = np.isinf(narrow) & (narrow == wide)
        if lost.all():
            return Finding("", "not testable", "a run without any seed shows no gap")
        with np.errstate(invalid="ignore"):
            gaps = np.where(lost, 0.0, wide - narrow)
        outcome, effect = results.compare(gaps, self.aim, self.unit, traces, self.measurement)
        told = "; ".join(
            f"{self.measurement} by {spent(cost, budget)}: "
            + ", ".join(
                told_ends(run, values, self.unit)
                for run, values in zip(self.runs, of_runs, strict=True)
            )
            for cost, budget, of_runs in zip(self.costs, budgets, losses, strict=True)
        )
        gap = effect_told(effect, f"the gap in {self.measurement}:", "wider", "narrower")
        if self.unit == "decades":
            gap = effect_told(effect, f"ratio of {self.measurement}", "", "")
        evidence = (
            f"{told}; {gap}; {counts(effect)}{results.of_test_rows(traces, self.measurement)}"
        )
        seconds = results.seconds_of_a_seed(traces) if outcome == "undecided" else None
        return Finding("", outcome, evidence, effect, seconds=seconds)
