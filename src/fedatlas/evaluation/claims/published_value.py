from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from fedatlas.evaluation.chosen_values import ChosenValueTest, listing, unanimous
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, RunTest


class PublishedValueTest(ChosenValueTest, RunTest):
    """A selected hyper-parameter against the number that the paper prints."""

    kind: Literal["published_value"]
    value: float
    tolerance: float = Field(ge=0, description="largest absolute difference that still agrees")

    def judge(self, results: Results) -> Iterator[Finding]:
        chosen = results.seed_choices(self.run, self.hyper_parameter)
        point = results.chosen[self.run].point
        overall = results.hyper_parameter(self.run, point, self.hyper_parameter)
        # Differences of decimal fractions carry rounding errors: 0.4 − 0.3 > 0.1.
        gap = np.abs(chosen - self.value) - 1e-12
        evidence = (
            f"{self.run}: selected {self.hyper_parameter} = {overall:g}, by seed "
            f"{listing(chosen)}; published {self.value:g} ± {self.tolerance:g}"
        )
        verdict = unanimous(gap <= self.tolerance, gap > self.tolerance)
        yield from results.with_edges([Finding("", verdict, evidence)], self.run)
