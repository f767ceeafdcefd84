from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import level, level_name, number, spent
from fedatlas.evaluation.levels import common_budget, log_measurement
from fedatlas.evaluation.relations import (
    RELATIONS,
    SHARES,
    ComparisonTest,
    compared,
    judged_again,
    losses_by,
    told_ends,
    unit_of_losses,
)
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, RunTest
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

    def judge(self, results: Results) -> Iterator[Finding]:
        by_step = results.by_step(self.run)
        if len(by_step) < 2:
            raise FedatlasError(f"run '{self.run}' has one step size, nothing to compare")
        budget = common_budget(list(by_step.values()), "round")
        smaller: float | None = None
        for step, trace in by_step.items():
            levels = losses_by(trace, self.measurement, "round", budget, results.window)
            start = np.median(log_measurement(trace, self.measurement)[:, 0])
            if not np.median(levels) < start:
                evidence = (
                    f"{level_name(self.measurement)} by {spent('round', budget)}: "
                    f"{level(f'step {step:g}', levels)}, {number(start)} at the start; it does not "
                    "converge, which the claim excepts"
                )
                yield Finding(f"[step {step:g}]", "not testable", evidence)
                continue
            if smaller is not None:
                pair = {step: trace, smaller: by_step[smaller]}
                again = {
                    words: partial(self._by, results, pair, share * budget)
                    for words, share in SHARES.items()
                }
                finding = judged_again(self._by(results, pair, budget), again)
                yield replace(finding, case=f"[step {step:g} against {smaller:g}]")
            smaller = step

    def _by(self, results: Results, pair: Mapping[float, Trace], budget: float) -> Finding:
        losses = [
            losses_by(trace, self.measurement, "round", budget, results.window)
            for trace in pair.values()
        ]
        unit = unit_of_losses(self.measurement)

        def told() -> str:
            parts = (
                told_ends(f"step {step:g}", values, self.measurement)
                for step, values in zip(pair, losses, strict=True)
            )
            return f"{level_name(self.measurement)} by {spent('round', budget)}: {', '.join(parts)}"

        direction, factor = RELATIONS["faster"]
        return compared(
            results,
            list(pair.values()),
            losses,
            self.aim(direction, unit, factor),
            told,
            unit,
            measurement=self.measurement,
            what=level_name(self.measurement),
        )
