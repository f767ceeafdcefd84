from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.leads import Lead, LeadTest
from fedatlas.evaluation.levels import common_budget, common_start
from fedatlas.evaluation.relations import judged_by, losses_by
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.shared_costs import format_common_cost, why_not_shared
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.cost_names import Cost
from fedatlas.schema.measurements import Level

#: A step size and the traces of both runs at it.
_AtStep = tuple[float, Sequence[Trace]]


class LeadGrowsWithStepTest(LeadTest):
    """By how much more `first` is ahead of `second` at a large step than at a small one.

    Both are compared at equal cost, at the largest and the smallest effective step size that both
    have. The statistic is the lead at the largest minus that at the smallest.
    """

    kind: Literal["lead_grows_with_step"]
    measurement: Level = "gradient_norm"
    cost: Cost = "round"

    @property
    def of_choice(self) -> bool:
        return False

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        steps = results.common_steps(*self.runs)
        if len(steps) < 2:
            raise FedatlasError(
                f"runs '{self.first}' and '{self.second}' share one effective step size, nothing "
                "to compare"
            )
        ends = [(step, steps[step]) for step in (min(steps), max(steps))]
        at = [(step, [results.traces[run][pair[run]] for run in self.runs]) for step, pair in ends]
        finding = self._finding(results, at)
        told = [
            f"at step {step:g}: {how}" for step, pair in ends if (how := results.tuning_at(pair))
        ]
        yield replace(finding, evidence="; ".join([finding.evidence, *told]))

    def _finding(self, results: Results, at: Sequence[_AtStep]) -> CaseOutcome:
        traces = [trace for _, pair in at for trace in pair]
        budget, start = common_budget(traces, self.cost), common_start(traces, self.cost)
        if why := why_not_shared(traces, self.cost, budget):
            return CaseOutcome("", "not testable", why)
        if budget <= start:
            return CaseOutcome("", "not testable", "one run has no record before another ends")
        return judged_by(budget, partial(self._at, results, at), start=start)

    def _at(self, results: Results, at: Sequence[_AtStep], budget: float) -> CaseOutcome:
        return self.widened(
            results,
            *(
                Lead(
                    f"{self.measurement} by {format_common_cost(pair, self.cost, budget)} at "
                    f"effective step {step:g}",
                    pair,
                    [
                        losses_by(trace, self.measurement, self.cost, budget, results.window)
                        for trace in pair
                    ],
                )
                for step, pair in at
            ),
        )
