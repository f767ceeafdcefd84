from collections.abc import Sequence
from functools import partial
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.evaluation.comparison import advantages
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import target_name, unit_of
from fedatlas.evaluation.levels import crossings, log_target, starts_there
from fedatlas.evaluation.relations import (
    FACTORS,
    RelationTest,
    as_far_as_resolved,
    judged_again,
)
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.shared_costs import (
    EPSILON,
    common_delta,
    delta_to_reach,
    format_delta,
    why_no_common_delta,
)
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.measurements import check_target


class CostToTargetTest(RelationTest):
    """The cost at which two runs reach a level of the measurement."""

    kind: Literal["cost_to_target"]
    target: PositiveFloat = Field(description="in units of the measurement")
    stays: bool = Field(
        default=False, description="whether records after that cost must be at the level, too"
    )

    @property
    def unit(self) -> str:
        return "decades"

    @model_validator(mode="after")
    def _target_can_be_surpassed(self) -> Self:
        check_target(self, self.measurement, self.target)
        return self

    def judged(self, results: Results, first: Trace, second: Trace) -> CaseOutcome:
        traces = [first, second]
        target = log_target(self.measurement, self.target)
        again = {
            words: partial(self._to, results, traces, target + float(np.log10(factor)))
            for words, factor in FACTORS.items()
        }
        return judged_again(self._to(results, traces, target), again)

    def _to(self, results: Results, traces: Sequence[Trace], target: float) -> CaseOutcome:
        found = [
            crossings(trace, self.measurement, self.cost, target, stays=self.stays)
            for trace in traces
        ]
        subject = f"{unit_of(self.cost)} to {target_name(self.measurement, target)}"
        subject += " for good" if self.stays else ""
        for run, trace, crossing in zip(self.runs, traces, found, strict=True):
            at_once = np.isneginf(crossing.cost).any()
            if at_once and starts_there(trace, self.measurement, target):
                return CaseOutcome("", "not testable", f"{subject}: {run} starts there")
        if all(np.isposinf(crossing.cost).all() for crossing in found):
            return CaseOutcome("", "not testable", f"{subject}: neither run arrives")
        if self.cost == EPSILON:
            deltas = [delta_to_reach(trace, self.measurement, target) for trace in traces]
            if why := why_no_common_delta(list(zip(self.runs, deltas, strict=True))):
                return CaseOutcome("", "not testable", f"{subject}: {why}")
            subject += format_delta(common_delta(deltas))
        for run, crossing in zip(self.runs, found, strict=True):
            if np.isneginf(crossing.cost).any():
                return CaseOutcome(
                    "", "not testable", f"{subject}: {run} gets there at a cost of 0"
                )
        finding = self.compared(
            results,
            traces,
            [(run, crossing.cost) for run, crossing in zip(self.runs, found, strict=True)],
            subject=subject,
            what=unit_of(self.cost),
            measurement=self.measurement,
        )
        first, second = found
        gaps = advantages(first.after, second.before), advantages(first.before, second.after)
        return as_far_as_resolved(results, finding, traces, gaps, self.criterion)
