from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import format_cost
from fedatlas.evaluation.leads import Lead, LeadTest
from fedatlas.evaluation.levels import common_budget, common_start
from fedatlas.evaluation.relations import SHARES, judged_again, losses_by
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.shared_costs import format_common_cost, why_not_shared
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.cost_names import Cost


class GapWidensTest(LeadTest):
    """By how much more `first` is ahead of `second` under one cost than under another.

    Both are compared after a declared time under each cost. The statistic is the lead under the
    second of `costs` minus that under the first. A seed that one run lost is infinitely far behind
    under either cost, and shows no widening.
    """

    kind: Literal["gap_widens"]
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

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        yield from results.with_tuning([self._finding(results)], *self.runs)

    def _finding(self, results: Results) -> CaseOutcome:
        traces = results.selected(*self.runs)
        most = [common_budget(traces, cost) for cost in self.costs]
        starts = [common_start(traces, cost) for cost in self.costs]
        for cost, budget in zip(self.costs, most, strict=True):
            if why := why_not_shared(traces, cost, budget):
                return CaseOutcome("", "not testable", why)
        budgets = most if self.at is None else list(self.at)
        for cost, budget, end in zip(self.costs, budgets, most, strict=True):
            if budget > end:
                raise FedatlasError(
                    f"'at: {budget:g}' lies beyond {format_cost(cost, end)}, the most that "
                    f"'{self.first}' and '{self.second}' both spent"
                )
        if any(budget <= start for budget, start in zip(budgets, starts, strict=True)):
            return CaseOutcome(
                "", "not testable", "one run has no record before the time of comparison"
            )
        again = {
            words: partial(self._at, results, traces, [share * budget for budget in budgets])
            for words, share in SHARES.items()
            if all(share * budget > start for budget, start in zip(budgets, starts, strict=True))
        }
        return judged_again(self._at(results, traces, budgets), again)

    def _at(
        self, results: Results, traces: Sequence[Trace], budgets: Sequence[float]
    ) -> CaseOutcome:
        return self.widened(
            results,
            *(
                Lead(
                    f"{self.measurement} by {format_common_cost(traces, cost, budget)}",
                    traces,
                    [
                        losses_by(trace, self.measurement, cost, budget, results.window)
                        for trace in traces
                    ],
                )
                for cost, budget in zip(self.costs, budgets, strict=True)
            ),
        )
