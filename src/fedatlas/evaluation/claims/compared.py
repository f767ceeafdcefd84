"""A quantity of two runs, compared."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparing import (
    COUNTING_DIFFERENCE,
    EFFECT_KEYS,
    FACTORS,
    RELATIONS,
    SHARES,
    EffectTest,
    Measured,
    Relation,
    at_end,
    by_cost,
    format_ends,
    format_loss,
    losses_by,
    losses_of,
    range_before,
    robustly,
    to_target,
)
from fedatlas.evaluation.comparison import Direction
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import format_cost
from fedatlas.evaluation.levels import common_budget, log_target
from fedatlas.evaluation.results import NotTestableError, Results
from fedatlas.schema.claims import CaseOutcome, Kind
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.quantities import Cost, Level, check_target

_PAIR = ("first", "second")
_RELATED = ("measurement", "cost", "for_each", *EFFECT_KEYS)


class ComparisonTest(EffectTest):
    """A quantity of `first` against that of `second`, by one of the words of `RELATIONS`.

    better_final: The measurement that `first` ends with is better: a larger accuracy, a smaller
    error.

    equal_final: The measurements that two runs end with are closer than the smallest effect that
    counts: a factor of levels, a difference of scores.

    falls: A run converges: it ends better than it started, by `smallest_effect` or more.

    order: The measurement that two runs reach at equal cost.

    cost_to_target: The cost at which two runs reach a level of the measurement.

    monotone: Within one run, each larger step converges faster than the next smaller one. A point
    whose median ends above where it started has not converged and is left out.

    first, second: runs; the claim is about the first. run: in place of two, one run that is
    compared with itself. quantity: what is compared: the measurement at the end, or its level by a
    cost, or the cost to a target. against: with what: another run, or the run's own start, or its
    next smaller step. relation: how the first is claimed to stand to the second. for_each: one case
    per step size that both runs have, or the tuned configurations only. at: cost at which to
    compare; None: the largest that both reached. share: in place of `at`: a share of the largest
    cost that both reached. window: share of that cost, at its end, over which levels are means;
    None: as points are selected. target: in units of the measurement. stays: whether records after
    that cost must be at the level, too.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "better_final": Kind(
            requires=(*_PAIR, "measurement"), takes=EFFECT_KEYS, sets={"quantity": "end"}
        ),
        "equal_final": Kind(
            requires=(*_PAIR, "measurement", "smallest_effect"),
            takes=("published_effect", "published_trials"),
            sets={"quantity": "end", "relation": "similar"},
        ),
        "falls": Kind(
            requires=("run", "smallest_effect"),
            takes=("measurement", "published_effect", "published_trials"),
            sets={"quantity": "end", "against": "start", "measurement": "objective"},
        ),
        "order": Kind(requires=(*_PAIR, "relation"), takes=(*_RELATED, "at", "share", "window")),
        "cost_to_target": Kind(
            requires=(*_PAIR, "relation", "target"),
            takes=(*_RELATED, "stays"),
            sets={"quantity": "cost"},
        ),
        "monotone": Kind(
            requires=("run",), takes=("measurement", *EFFECT_KEYS), sets={"against": "smaller step"}
        ),
    }

    first: str = ""
    second: str = ""
    run: str = ""
    quantity: Literal["end", "level", "cost"] = "level"
    against: Literal["second", "start", "smaller step"] = "second"
    relation: Relation = "faster"
    measurement: Level = "gradient_norm"
    cost: Cost = "round"
    for_each: Literal["effective_step_size", "selected"] = "selected"
    at: PositiveFloat | None = None
    share: float | None = Field(default=None, gt=0, lt=1)
    window: float | None = Field(default=None, gt=0, le=1)
    target: PositiveFloat | None = None
    stays: bool = False

    @property
    def counted(self) -> tuple[str, ...]:
        return () if self.quantity == "end" or self.against != "second" else (self.cost,)

    @property
    def of_choice(self) -> bool:
        return self.for_each == "selected" and self.against != "smaller step"

    @property
    def unit(self) -> str:
        return "decades" if self.quantity == "cost" else super().unit

    @property
    def direction(self) -> Direction:
        return RELATIONS[self.relation][0]

    @property
    def default_effect(self) -> float:
        return RELATIONS[self.relation][1] if self.unit == "decades" else COUNTING_DIFFERENCE

    @model_validator(mode="after")
    def _can_be_compared(self) -> Self:
        if self.at is not None and self.share is not None:
            raise ValueError("'at' and 'share' both say at which cost to compare; remove one")
        check_target(self, self.measurement, self.target)
        return self

    def check(self, experiment: Experiment) -> None:
        for run in self.runs if self.cost == "round" else ():
            if self.at is not None and self.at > experiment.rounds_of(run):
                raise ValueError(
                    f"'at' is {self.at:g}, but run '{run}' takes {experiment.rounds_of(run)} rounds"
                )

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        if self.against == "smaller step":
            yield from self._between_steps(results)
        elif self.for_each == "selected":
            traces = results.selected(*self.runs)
            yield results.tuned(self._judged(results, traces), *self.runs)
        else:
            for step, pair in reversed(results.common_steps(*self.runs).items()):
                traces = [results.traces[run][pair[run]] for run in self.runs]
                outcome = results.at_points(self._judged(results, traces), pair)
                yield replace(outcome, case=f"effective step {step:g}")

    def _judged(self, results: Results, traces: Sequence[Trace]) -> CaseOutcome:
        scales = FACTORS if self.quantity == "cost" else SHARES
        return robustly(partial(self._at, results, traces), scales)

    def _at(self, results: Results, traces: Sequence[Trace], scale: float) -> CaseOutcome:
        """With a share of the budget, or a multiple of the target."""
        names: Sequence[str] = self.runs
        if self.against == "start":
            found = at_end(traces, self.measurement, scale)
            starts = losses_of(traces[0], self.measurement)[:, 0]
            names = (f"{self.run} at the end", "at the start")
            found = Measured(self.measurement, self.measurement, [*found.losses, starts])
        elif self.quantity == "end":
            found = at_end(traces, self.measurement, scale)
        elif self.quantity == "level":
            found = self._level(results, traces, scale)
        else:
            assert self.target is not None
            target = log_target(self.measurement, self.target) + float(np.log10(scale))
            found = to_target(traces, names, self.measurement, self.cost, target, self.stays)
        return self.compared(results, traces, names, found, self.measurement)

    def _level(self, results: Results, traces: Sequence[Trace], scale: float) -> Measured:
        start, budget = range_before(traces, self.runs, self.cost, self.at)
        budget *= self.share or 1.0
        if scale < 1 and scale * budget <= start:
            raise NotTestableError("one run has no record before the time of comparison")
        window = self.window or results.window
        return by_cost(traces, self.measurement, self.cost, scale * budget, window)

    def _between_steps(self, results: Results) -> Iterator[CaseOutcome]:
        points = results.points_by_step(self.run)
        by_step = {step: results.traces[self.run][point] for step, point in points.items()}
        if len(by_step) < 2:
            raise FedatlasError(f"run '{self.run}' has one step size, nothing to compare")
        budget = common_budget(list(by_step.values()), "round")
        smaller: float | None = None
        for step, trace in by_step.items():
            losses = losses_by(trace, self.measurement, "round", budget, results.window)
            start = float(np.median(losses_of(trace, self.measurement)[:, 0]))
            if not np.median(losses) < start:
                evidence = (
                    f"{self.measurement} by {format_cost('round', budget)}: "
                    f"{format_ends(f'step {step:g}', losses, self.unit, self.measurement)}, "
                    f"{format_loss(start, self.unit)} at the start; it does not converge, which "
                    "the claim excepts"
                )
                yield CaseOutcome(f"step {step:g}", "not testable", evidence)
                continue
            if smaller is not None:
                pair = {f"step {one:g}": by_step[one] for one in (step, smaller)}
                outcome = robustly(partial(self._of_steps, results, pair, budget), SHARES)
                outcome = results.at_points(outcome, {self.run: points[step]})
                yield replace(outcome, case=f"step {step:g} against {smaller:g}")
            smaller = step

    def _of_steps(
        self, results: Results, pair: Mapping[str, Trace], budget: float, scale: float
    ) -> CaseOutcome:
        traces = list(pair.values())
        found = by_cost(traces, self.measurement, "round", scale * budget, results.window)
        return self.compared(results, traces, list(pair), found, self.measurement)
