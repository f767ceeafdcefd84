from collections.abc import Iterator
from typing import Literal

from pydantic import Field, PositiveFloat

from fedatlas.evaluation.ends import final_comparison
from fedatlas.evaluation.relations import ComparisonTest
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, PairTest
from fedatlas.schema.measurements import Level


class EqualFinalTest(ComparisonTest, PairTest):
    """The measurements that two runs end with are closer than the smallest effect that counts."""

    kind: Literal["equal_final"]
    measurement: Level
    smallest_effect: PositiveFloat = Field(
        description="closer than this is equal: a factor of levels, a difference of scores"
    )

    @property
    def claims_lead(self) -> bool:
        return False

    def judge(self, results: Results) -> Iterator[Finding]:
        yield final_comparison(self, results, "equal", self.measurement)
