from functools import partial
from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import format_cost
from fedatlas.evaluation.levels import common_budget, common_start
from fedatlas.evaluation.relations import RelationTest, judged_by, losses_by
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.shared_costs import format_common_cost, why_not_shared
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.experiments import Experiment


class OrderTest(RelationTest):
    """The measurement that two runs reach at equal cost."""

    kind: Literal["order"]
    at: PositiveFloat | None = Field(
        default=None, description="cost at which to compare; None: the largest that both reached"
    )
    share: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="in place of `at`: a share of the largest cost that both reached",
    )
    window: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="share of that cost, at its end, over which levels are means; None: as points "
        "are selected",
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.at is not None and self.share is not None:
            raise ValueError("'at' and 'share' both say at which cost to compare; remove one")
        return self

    def check(self, experiment: Experiment) -> None:
        if self.cost != "round" or self.at is None:
            return
        for run in self.runs:
            if self.at > experiment.rounds_of(run):
                raise ValueError(
                    f"'at' is {self.at:g}, but run '{run}' takes {experiment.rounds_of(run)} rounds"
                )

    def judged(self, results: Results, first: Trace, second: Trace) -> CaseOutcome:
        traces = [first, second]
        budget, start = common_budget(traces, self.cost), common_start(traces, self.cost)
        if why := why_not_shared(traces, self.cost, budget):
            return CaseOutcome("", "not testable", why)
        if budget <= start:
            return CaseOutcome(
                "",
                "not testable",
                "no cost that both spent: one has no record before "
                f"{format_cost(self.cost, start)}, one ends at {budget:.4g}",
            )
        if self.at is not None:
            if self.at > budget:
                raise FedatlasError(
                    f"'at: {self.at:g}' lies beyond {format_cost(self.cost, budget)}, the most "
                    f"that '{self.first}' and '{self.second}' both spent"
                )
            budget = self.at
        budget *= self.share or 1.0
        return judged_by(budget, partial(self._at, results, traces), start=start)

    def _at(self, results: Results, traces: list[Trace], budget: float) -> CaseOutcome:
        window = self.window or results.window
        named = [
            (run, losses_by(trace, self.measurement, self.cost, budget, window))
            for run, trace in zip(self.runs, traces, strict=True)
        ]
        return self.compared(
            results,
            traces,
            named,
            subject=f"{self.measurement} by {format_common_cost(traces, self.cost, budget)}",
            what=self.measurement,
            measurement=self.measurement,
        )
