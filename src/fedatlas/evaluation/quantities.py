"""Quantities of runs, words for claimed relations, and the tests that compare runs.

Runs are compared at a cost that all spent. An ε at δ = 0 holds at every δ. Other values of ε can be
compared only at equal δ, seed by seed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import (
    Criterion,
    Direction,
    Interval,
    advantages,
    beside_printed,
    decide,
)
from fedatlas.evaluation.ended import (
    Extremes,
    coincide,
    ended_at,
    how_near,
    recorded_until,
    require_records,
    what_would_tell,
)
from fedatlas.evaluation.evidence import (
    bound_of_ratio,
    counts,
    format_cost,
    format_effect,
    mean_of,
    number,
    target_name,
    unit_of,
)
from fedatlas.evaluation.horizon import Row, along
from fedatlas.evaluation.levels import (
    Crossings,
    Trace,
    column,
    common_budget,
    common_start,
    cost_axis,
    cost_to_reach,
    crossings,
    diverged,
    log_measurement,
    mean_along,
    reached,
    rounds_of,
    sign_of,
    smallest,
    worse_than_start,
)
from fedatlas.evaluation.results import NotTestableError, Results, tested
from fedatlas.evaluation.tuning import by_tries
from fedatlas.schema.claims import CaseOutcome, ClaimTest, Effect
from fedatlas.schema.quantities import LARGER_IS_BETTER, MEASUREMENTS

Relation = Literal["faster", "at_least_as_fast", "much_faster", "similar", "nearly_the_same"]

#: From which factor on ratios of levels and costs count, and from which difference accuracies,
#: AUROCs and F1 scores: our choice.
COUNTING_FACTOR, COUNTING_DIFFERENCE = 1.05, 0.005
#: What papers' words claim, and from which factor on a ratio of levels or costs counts: our choice.
RELATIONS: dict[Relation, tuple[Direction, float]] = {
    "faster": ("better", COUNTING_FACTOR),
    "at_least_as_fast": ("not worse", COUNTING_FACTOR),  # "≥"
    "much_faster": ("better", 2.0),  # "≫"
    "similar": ("equal", COUNTING_FACTOR),
    "nearly_the_same": ("equal", 1.1),  # "≈"
}
#: Share of a budget, at its end, over which levels are means, and what it is unless declared: "in
#: the end" is the last tenth, our choice.
Window = Annotated[float, Field(gt=0, le=1)]
WINDOW = 0.1

#: The cost that holds at a δ.
EPSILON = "epsilon"
#: Keys of `EffectTest`.
EFFECT_KEYS = ("smallest_effect", "published_effect", "published_trials")


class Measured(NamedTuple):
    """A quantity of some runs.

    subject: the quantity in words. of: of which there is less or more. losses: (seeds,) of each
    run, smaller is better, +inf for a lost seed. between: of costs, when runs crossed the target.
    """

    subject: str
    of: str
    losses: Sequence[np.ndarray]
    between: Sequence[Crossings] = ()


class Duel(NamedTuple):
    """Two tuned runs that a case compares.

    judge: finds that one case for other configurations of the runs, from a trace of each.
    """

    runs: tuple[str, str]
    judge: Callable[[Sequence[Trace]], Iterator[CaseOutcome]]


class EffectTest(ClaimTest, ABC):
    """A test of a difference over seeds, which counts from the smallest effect on.

    smallest_effect: the smallest effect that counts: a factor above 1 of levels and costs, a
    difference of accuracies, AUROCs, F1 scores and errors. published_effect: the effect that the
    paper prints, in the same units. published_trials: of how many trials the paper's effect is the
    mean.
    """

    smallest_effect: PositiveFloat | None = None
    published_effect: PositiveFloat | None = None
    published_trials: PositiveInt = 1

    @property
    def unit(self) -> str:
        """Unit of the advantage."""
        return unit_of_losses(getattr(self, "measurement", ""))

    @property
    def direction(self) -> Direction:
        """Direction in which the advantage is claimed."""
        return "better"

    @property
    def default_effect(self) -> float:
        """The smallest effect that counts where none is declared: our choice."""
        return self.tie

    @property
    def tie(self) -> float:
        """Smaller differences count as none, whatever the claim declares: our choice."""
        return COUNTING_FACTOR if self.unit == "decades" else COUNTING_DIFFERENCE

    @property
    def row(self) -> Row | None:
        """Budgets or targets at which it is judged as well, if there are any."""
        return None

    @property
    def criterion(self) -> Criterion:
        """Criterion of the claim, in units of the advantage."""
        smallest, published = self.smallest_effect or self.default_effect, self.published_effect
        tie = min(smallest, self.tie)
        if self.unit == "decades":
            smallest, tie = float(np.log10(smallest)), float(np.log10(tie))
            published = None if published is None else float(np.log10(published))
        return Criterion(self.direction, smallest, published, self.published_trials, tie)

    @model_validator(mode="after")
    def _effects_are_in_units(self) -> Self:
        for key in ("smallest_effect", "published_effect"):
            value = getattr(self, key)
            if value is not None and self.unit == "decades" and value <= 1:
                raise ValueError(f"{key}: {value:g} must be a factor above 1, such as 1.05")
        if self.published_effect is not None and self.direction != "better":
            raise ValueError("published_effect: the claim is not about a lead; remove it")
        return self

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        for case in along(partial(self.at_scale, results), self.row):
            if duel := self.duels(results).get(case.case):

                def of_pair(traces: Sequence[Trace], duel: Duel = duel) -> CaseOutcome:
                    (found,) = tested(partial(duel.judge, traces))
                    return found

                tries = by_tries(
                    [results.grids.get(run) for run in duel.runs],
                    results.selected(*duel.runs),
                    of_pair,
                    self.criterion,
                    (*self.measured, *self.counted),
                )
                case = replace(case, tries=tries)
            yield self.tuned(results, case)

    def duels(self, results: Results) -> Mapping[str, Duel]:
        """Comparisons of two runs at their tuned configurations, by case; none by default."""
        return {}

    def tuned(self, results: Results, case: CaseOutcome) -> CaseOutcome:
        """The case, with how the points that are compared were chosen."""
        return results.tuned(case, *self.runs)

    @abstractmethod
    def at_scale(self, results: Results, scale: float) -> Iterator[CaseOutcome]:
        """Outcomes, one per case, at a scale of the budget or of the target."""

    def compared(
        self,
        results: Results,
        traces: Sequence[Trace],
        names: Sequence[str],
        found: Measured,
        measurement: str,
    ) -> CaseOutcome:
        """The first of two runs against the second; measurement: from which losses come."""
        ends = format_ends(names, found, self.unit, measurement)
        if np.isposinf(found.losses).all():
            return CaseOutcome("", "not testable", f"{ends}; every seed was lost")
        words = ("higher", "lower") if measurement in LARGER_IS_BETTER else ("lower", "higher")
        same = bool(found.between) and coincide(traces, found.between, measurement)

        def describe(effect: Effect) -> str:
            near = 0 < abs(effect.estimate) < _spread(found.losses)
            small = ", less than the spread of seeds" if near else ""
            told = f"{ends}; {format_effect(effect, found.of, *words)}{small}; {counts(effect)}"
            alike = "; both runs are the same at every record" * same
            return told + results.of_test_rows(traces, measurement) + alike

        gaps = advantages(*found.losses)
        extremes: Extremes | None = None
        if found.between and not same:
            first, second = found.between

            def extremes(times: float) -> tuple[np.ndarray, np.ndarray]:
                one, other = first.closer(times), second.closer(times)
                return advantages(one.after, other.before), advantages(one.before, other.after)

        bound = bound_of_ratio(*at_floor(found, self.unit, measurement))
        return self.decided(results, traces, gaps, describe, measurement, extremes, bound)

    def decided(
        self,
        results: Results,
        traces: Sequence[Trace],
        gaps: np.ndarray,
        describe: Callable[[Effect], str],
        measurement: str,
        extremes: Extremes | None = None,
        bound: str = "",
    ) -> CaseOutcome:
        """The outcome of advantages (seeds,), with evidence that describes the effect.

        traces: that were compared. measurement: from which advantages come. extremes: not testable
        where the outcome depends on what records leave open. bound: as that of `Effect`.
        """
        criterion = self.criterion
        outcome, effect = results.compare(gaps, criterion, self.unit, traces, measurement)
        effect = replace(effect, bound=bound)
        case = CaseOutcome("", outcome, describe(effect), effect)
        if extremes and outcome != "undecided":
            open_to, found = extremes, outcome
            printed = beside_printed(gaps, criterion)

            def told(times: float, of_median: bool = False) -> bool:
                least, most = (results.interval(extreme, traces) for extreme in open_to(times))
                ends = (least.estimate, most.estimate) if of_median else (least.low, most.high)
                return decide(Interval(np.nan, *ends), printed) == found

            if not told(1):
                what = what_would_tell(traces, told, seeds=told(1, of_median=True))
                return case.not_testable(f"below resolution: {what}")
        return case


def at_end(traces: Sequence[Trace], measurement: str, share: float) -> Measured:
    """The measurement that runs end with, after a share of their rounds."""
    shown = recorded_until(traces, share)
    ends = [lost_apart(trace, measurement, losses_of(trace, measurement)[:, -1]) for trace in shown]
    return Measured(f"{measurement} at the end", measurement, ends)


def by_cost(
    traces: Sequence[Trace], measurement: str, cost: str, budget: float, window: float
) -> Measured:
    """The mean measurement over the last `window` share of a budget.

    NotTestableError where most seeds of all runs lie at the level below which none is told apart.
    """
    start = (1 - window) * budget
    since = f"from {start:.4g} to" if start > 0 else "up to"
    subject = f"{measurement} {since} {format_common_cost(traces, cost, budget)}"
    if unit_of_losses(measurement) != "decades":
        losses = [losses_along(trace, measurement, cost, start, budget) for trace in traces]
        return Measured(subject, measurement, losses)
    losses = [reached(trace, measurement, cost, budget, window) for trace in traces]
    least = smallest(measurement)
    if len(traces) > 1 and np.mean(np.max(losses, axis=0) <= np.log10(least)) > 0.5:
        raise NotTestableError(f"{subject}: both runs have arrived at {least:.2g}; look earlier")
    return Measured(subject, measurement, losses)


def to_target(
    traces: Sequence[Trace],
    names: Sequence[str],
    measurement: str,
    cost: str,
    target: float,
    stays: bool,
) -> Measured:
    """The cost at which runs reach a level. NotTestableError where that says nothing."""
    require_records(traces, measurement, target)
    found = [crossings(trace, measurement, cost, target, stays=stays) for trace in traces]
    subject = f"{unit_of(cost)} to {target_name(measurement, target)}"
    if ended := {name for name, trace in zip(names, traces, strict=True) if ended_at(trace)}:
        subject += f" (a target ends {', '.join(sorted(ended))})"
    subject += " for good" if stays else ""
    for name, trace, crossing in zip(names, traces, found, strict=True):
        starts_there = log_measurement(trace, measurement, target)[:, 0] <= target
        if (starts_there & np.isneginf(crossing.cost)).any():
            raise NotTestableError(f"{subject}: {name} starts there")
    # The lower middle: of as many that arrive as do not, the typical seed arrives.
    for share, who in ((0.0, "neither run"), (0.5, "under most seeds neither run")):
        if all(np.isposinf(np.quantile(one.cost, share, method="lower")) for one in found):
            near = how_near(names, traces, measurement)
            raise NotTestableError(f"{subject}: {who} arrives; {near}")
    if cost == EPSILON:
        deltas = [delta_to_reach(trace, measurement, target) for trace in traces]
        if why := why_no_common_delta(list(zip(names, deltas, strict=True))):
            raise NotTestableError(f"{subject}: {why}")
        subject += format_delta(common_delta(deltas))
    for name, crossing in zip(names, found, strict=True):
        if np.isneginf(crossing.cost).any():
            raise NotTestableError(f"{subject}: {name} gets there at a cost of 0")
    return Measured(subject, unit_of(cost), [crossing.cost for crossing in found], found)


def spent_in_all(traces: Sequence[Trace], cost: str) -> Measured:
    """The cost of whole runs of equally many rounds; FedatlasError unless they have as many."""
    rounds = {trace.attrs["run"]: rounds_of(trace) for trace in traces}
    if len(set(rounds.values())) > 1:
        told = ", ".join(f"{run} has {count}" for run, count in rounds.items())
        raise FedatlasError(f"what runs spend is compared over as many rounds; {told}")
    spent = [
        np.where(diverged(trace), np.inf, np.log10(cost_axis(trace, cost)[:, -1]))
        for trace in traces
    ]
    subject = f"{unit_of(cost)} of {next(iter(rounds.values()))} rounds"
    return Measured(subject, unit_of(cost), spent)


def shared_range(
    traces: Sequence[Trace], cost: str, share: float = 1.0, at: float | None = None
) -> tuple[float, float]:
    """The cost by which all runs have a record, and a share of that at which they are compared.

    at: declared; None: the largest that all reached. NotTestableError unless they can be compared
    there.
    """
    budget, start = common_budget(traces, cost), common_start(traces, cost)
    if all(diverged(trace).all() for trace in traces):
        raise NotTestableError("every seed diverged")
    if not budget:
        idle = dict.fromkeys(
            trace.attrs["run"]
            for trace in traces
            if (cost_axis(trace, cost)[~diverged(trace), -1] == 0).any()
        )
        raise NotTestableError(f"no cost that all spent: {', '.join(idle)} spent 0 {unit_of(cost)}")
    if not np.isfinite(budget):
        raise NotTestableError(f"what all spent {unit_of(cost)} has no bound")
    if cost == EPSILON:
        deltas = [(trace.attrs["run"], delta_at(trace, budget)) for trace in traces]
        if why := why_no_common_delta(deltas):
            raise NotTestableError(why)
    if at is not None and at > budget:
        raise FedatlasError(
            f"'at: {at:g}' lies beyond {format_cost(cost, budget)}, the most that all runs spent"
        )
    end = share * (budget if at is None else at)
    if start >= end:
        raise NotTestableError(
            f"no cost that all spent: one has no record before {format_cost(cost, start)}, one "
            f"ends at {end:.4g}"
        )
    first = common_start(traces, cost, 1)
    if first > end * (1 + 1e-9):
        raise NotTestableError(
            f"no record by {end:.4g}: the first after a start is at {format_cost(cost, first)}"
        )
    return start, end


def format_common_cost(traces: Sequence[Trace], cost: str, budget: float) -> str:
    """A cost that all runs spent, with its unit and δ."""
    deltas = [delta_at(trace, budget) for trace in traces] if cost == EPSILON else []
    return format_cost(cost, budget) + format_delta(common_delta(deltas))


def delta_at(trace: Trace, epsilon: float) -> np.ndarray:
    """(seeds,) the δ at which an ε holds by the time it is spent; NaN of a diverged seed."""
    seeds = zip(cost_axis(trace, EPSILON), cost_axis(trace, "delta"), strict=True)
    found = np.array([np.interp(epsilon, *records) for records in seeds])
    return np.where(diverged(trace), np.nan, found)


def delta_to_reach(trace: Trace, measurement: str, target: float) -> np.ndarray:
    """(seeds,) the δ at which the ε holds that it takes to reach a level; NaN where none does."""
    found = cost_to_reach(trace, measurement, "delta", target)
    return np.where(np.isfinite(found), found, np.nan)


def common_delta(deltas: Sequence[np.ndarray]) -> float | None:
    """The δ at which the ε of all runs hold; None if there is none.

    deltas: by run and seed. The ε of a run hold at the largest δ of its seeds.
    """
    above_0 = [own for own in deltas if largest_delta(own) > 0]
    if not above_0:
        return 0.0
    first, *others = above_0
    same = (
        own.shape == first.shape and np.allclose(own, first, rtol=1e-9, atol=0.0, equal_nan=True)
        for own in others
    )
    return largest_delta(first) if all(same) else None


def why_no_common_delta(deltas: Sequence[tuple[str, np.ndarray]]) -> str:
    """Explain that the ε of runs hold at different δ; empty if they can be compared."""
    if common_delta([own for _, own in deltas]) is not None:
        return ""
    told = [f"{run} at δ = {largest_delta(own):.3g}" for run, own in deltas]
    return f"not comparable: ε holds for {', '.join(told)}"


def format_delta(delta: float | None) -> str:
    """The δ at which an ε holds; empty of δ = 0, at which it needs no words."""
    return f" at δ = {delta:.3g}" if delta else ""


def largest_delta(deltas: np.ndarray) -> float:
    """Largest δ of seeds, some of which may have none."""
    return float(deltas[np.isfinite(deltas)].max(initial=0.0))


def unit_of_losses(measurement: str) -> str:
    """Decades where ratios are compared, as of what falls by orders of magnitude; else a score.

    A measurement that a file declares is a score, unless it says that it is logarithmic.
    """
    known = MEASUREMENTS.get(measurement)
    scores = measurement in LARGER_IS_BETTER or measurement.endswith("_rmse")
    scores |= known is not None and known.declared is not None and not known.logarithmic
    return measurement if scores else "decades"


def losses_along(trace: Trace, measurement: str, cost: str, start: float, end: float) -> np.ndarray:
    """(seeds,) mean losses over costs from start to end; +inf for a lost seed."""
    values = mean_along(trace, measurement, cost, start, end)
    return np.where(np.isnan(values), np.inf, sign_of(measurement) * values)


def losses_of(trace: Trace, measurement: str) -> np.ndarray:
    """(seeds, records) losses by record, in `unit_of_losses`."""
    if unit_of_losses(measurement) == "decades":
        return log_measurement(trace, measurement)
    return sign_of(measurement) * column(trace, measurement)


def lost_apart(trace: Trace, measurement: str, losses: np.ndarray) -> np.ndarray:
    """(seeds,) losses, +inf for a seed that is lost by the end."""
    lost = diverged(trace) | worse_than_start(trace, measurement)[:, -1] | np.isnan(losses)
    return np.where(lost, np.inf, losses)


def format_ends(names: Sequence[str], found: Measured, unit: str, measurement: str) -> str:
    """The subject, and each run's mean over seeds, in the measurement's own direction.

    It is an upper bound where a seed's level lies at the floor.
    """
    bounds = at_floor(found, unit, measurement)
    ends = [
        mean_of(f"{name} ≤" if bound else name, losses, partial(format_loss, unit=unit))
        for name, losses, bound in zip(names, found.losses, bounds, strict=True)
    ]
    return f"{found.subject}: {', '.join(ends)}"


def at_floor(found: Measured, unit: str, measurement: str) -> list[bool]:
    """Whether a level of each run lies below what is told apart; costs have no floor."""
    floor = np.log10(smallest(measurement)) if unit == "decades" else -np.inf
    return [bool((own <= floor).any()) and not found.between for own in found.losses]


def format_loss(loss: float, unit: str) -> str:
    """A loss, in the measurement's own direction."""
    return number(loss) if unit == "decades" else f"{sign_of(unit) * loss:.4g}"


def _spread(losses: Sequence[np.ndarray]) -> float:
    """The larger standard deviation over seeds of two runs; 0 where there is none."""
    healthy = [values[np.isfinite(values)] for values in losses]
    return max((float(np.std(values, ddof=1)) for values in healthy if len(values) > 1), default=0)
