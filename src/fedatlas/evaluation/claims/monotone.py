from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.evidence import compared, level, level_name, number, spent
from fedatlas.evaluation.levels import common_budget, log_measurement, reached
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, RunTest
from fedatlas.schema.measurements import Level


class MonotoneTest(RunTest):
    """Within one run, each larger step is at least as fast as the next smaller one.

    A point whose median ends above where it started has not converged and is left out.
    """

    kind: Literal["monotone"]
    measurement: Level = "gradient_norm"

    def judge(self, results: Results) -> Iterator[Finding]:
        by_step = results.by_step(self.run)
        if len(by_step) < 2:
            raise FedatlasError(f"run '{self.run}' has one step size, nothing to compare")
        budget = common_budget(list(by_step.values()), "round")
        subject = f"{level_name(self.measurement)} by {spent('round', budget)}"
        smaller: tuple[float, np.ndarray] | None = None
        for step, trace in by_step.items():
            levels = reached(trace, self.measurement, "round", budget, results.window)
            start = np.median(log_measurement(trace, self.measurement)[:, 0])
            if not np.median(levels) < start:
                evidence = (
                    f"{subject}: {level(f'step {step:g}', levels)}, {number(start)} at the "
                    "start; it does not converge, which the claim excepts"
                )
                yield Finding(f"[step {step:g}]", "inconclusive", evidence)
                continue
            if smaller is not None:
                named = [(f"step {step:g}", levels), (f"step {smaller[0]:g}", smaller[1])]
                finding = compared(subject, named, "at_least_as_fast")
                yield replace(finding, case=f"[step {step:g} against {smaller[0]:g}]")
            smaller = step, levels
