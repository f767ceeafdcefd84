from collections.abc import Iterator
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from fedatlas.evaluation.budgets import BudgetTest
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, RunTest


class DeltaReachesOneTest(BudgetTest, RunTest):
    """The δ of a run reaches 1 after a number of iterations.

    Nothing is random here: reproduced within the tolerance, otherwise contradicted. Not testable
    where something was fitted to this claim.

    after: the number of iterations that is claimed.
    """

    kind: Literal["delta_reaches_one"]
    after: PositiveInt
    tolerance: NonNegativeInt = Field(description="iterations more or less that still agree")
    fitted: str | None = Field(
        default=None, description="what of the run was fitted to this claim: then it is not judged"
    )

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        found, agrees = [], []
        for case in self.cases(results, self.run):
            delta = case["delta"].dropna("iteration").to_numpy()
            reached = case["iteration"].to_numpy()[: len(delta)][delta >= 1]
            agrees.append(len(reached) > 0 and abs(int(reached[0]) - self.after) <= self.tolerance)
            end = f"after {reached[0]} iterations" if len(reached) else f"never ({delta[-1]:.3g})"
            found.append(f"{end} ({case['accounting'].item()})")
        evidence = f"{self.run}: δ = 1 {', '.join(found)}; claimed {self.after}"
        if self.fitted:
            yield CaseOutcome("", "not testable", f"{evidence}; {self.fitted}")
        else:
            yield CaseOutcome("", "reproduced" if agrees[0] else "contradicted", evidence)
