from collections.abc import Iterator
from typing import Literal

from pydantic import Field, PositiveFloat

from fedatlas.evaluation.final_values import contrasted_ends
from fedatlas.evaluation.levels import ROUNDING
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, PairTest
from fedatlas.schema.measurements import Measurement


class EqualFinalTest(PairTest):
    """The measurements that two runs end with differ by at most `margin`, either way."""

    kind: Literal["equal_final"]
    measurement: Measurement
    margin: PositiveFloat = Field(description="in units of the measurement; an accuracy is ≤ 1")

    def judge(self, results: Results) -> Iterator[Finding]:
        interval, evidence = contrasted_ends(results, self.runs, self.measurement)
        margin = self.margin + ROUNDING
        verdict = interval.verdict(-margin, margin)
        finding = Finding("", verdict, f"{evidence}, claimed within {self.margin:g}")
        yield from results.with_edges([finding], *self.runs)
