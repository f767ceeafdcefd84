"""Comparisons of runs: in which unit, what counts, and how they are told."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import (
    Criterion,
    Direction,
    Interval,
    advantages,
    decide,
)
from fedatlas.evaluation.costs import Trace, column
from fedatlas.evaluation.evidence import counts, format_effect, level_name, mean_of, number
from fedatlas.evaluation.levels import (
    diverged,
    log_measurement,
    mean_along,
    reached,
    smallest,
    worse_than_start,
)
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, ClaimTest, PairTest
from fedatlas.schema.cost_names import Cost
from fedatlas.schema.measurements import LARGER_IS_BETTER, Level

Relation = Literal["faster", "at_least_as_fast", "much_faster", "similar"]

#: From which factor on ratios of levels and costs count, and from which difference accuracies,
#: AUROCs and F1 scores: our choice.
COUNTING_FACTOR, COUNTING_DIFFERENCE = 1.05, 0.005
#: What papers' words claim, and from which factor on a ratio of levels or costs counts: our choice.
RELATIONS: dict[Relation, tuple[Direction, float]] = {
    "faster": ("better", COUNTING_FACTOR),
    "at_least_as_fast": ("not worse", COUNTING_FACTOR),  # "≥"
    "much_faster": ("better", 2.0),  # "≫"
    "similar": ("equal", 1.5),  # "nearly the same"
}
#: Shares of a budget, and factors of a target, at which a verdict is judged again.
SHARES = {"half the budget": 0.5, "three quarters of the budget": 0.75}
FACTORS = {"three times the target": 3.0, "a third of the target": 1 / 3}


class ComparisonTest(ClaimTest, ABC):
    """A test of how much one run is ahead of another."""

    smallest_effect: PositiveFloat | None = Field(
        default=None,
        description="the smallest effect that counts: a factor above 1 of levels and costs, a "
        "difference of accuracies, AUROCs, F1 scores and errors",
    )
    published_effect: PositiveFloat | None = Field(
        default=None, description="the effect that the paper prints, in the same units"
    )
    published_trials: PositiveInt = Field(
        default=1, description="of how many trials the paper's effect is the mean"
    )

    @property
    def unit(self) -> str:
        """Of the advantage."""
        return unit_of_losses(getattr(self, "measurement", ""))

    @property
    def direction(self) -> Direction:
        """What is claimed of the advantage."""
        return "better"

    @property
    def default_effect(self) -> float:
        """The smallest effect that counts where none is declared: our choice."""
        return COUNTING_FACTOR if self.unit == "decades" else COUNTING_DIFFERENCE

    @property
    def criterion(self) -> Criterion:
        """What is claimed, in units of the advantage."""
        smallest, published = self.smallest_effect or self.default_effect, self.published_effect
        if self.unit == "decades":
            smallest = float(np.log10(smallest))
            published = None if published is None else float(np.log10(published))
        return Criterion(self.direction, smallest, published, self.published_trials)

    @model_validator(mode="after")
    def _effects_are_in_units(self) -> Self:
        for key in ("smallest_effect", "published_effect"):
            value = getattr(self, key)
            if value is not None and self.unit == "decades" and value <= 1:
                raise ValueError(f"{key}: {value:g} must be a factor above 1, such as 1.05")
        if self.published_effect is not None and self.direction != "better":
            raise ValueError("published_effect: the claim is not about a lead; remove it")
        return self

    def compared(
        self,
        results: Results,
        traces: Sequence[Trace],
        named: Sequence[tuple[str, np.ndarray]],
        *,
        subject: str,
        what: str,
        measurement: str,
    ) -> CaseOutcome:
        """The first against the second of two runs.

        named: name and losses (seeds,) of each, in `unit`. subject: what losses are of. what: of
        which there is more or less. measurement: from which losses come.
        """
        check_pairs(traces)
        losses = [values for _, values in named]
        outcome, effect = results.compare(
            advantages(*losses), self.criterion, self.unit, traces, measurement
        )
        of = measurement if what in (measurement, level_name(measurement)) else None
        told = ", ".join(format_ends(name, values, self.unit, of) for name, values in named)
        words = ("higher", "lower") if measurement in LARGER_IS_BETTER else ("lower", "higher")
        near = 0 < abs(effect.estimate) < _spread(losses)
        small = ", less than the spread of seeds" if near else ""
        evidence = f"{subject}: {told}; {format_effect(effect, what, *words)}{small}"
        evidence += f"; {counts(effect)}{results.of_test_rows(traces, measurement)}"
        return CaseOutcome("", outcome, evidence, effect)


class RelationTest(ComparisonTest, PairTest, ABC):
    """A comparison of `first` with `second` by one of the words of `RELATIONS`.

    relation: how the first is claimed to stand to the second.
    """

    relation: Relation
    measurement: Level = "gradient_norm"
    cost: Cost = "round"
    for_each: Literal["effective_step_size", "selected"] = Field(
        default="selected",
        description="one case per step size that both runs have, or the selected points only",
    )

    @property
    def of_choice(self) -> bool:
        return self.for_each == "selected"

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        if self.for_each == "selected":
            first, second = results.selected(*self.runs)
            yield from results.with_tuning([self.judged(results, first, second)], *self.runs)
            return
        for step, pair in reversed(results.common_steps(*self.runs).items()):
            finding = self.judged(results, *(results.traces[run][pair[run]] for run in self.runs))
            yield replace(results.at_points(finding, pair), case=f"effective step {step:g}")

    @abstractmethod
    def judged(self, results: Results, first: Trace, second: Trace) -> CaseOutcome:
        """The two traces compared."""

    @property
    def direction(self) -> Direction:
        return RELATIONS[self.relation][0]

    @property
    def default_effect(self) -> float:
        return RELATIONS[self.relation][1] if self.unit == "decades" else COUNTING_DIFFERENCE


def check_pairs(traces: Sequence[Trace]) -> None:
    """Raise FedatlasError unless all have the same seeds, which are compared pair by pair."""
    first, *others = (trace["seed"].to_numpy().tolist() for trace in traces)
    for seeds in others:
        if seeds != first:
            raise FedatlasError(f"seeds {first} and {seeds} are no pairs: compare equal seeds")


def unit_of_losses(measurement: str) -> str:
    """Of what falls over orders of magnitude ratios are compared, of the rest differences."""
    scores = measurement in LARGER_IS_BETTER or measurement.endswith("_rmse")
    return measurement if scores else "decades"


def final_losses(trace: Trace, measurement: str) -> np.ndarray:
    """(seeds,) losses of the last record, in `unit_of_losses`; +inf for a lost seed."""
    return _lost_apart(trace, measurement, _values(trace, measurement)[:, -1])


def losses_by(
    trace: Trace, measurement: str, cost: str, budget: float, window: float
) -> np.ndarray:
    """(seeds,) mean losses over the last `window` share of a budget; +inf for a lost seed."""
    if unit_of_losses(measurement) == "decades":
        return reached(trace, measurement, cost, budget, window)
    start = (1 - window) * budget
    return losses_along(trace, measurement, cost, start, budget)


def losses_along(trace: Trace, measurement: str, cost: str, start: float, end: float) -> np.ndarray:
    """(seeds,) mean losses over costs from start to end; +inf for a lost seed."""
    values = mean_along(trace, measurement, cost, start, end)
    return np.where(np.isnan(values), np.inf, _sign(measurement) * values)


def losses_at_least_lead(
    first: Trace, second: Trace, measurement: str, start: float, end: float
) -> tuple[np.ndarray, np.ndarray]:
    """(seeds,) losses of both at the record, of rounds from start to end, where the first leads by
    least; +inf for a lost seed. FedatlasError unless both are recorded at the same rounds.
    """
    rounds = column(first, "round")[0]
    if not np.array_equal(rounds, column(second, "round")[0]):
        raise FedatlasError("each_record_from: runs must be recorded at the same rounds")
    judged = (rounds >= start) & (rounds <= end)
    ours, theirs = (_values(trace, measurement)[:, judged] for trace in (first, second))
    least = np.argmin(np.nan_to_num(theirs - ours, nan=np.inf), axis=1)[:, None]
    at_least = (np.take_along_axis(values, least, axis=1)[:, 0] for values in (ours, theirs))
    one, other = (
        _lost_apart(trace, measurement, values)
        for trace, values in zip((first, second), at_least, strict=True)
    )
    return one, other


def starting_losses(trace: Trace, measurement: str) -> np.ndarray:
    """(seeds,) losses of the first record, in `unit_of_losses`."""
    losses: np.ndarray = _values(trace, measurement)[:, 0]
    return losses


def format_ends(name: str, losses: np.ndarray, unit: str, measurement: str | None) -> str:
    """The mean of losses over seeds, in the measurement's own direction.

    It is an upper bound where a seed's level lies below what is told apart. measurement: that of
    levels; None where losses are costs.
    """
    floor = -np.inf if measurement is None else np.log10(smallest(measurement))
    cut_off = unit == "decades" and bool((losses <= floor).any())
    return mean_of(f"{name} ≤" if cut_off else name, losses, partial(format_loss, unit=unit))


def format_loss(loss: float, unit: str) -> str:
    """A loss, in the measurement's own direction."""
    return number(loss) if unit == "decades" else f"{_sign(unit) * loss:.4g}"


def _spread(losses: Sequence[np.ndarray]) -> float:
    """The larger standard deviation over seeds of two runs; 0 where there is none."""
    healthy = [values[np.isfinite(values)] for values in losses]
    return max((float(np.std(values, ddof=1)) for values in healthy if len(values) > 1), default=0)


def judged_again(
    finding: CaseOutcome, again: Mapping[str, Callable[[], CaseOutcome]]
) -> CaseOutcome:
    """The finding, fragile where judging it otherwise gives another outcome; again: by words."""
    others = {words: judge().outcome for words, judge in again.items()}
    changed = [
        f"{outcome} at {words}"
        for words, outcome in others.items()
        if outcome not in (finding.outcome, "not testable")
    ]
    return replace(finding, fragile=", ".join(changed))


def judged_by(
    budget: float, judge: Callable[[float], CaseOutcome], *, start: float = 0.0
) -> CaseOutcome:
    """The finding by a budget, judged again by the `SHARES` of it that reach beyond the start."""
    again = {
        words: partial(judge, share * budget)
        for words, share in SHARES.items()
        if share * budget > start
    }
    return judged_again(judge(budget), again)


def as_far_as_resolved(
    results: Results,
    finding: CaseOutcome,
    traces: Sequence[Trace],
    gaps: Sequence[np.ndarray],
    criterion: Criterion,
) -> CaseOutcome:
    """What remains of the finding wherever between two records targets were met.

    traces: that were compared. gaps: the least and the largest advantages (seeds,) that records
    leave open.
    """
    if finding.outcome == "undecided":
        return finding
    least, most = (results.interval(extreme, traces) for extreme in gaps)
    outcome = decide(Interval(np.nan, least.low, most.high), criterion)
    if outcome != finding.outcome:
        reason = "below resolution: records are too far apart to tell, or end too early"
        return replace(finding, outcome="not testable", evidence=f"{finding.evidence}; {reason}")
    return finding


def _values(trace: Trace, measurement: str) -> np.ndarray:
    """Losses by record, (seeds, records)."""
    if unit_of_losses(measurement) == "decades":
        return log_measurement(trace, measurement)
    return _sign(measurement) * column(trace, measurement)


def _lost_apart(trace: Trace, measurement: str, losses: np.ndarray) -> np.ndarray:
    lost = diverged(trace) | worse_than_start(trace, measurement)[:, -1] | np.isnan(losses)
    return np.where(lost, np.inf, losses)


def _sign(measurement: str) -> int:
    return -1 if measurement in LARGER_IS_BETTER else 1
