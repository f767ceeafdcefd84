"""Tests that compare a quantity of two runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import Direction
from fedatlas.evaluation.horizon import BUDGETS, TARGETS, Row, along, of_any_budget
from fedatlas.evaluation.learnt import (
    beside_constant,
    constant_losses,
    require_beyond_constant,
)
from fedatlas.evaluation.levels import Trace, common_budget, log_target, until
from fedatlas.evaluation.quantities import (
    COUNTING_DIFFERENCE,
    EFFECT_KEYS,
    RELATIONS,
    WINDOW,
    Duel,
    EffectTest,
    Measured,
    Relation,
    Window,
    at_end,
    by_cost,
    format_ends,
    format_loss,
    losses_of,
    shared_range,
    spent_in_all,
    to_target,
)
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, Kind
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.quantities import Cost, Level, check_target

_PAIR = ("first", "second")
_RELATED = ("measurement", "cost", "for_each", *EFFECT_KEYS)


class ComparisonTest(EffectTest):
    """Compares a quantity of `first` with that of `second`, by one of the words of `RELATIONS`.

    better_final: `first` ends with a better measurement: a larger accuracy or a smaller error.

    equal_final: The final measurements of two runs differ by less than the smallest effect that
    counts: a factor of levels, a difference of scores.

    falls: A run converges: it ends better than it started, and better than the best constant
    predictor, by `smallest_effect` or more.

    diverges: A run ends worse than it started, by `smallest_effect` or more, or is lost.

    order: Two runs are compared by the measurement that they reach at equal cost.

    cost_to_target: Two runs are compared by the cost at which they reach a level of the
    measurement.

    spends: Two runs are compared by what they spend in equally many rounds. This does not depend on
    how often they are recorded.

    monotone: Within one run, each larger step converges faster than the next smaller one. A point
    whose median ends above where it started has not converged and is left out.

    monotone_to_target: Like `monotone`, by the cost at which each step reaches a level of the
    measurement.

    first, second: runs; the claim is about the first. run: in place of two, one run that is
    compared with itself. quantity: what is compared: the final measurement, its level at a cost,
    the cost to a target, or the cost of all rounds. against: what it is compared with: another run,
    the run's own start, or its next smaller step. relation: the claimed relation of the first to
    the second. for_each: one case per step size that both runs have, or the tuned configurations
    only. at: cost at which to compare; None: the largest that both reached. share: in place of
    `at`: a share of the largest cost that both reached. window: share of that cost, at its end,
    over which levels are means. target: in units of the measurement. stays: whether all later
    records must be at the level, too. settled: for claims that name no budget and must hold for any
    long enough one. The claim is not testable in three cases: half of our budget or more gives
    another decided outcome; the claim is not reproduced but `first` surely gains from half of the
    budget on, by a factor of 1.05 or more; or a run is no better than a constant predictor.
    shown: of a run that converges what must be better than a constant predictor's, too.
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
            takes=("measurement", "shown", "published_effect", "published_trials"),
            sets={"quantity": "end", "against": "start", "measurement": "objective"},
        ),
        "diverges": Kind(
            requires=("run", "smallest_effect"),
            takes=("measurement",),
            sets={"quantity": "end", "against": "start", "measurement": "objective"},
        ),
        "order": Kind(
            requires=(*_PAIR, "relation"), takes=(*_RELATED, "at", "share", "window", "settled")
        ),
        "cost_to_target": Kind(
            requires=(*_PAIR, "relation", "target"),
            takes=(*_RELATED, "stays"),
            sets={"quantity": "cost"},
        ),
        "spends": Kind(
            requires=(*_PAIR, "relation", "cost"), takes=EFFECT_KEYS, sets={"quantity": "spent"}
        ),
        "monotone": Kind(
            requires=("run",),
            takes=("measurement", "window", *EFFECT_KEYS),
            sets={"against": "smaller step"},
        ),
        "monotone_to_target": Kind(
            requires=("run", "target"),
            takes=("measurement", *EFFECT_KEYS),
            sets={"against": "smaller step", "quantity": "cost"},
        ),
    }

    first: str = ""
    second: str = ""
    run: str = ""
    quantity: Literal["end", "level", "cost", "spent"] = "level"
    against: Literal["second", "start", "smaller step"] = "second"
    relation: Relation = "faster"
    measurement: Level = "gradient_norm"
    cost: Cost = "round"
    for_each: Literal["effective_step_size", "selected"] = "selected"
    at: PositiveFloat | None = None
    share: float | None = Field(default=None, gt=0, lt=1)
    window: Window = WINDOW
    target: PositiveFloat | None = None
    stays: bool = False
    settled: bool = False
    shown: Level | None = None

    @property
    def measured(self) -> tuple[str, ...]:
        found = () if self.quantity == "spent" else super().measured
        return found if self.shown is None else (*found, self.shown)

    @property
    def counted(self) -> tuple[str, ...]:
        return () if self.quantity == "end" or self.against != "second" else (self.cost,)

    @property
    def stops_at(self) -> tuple[tuple[str, float], ...]:
        if self.target is None or self.quantity != "cost" or self.stays:
            return ()
        return ((self.measurement, self.target),)

    @property
    def of_choice(self) -> bool:
        return self.for_each == "selected" and self.against != "smaller step"

    @property
    def unit(self) -> str:
        return "decades" if self.quantity in ("cost", "spent") else super().unit

    @property
    def direction(self) -> Direction:
        return RELATIONS[self.relation][0]

    @property
    def default_effect(self) -> float:
        return RELATIONS[self.relation][1] if self.unit == "decades" else COUNTING_DIFFERENCE

    @property
    def row(self) -> Row | None:
        return {"cost": TARGETS, "spent": None}.get(self.quantity, BUDGETS)

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
        if self.of_choice:
            yield from map(self._held, super().judge(results))
        elif self.against == "smaller step":
            yield from self._between_steps(results)
        else:
            for step, pair in reversed(results.common_steps(*self.runs).items()):
                traces = results.at(pair.items())
                yield self._case(results, f"effective step {step:g}", pair, traces, self.runs)

    def duels(self, results: Results) -> Mapping[str, Duel]:
        if self.against != "second" or self.for_each != "selected":
            return {}
        runs = (self.first, self.second)
        return {"": Duel(runs, partial(self._compared, results, names=runs, scale=1.0))}

    def at_scale(self, results: Results, scale: float) -> Iterator[CaseOutcome]:
        yield from self._compared(results, results.selected(*self.runs), self.runs, scale)

    def _case(
        self,
        results: Results,
        case: str,
        points: Mapping[str, str],
        traces: Sequence[Trace],
        names: Sequence[str],
    ) -> CaseOutcome:
        """A case at declared points of runs."""
        judge = partial(self._compared, results, traces, names)
        (found,) = along(judge, self.row)
        return replace(results.at_points(self._held(found), points), case=case)

    def _held(self, case: CaseOutcome) -> CaseOutcome:
        """The case, held against other budgets where the claim names none."""
        return of_any_budget(case, self.criterion.tie or 0.0) if self.settled else case

    def _compared(
        self, results: Results, traces: Sequence[Trace], names: Sequence[str], scale: float
    ) -> Iterator[CaseOutcome]:
        """With a share of the budget, or a multiple of the target."""
        measurement, cost = self.measurement, self.cost
        if self.quantity == "cost":
            assert self.target is not None
            target = log_target(measurement, self.target) + float(np.log10(scale))
            require_beyond_constant(results, traces, measurement, target)
            found = to_target(traces, names, measurement, cost, target, self.stays)
        elif self.quantity == "spent":
            found = spent_in_all(traces, cost)
            if all((spent == spent[0]).all() for spent in found.losses):
                traces = ()  # a count that no seed changes is one observation, whatever they train
        elif self.quantity == "level":
            _, end = shared_range(traces, cost, scale * (self.share or 1.0), self.at)
            found = by_cost(traces, measurement, cost, end, self.window)
        else:
            found = at_end(traces, measurement, scale)
            if self.against == "start":
                ends = until(traces[0], scale)
                yield self._shown(results, ends, self._against_start(results, ends))
                return
        case = self.compared(results, traces, names, found, measurement)
        if self.quantity in ("end", "level"):
            runs = list(zip(traces, found.losses, strict=True))
            case = beside_constant(self, results, case, runs, measurement, all_must=self.settled)
        yield case

    def _shown(self, results: Results, trace: Trace, case: CaseOutcome) -> CaseOutcome:
        """The case; not testable where what is shown of the run is no better than a constant."""
        if self.shown is None or case.outcome != "reproduced":
            return case
        test = self.model_copy(update={"measurement": self.shown, "smallest_effect": None})
        return beside_constant(
            test, results, case, [(trace, losses_of(trace, self.shown)[:, -1])], self.shown
        )

    def _against_start(self, results: Results, trace: Trace) -> CaseOutcome:
        """Where a run ends against where it started, and against a constant that is better yet."""
        (end,) = at_end([trace], self.measurement, 1.0).losses

        def against(other: np.ndarray, name: str) -> CaseOutcome:
            names, losses = (f"{self.run} at the end", name), [end, other]
            if self.kind == "diverges":
                names, losses = names[::-1], losses[::-1]
            found = Measured(self.measurement, self.measurement, losses)
            return self.compared(results, [trace], names, found, self.measurement)

        start = losses_of(trace, self.measurement)[:, 0]
        case = against(start, "at the start")
        constant = constant_losses(results, trace, self.measurement)
        if self.kind == "diverges" or case.outcome != "reproduced" or constant is None:
            return case
        if np.median(constant) >= np.median(start):
            return case
        beyond = against(constant, "best constant predictor")
        if beyond.outcome in ("reproduced", "undecided"):
            return beyond
        case = replace(case, effect=beyond.effect)
        return case.not_testable(f"a constant is as good: {beyond.evidence}")

    def _between_steps(self, results: Results) -> Iterator[CaseOutcome]:
        points = results.points_by_step(self.run)
        by_step = {step: results.traces[self.run][point] for step, point in points.items()}
        if len(by_step) < 2:
            raise FedatlasError(f"run '{self.run}' has one step size, nothing to compare")
        budget = common_budget(list(by_step.values()), self.cost)
        smaller: float | None = None
        for step, trace in by_step.items():
            found = by_cost([trace], self.measurement, self.cost, budget, self.window)
            start = float(np.median(losses_of(trace, self.measurement)[:, 0]))
            if not np.median(found.losses) < start:
                ends = format_ends([f"step {step:g}"], found, self.unit, self.measurement)
                evidence = (
                    f"{ends}, {format_loss(start, self.unit)} at the start; it does not converge, "
                    "which the claim excepts"
                )
                yield CaseOutcome(f"step {step:g}", "not covered", evidence)
                continue
            if smaller is not None:
                yield self._case(
                    results,
                    f"step {step:g} against {smaller:g}",
                    {self.run: points[step]},
                    [trace, by_step[smaller]],
                    [f"step {step:g}", f"step {smaller:g}"],
                )
            smaller = step
