from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from pydantic import Field, PositiveFloat

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import RelationTest, compared, level_name, spent
from fedatlas.evaluation.levels import common_budget, reached
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding
from fedatlas.schema.experiments import Experiment


class OrderTest(RelationTest):
    """The measurement that two runs reach at equal cost."""

    kind: Literal["order"]
    at: PositiveFloat | None = Field(
        default=None, description="cost at which to compare; None: the largest that both reached"
    )
    for_each: Literal["effective_step_size", "selected"] = Field(
        default="selected",
        description="one case per step size that both runs have, or the selected points only",
    )

    def check(self, experiment: Experiment) -> None:
        if self.cost != "round" or self.at is None:
            return
        for run in self.runs:
            if self.at > experiment.rounds_of(run):
                raise ValueError(
                    f"'at' is {self.at:g}, but run '{run}' takes {experiment.rounds_of(run)} rounds"
                )

    def judge(self, results: Results) -> Iterator[Finding]:
        if self.for_each == "selected":
            chosen, other = results.selected(*self.runs)
            finding = self._compared(chosen, other, results.window)
            yield from results.with_edges([finding], *self.runs)
            return
        first, second = (results.by_step(run) for run in self.runs)
        common = [step for step in reversed(first) if step in second]
        if not common:
            raise FedatlasError(
                f"runs '{self.first}' and '{self.second}' share no effective step size"
            )
        for step in common:
            finding = self._compared(first[step], second[step], results.window)
            yield replace(finding, case=f"[effective step {step:g}]")

    def _compared(self, first: Trace, second: Trace, window: float) -> Finding:
        budget = common_budget([first, second], self.cost)
        if not budget:
            return Finding("", "inconclusive", "every seed of both diverged")
        if self.at is not None:
            if self.at > budget:
                raise FedatlasError(
                    f"'at: {self.at:g}' lies beyond {spent(self.cost, budget)}, the most that "
                    f"'{self.first}' and '{self.second}' both spent"
                )
            budget = self.at
        levels = [
            reached(trace, self.measurement, self.cost, budget, window) for trace in (first, second)
        ]
        named = zip(self.runs, levels, strict=True)
        subject = f"{level_name(self.measurement)} by {spent(self.cost, budget)}"
        return compared(subject, named, self.relation)
