from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from fedatlas.evaluation.evidence import RelationTest, compared, target_name, unit_of
from fedatlas.evaluation.levels import common_target, log_cost_to_reach
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding
from fedatlas.schema.measurements import check_target


class CostToTargetTest(RelationTest):
    """The cost at which two runs reach a common level of the measurement."""

    kind: Literal["cost_to_target"]
    target: PositiveFloat | None = Field(
        default=None,
        description="in units of the measurement; None: the best that both runs' medians reach",
    )

    @model_validator(mode="after")
    def _target_can_be_surpassed(self) -> Self:
        check_target(self, self.measurement, self.target)
        return self

    def judge(self, results: Results) -> Iterator[Finding]:
        traces = results.selected(*self.runs)
        target = common_target(traces, self.measurement, self.target)
        costs = log_cost_to_reach(traces, self.measurement, self.cost, target)
        subject = f"{unit_of(self.cost)} to {target_name(self.measurement, target)}"
        named = zip(self.runs, costs, strict=True)
        yield from results.with_edges([compared(subject, named, self.relation)], *self.runs)
