from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import format_cost
from fedatlas.evaluation.levels import common_budget
from fedatlas.evaluation.relations import (
    ComparisonTest,
    format_ends,
    format_loss,
    judged_by,
    losses_by,
    starting_losses,
)
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, RunTest
from fedatlas.schema.measurements import Level


class MonotoneTest(ComparisonTest, RunTest):
    """Within one run, each larger step converges faster than the next smaller one.

    A point whose median ends above where it started has not converged and is left out.
    """

    kind: Literal["monotone"]
    measurement: Level = "gradient_norm"

    @property
    def of_choice(self) -> bool:
        return False

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        points = results.points_by_step(self.run)
        by_step = {step: results.traces[self.run][point] for step, point in points.items()}
        if len(by_step) < 2:
            raise FedatlasError(f"run '{self.run}' has one step size, nothing to compare")
        budget = common_budget(list(by_step.values()), "round")
        smaller: float | None = None
        for step, trace in by_step.items():
            losses = losses_by(trace, self.measurement, "round", budget, results.window)
            start = float(np.median(starting_losses(trace, self.measurement)))
            if not np.median(losses) < start:
                evidence = (
                    f"{self.measurement} by {format_cost('round', budget)}: "
                    f"{format_ends(f'step {step:g}', losses, self.unit, self.measurement)}, "
                    f"{format_loss(start, self.unit)} at the start; it does not converge, which "
                    "the claim excepts"
                )
                yield CaseOutcome(f"step {step:g}", "not testable", evidence)
                continue
            if smaller is not None:
                pair = {step: trace, smaller: by_step[smaller]}
                finding = judged_by(budget, partial(self._by, results, pair))
                finding = results.at_points(finding, {self.run: points[step]})
                yield replace(finding, case=f"step {step:g} against {smaller:g}")
            smaller = step

    def _by(self, results: Results, pair: Mapping[float, Trace], budget: float) -> CaseOutcome:
        named = [
            (f"step {step:g}", losses_by(trace, self.measurement, "round", budget, results.window))
            for step, trace in pair.items()
        ]
        return self.compared(
            results,
            list(pair.values()),
            named,
            subject=f"{self.measurement} by {format_cost('round', budget)}",
            what=self.measurement,
            measurement=self.measurement,
        )
