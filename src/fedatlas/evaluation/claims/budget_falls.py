from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field, PositiveInt

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.budgets import BudgetTest
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, RunTest


class BudgetFallsTest(BudgetTest, RunTest):
    """The ε of a whole run falls with every larger horizon, from `from_horizon` on.

    Nothing is random here: reproduced if it falls at every step, otherwise contradicted.

    from_horizon: K from which on it is claimed to fall.
    """

    kind: Literal["budget_falls"]
    from_horizon: PositiveInt
    floor: bool = Field(
        default=True, description="whether samples are whole numbers, as they are in a run"
    )

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        case = self.cases(results, self.run)[0]
        variable = "final_epsilon" if self.floor else "unfloored_epsilon"
        horizons, epsilon = case["horizon"].to_numpy(), case[variable].to_numpy()
        late = (horizons >= self.from_horizon) & np.isfinite(epsilon)
        if late.sum() < 2:
            raise FedatlasError(f"run '{self.run}' has no budgets of such horizons")
        rises = horizons[late][1:][np.diff(epsilon[late]) >= 0]
        highest = horizons[late][epsilon[late].argmax()]
        evidence = (
            f"{self.run}{'' if self.floor else ', samples not rounded down'}, horizons "
            f"{self.from_horizon} to {horizons[late][-1]}: ε is largest at "
            f"K = {highest} ({epsilon[late].max():.5g}), {epsilon[late][0]:.5g} at the first and "
            f"{epsilon[late][-1]:.5g} at the last; it rises at {len(rises)} of {late.sum() - 1} "
            "steps"
        )
        if len(rises):
            evidence += f", last at K = {rises[-1]}"
        yield CaseOutcome("", "contradicted" if len(rises) else "reproduced", evidence)
