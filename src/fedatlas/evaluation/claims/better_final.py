from collections.abc import Iterator
from typing import Literal

from fedatlas.evaluation.ends import final_comparison
from fedatlas.evaluation.relations import ComparisonTest
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, PairTest
from fedatlas.schema.measurements import Level


class BetterFinalTest(ComparisonTest, PairTest):
    """The measurement that `first` ends with is better: a larger accuracy, a smaller error."""

    kind: Literal["better_final"]
    measurement: Level

    def judge(self, results: Results) -> Iterator[Finding]:
        yield final_comparison(self, results, "better", self.measurement)
