from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field, NonNegativeFloat

from fedatlas.evaluation.final_values import contrasted_ends, sign_of
from fedatlas.evaluation.levels import ROUNDING
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, PairTest
from fedatlas.schema.measurements import LARGER_IS_BETTER, Level


class BetterFinalTest(PairTest):
    """The measurement that `first` ends with is better: a larger accuracy, a smaller error."""

    kind: Literal["better_final"]
    measurement: Level
    by_at_least: NonNegativeFloat = Field(default=0.0, description="in units of the measurement")

    def judge(self, results: Results) -> Iterator[Finding]:
        interval, evidence = contrasted_ends(results, self.runs, self.measurement)
        # Differences of decimal fractions carry rounding errors: 0.82 − 0.8 < 0.02.
        border = ROUNDING - self.by_at_least if self.by_at_least else 0.0
        lead = -sign_of(self.measurement) * self.by_at_least
        side = "above" if self.measurement in LARGER_IS_BETTER else "below"
        verdict = interval.verdict(-np.inf, border)
        finding = Finding("", verdict, f"{evidence}, claimed {side} {lead + 0.0:g}")
        yield from results.with_edges([finding], *self.runs)
