from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field, PositiveFloat

from fedatlas.evaluation.evidence import bounds
from fedatlas.evaluation.final_values import ends, final_losses, sign_of, signed
from fedatlas.evaluation.levels import ROUNDING, difference
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, RunTest
from fedatlas.schema.measurements import Measurement


class PublishedMeasurementTest(RunTest):
    """The mean over seeds of the measurement that a run ends with, against the printed number."""

    kind: Literal["published_measurement"]
    measurement: Measurement
    value: float = Field(description="in units of the measurement: 81.96 % is 0.8196")
    tolerance: PositiveFloat = Field(description="largest absolute difference that still agrees")

    def judge(self, results: Results) -> Iterator[Finding]:
        (trace,) = results.selected(self.run)
        losses = final_losses(trace, self.measurement)
        interval = difference(losses, np.full(len(losses), sign_of(self.measurement) * self.value))
        tolerance = self.tolerance + ROUNDING
        shown = signed(interval, self.measurement)
        evidence = (
            f"{self.measurement} at the end: {ends(self.run, losses, self.measurement)}; "
            f"minus the published {bounds(shown)}; published {self.value:g} ± {self.tolerance:g}"
        )
        finding = Finding("", interval.verdict(-tolerance, tolerance), evidence)
        yield from results.with_edges([finding], self.run)
