from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.evaluation.best_points import best_by_others, format_best
from fedatlas.evaluation.costs import Trace, column
from fedatlas.evaluation.evidence import level, unit_of
from fedatlas.evaluation.levels import crossings, log_target
from fedatlas.evaluation.relations import FACTORS, judged_again
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.slopes import PowerTest
from fedatlas.evaluation.theory_table import running_means
from fedatlas.schema.claims import CaseOutcome, RunTest
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.measurements import Level, check_target


class RateTest(PowerTest, RunTest):
    """The cost to a level ε grows no faster than 1/ε to a power, as ε falls along `targets`.

    The statistic is how much lower the slope of log cost over log 1/ε is than `power`. Theorems
    bound from above: a lower slope reproduces. With `logarithm` the slope is over the logarithm of
    1/ε log(2 Δ/ε), where Δ is the level at the start, the median of seeds. With `averaged` levels
    are root mean squares along all rounds so far, as theorems of nonconvex objectives bound them.

    points: `selected` by the experiment; or `best`, where every ε has a point of its own: for each
    seed the one by which the other seeds reach ε first, so that no seed chooses for itself.
    logarithm: whether the theorem has one. averaged: whether levels are means along all rounds.
    """

    kind: Literal["rate"]
    targets: tuple[PositiveFloat, ...] = Field(
        min_length=2, description="from large to small, in units of the measurement"
    )
    power: PositiveFloat = Field(description="of 1/ε, in the theorem")
    logarithm: bool = False
    averaged: bool = False
    points: Literal["selected", "best"] = "selected"
    measurement: Level = "gradient_norm"

    @property
    def of_choice(self) -> bool:
        return self.points == "selected"

    @model_validator(mode="after")
    def _targets_fall_and_can_be_reached(self) -> Self:
        if list(self.targets) != sorted(set(self.targets), reverse=True):
            raise ValueError(f"targets: must fall; they are {', '.join(map(str, self.targets))}")
        for target in self.targets:
            check_target(self, self.measurement, target)
        return self

    def check(self, experiment: Experiment) -> None:
        if self.points == "best" and not experiment.chooses(self.run):
            raise ValueError(f"run '{self.run}' has one point: remove 'points: best'")

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        again = {
            words: partial(self._to, results, [factor * target for target in self.targets])
            for words, factor in FACTORS.items()
        }
        finding = judged_again(self._to(results, self.targets), again)
        if self.points == "best":
            yield finding
        else:
            yield from results.with_tuning([finding], self.run)

    def _to(self, results: Results, targets: Sequence[float]) -> CaseOutcome:
        points = self._points(results)
        found, told = [], []
        for target in targets:
            goal = log_target(self.measurement, target)
            crossed, chosen = best_by_others(
                {
                    point: crossings(trace, self.measurement, self.cost, goal)
                    for point, trace in points.items()
                }
            )
            found.append(crossed)
            step = f" with {format_best(chosen, points)}" if len(points) > 1 else ""
            told.append(level(f"ε = {target:g}", crossed.cost) + step)
        of = f"mean {self.measurement}" if self.averaged else self.measurement
        subject = f"{unit_of(self.cost)} to {of} ε: {', '.join(told)}"
        every = [
            (f"{target:g}", trace, log_target(self.measurement, target))
            for target in targets
            for trace in points.values()
        ]
        if why := self.of_different_delta(every):
            return CaseOutcome("", "not testable", f"{subject}; {why}")
        if any(np.isneginf(crossing.cost).any() for crossing in found):
            reason = "it starts there, or gets there at a cost of 0"
            return CaseOutcome("", "not testable", f"{subject}; {reason}")
        traces = list(points.values())
        return self.sloping(results, traces, self._sizes(traces[0], targets), [found], subject)

    def _points(self, results: Results) -> Mapping[str, Trace]:
        """The traces to compare, by point."""
        traces = results.traces[self.run]
        if self.points == "selected":
            point = results.chosen[self.run].point
            traces = {point: traces[point]}
        if self.averaged:
            traces = {point: self._averaged(trace) for point, trace in traces.items()}
        return traces

    def _averaged(self, trace: Trace) -> Trace:
        """The trace with root mean squares of the measurement along the rounds so far."""
        means = running_means(column(trace, "round"), column(trace, self.measurement) ** 2)
        return trace.assign({self.measurement: (("seed", "record"), np.sqrt(means))})

    def _sizes(self, trace: Trace, targets: Sequence[float]) -> np.ndarray:
        """(targets,) what costs may be proportional to, before the power."""
        inverse = 1 / np.array(targets)
        if not self.logarithm:
            return inverse
        start = float(np.median(column(trace, self.measurement)[:, 0]))
        return inverse * np.log(np.maximum(2 * start * inverse, np.e))
