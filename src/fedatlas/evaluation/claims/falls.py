from collections.abc import Iterator
from functools import partial
from typing import Literal

from pydantic import PositiveFloat

from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.levels import until
from fedatlas.evaluation.relations import (
    SHARES,
    ComparisonTest,
    final_losses,
    judged_again,
    starting_losses,
)
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, RunTest
from fedatlas.schema.measurements import Level


class FallsTest(ComparisonTest, RunTest):
    """A run converges: it ends better than it started, by `smallest_effect` or more.

    smallest_effect: a factor of levels.
    """

    kind: Literal["falls"]
    measurement: Level = "objective"
    smallest_effect: PositiveFloat

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        (trace,) = results.selected(self.run)
        again = {
            words: partial(self._over, results, until(trace, share))
            for words, share in SHARES.items()
        }
        finding = judged_again(self._over(results, trace), again)
        yield from results.with_tuning([finding], self.run)

    def _over(self, results: Results, trace: Trace) -> CaseOutcome:
        named = [
            (f"{self.run} at the end", final_losses(trace, self.measurement)),
            ("at the start", starting_losses(trace, self.measurement)),
        ]
        return self.compared(
            results,
            [trace],
            named,
            subject=self.measurement,
            what=self.measurement,
            measurement=self.measurement,
        )
