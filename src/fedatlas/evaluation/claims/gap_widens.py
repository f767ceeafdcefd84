from collections.abc import Iterator
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.evaluation.evidence import level, ratio, target_name, unit_of
from fedatlas.evaluation.levels import common_target, difference, log_cost_to_reach
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, PairTest
from fedatlas.schema.cost_names import Cost
from fedatlas.schema.measurements import Level, check_target


class GapWidensTest(PairTest):
    """What `first` saves against `second` on the way to a level is more under another cost.

    The statistic is the logarithm of the ratio of their costs to the level: its value under the
    second of `costs` minus that under the first, seed by seed. Claimed: below 0.
    """

    kind: Literal["gap_widens"]
    measurement: Level
    costs: tuple[Cost, Cost] = Field(
        description="where the gap is narrow, and where it is wide: [latency(10), latency(100)]"
    )
    target: PositiveFloat | None = Field(
        default=None,
        description="in units of the measurement; None: the best that both runs' medians reach",
    )

    @property
    def counted(self) -> tuple[str, ...]:
        return self.costs

    @model_validator(mode="after")
    def _costs_differ_and_target_can_be_surpassed(self) -> Self:
        if self.costs[0] == self.costs[1]:
            raise ValueError(f"costs: {self.costs[0]} stands twice; name two costs")
        check_target(self, self.measurement, self.target)
        return self

    def judge(self, results: Results) -> Iterator[Finding]:
        traces = results.selected(*self.runs)
        target = common_target(traces, self.measurement, self.target)
        near, far = (
            log_cost_to_reach(traces, self.measurement, cost, target) for cost in self.costs
        )
        # By how many decades a run's cost grows; +inf where it never arrives.
        growth = [
            later - np.where(np.isinf(sooner), 0.0, sooner)
            for sooner, later in zip(near, far, strict=True)
        ]
        interval = difference(*growth)
        # A run that never arrives is 0 or infinitely many times as fast under either cost.
        verdict = interval.verdict(-np.inf, 0.0) if np.isfinite(interval.centre) else "inconclusive"
        told = [
            f"in {unit_of(cost)} {level(self.first, costs[0])}, {level(self.second, costs[1])}, "
            f"{ratio(difference(*costs))}"
            for cost, costs in zip(self.costs, (near, far), strict=True)
        ]
        evidence = (
            f"cost to {target_name(self.measurement, target)}: {'; '.join(told)}; of the ratios, "
            f"the second to the first: {ratio(interval)}, claimed below 1"
        )
        yield from results.with_edges([Finding("", verdict, evidence)], *self.runs)
