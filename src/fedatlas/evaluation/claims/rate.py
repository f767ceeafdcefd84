from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.evaluation.comparison import Direction
from fedatlas.evaluation.evidence import level, unit_of
from fedatlas.evaluation.levels import crossings, log_target
from fedatlas.evaluation.relations import FACTORS, judged_again
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.slopes import SlopeTest
from fedatlas.schema.claims import Finding, RunTest
from fedatlas.schema.cost_names import Cost
from fedatlas.schema.measurements import Level, check_target


class RateTest(SlopeTest, RunTest):
    """The cost to a level ε grows no faster than 1/ε to a power, as ε falls along `targets`.

    The statistic is how much lower the slope of log cost over log 1/ε is than `power`. Theorems
    bound from above: a lower slope reproduces.
    """

    kind: Literal["rate"]
    targets: tuple[PositiveFloat, ...] = Field(
        min_length=2, description="from large to small, in units of the measurement"
    )
    power: PositiveFloat = Field(description="of 1/ε, in the theorem")
    measurement: Level = "gradient_norm"
    cost: Cost = "round"

    @property
    def direction(self) -> Direction:
        return "not worse"

    @property
    def default_effect(self) -> float:
        return 0.1

    @property
    def spent(self) -> str:
        return self.cost

    @property
    def expected(self) -> float:
        return self.power

    @model_validator(mode="after")
    def _targets_fall_and_can_be_reached(self) -> Self:
        if list(self.targets) != sorted(set(self.targets), reverse=True):
            raise ValueError(f"targets: must fall; they are {', '.join(map(str, self.targets))}")
        for target in self.targets:
            check_target(self, self.measurement, target)
        return self

    def judge(self, results: Results) -> Iterator[Finding]:
        again = {
            words: partial(self._to, results, [factor * target for target in self.targets])
            for words, factor in FACTORS.items()
        }
        finding = judged_again(self._to(results, self.targets), again)
        yield from results.with_tuning([finding], self.run)

    def _to(self, results: Results, targets: Sequence[float]) -> Finding:
        (trace,) = results.selected(self.run)
        found = [
            crossings(trace, self.measurement, self.cost, log_target(self.measurement, target))
            for target in targets
        ]
        crossed = ", ".join(
            level(f"ε = {target:g}", crossing.cost)
            for target, crossing in zip(targets, found, strict=True)
        )
        told = f"{unit_of(self.cost)} to {self.measurement} ε: {crossed}"
        if any(np.isneginf(crossing.cost).any() for crossing in found):
            return Finding("", "not testable", f"{told}; it starts there")
        return self.sloping(results, [trace], 1 / np.array(targets), [found], told)
