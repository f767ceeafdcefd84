"""How costs to a target grow or fall with a size of the problem: slopes of logarithms."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import Direction, advantages
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import format_repeats, level, plain, target_name, unit_of
from fedatlas.evaluation.levels import Crossings, crossings, log_target
from fedatlas.evaluation.relations import FACTORS, ComparisonTest, as_far_as_resolved, judged_again
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.shared_costs import EPSILON, delta_to_reach, why_no_common_delta
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.cost_names import Cost
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.measurements import Level, check_target

#: From which difference of powers counts, a fifth of the cost at 9 times the size, or which share
#: of an exponent. Our choice.
COUNTING_POWER = 0.1


@dataclass(frozen=True)
class Line:
    """What a slope is taken of.

    label: what tells it from other lines of one claim. along, of: what sizes are, and what there is
    of logarithms. sizes: (runs,), rising. logarithms: (runs, seeds); +inf where a seed has none.
    expected: the slope that is claimed, None where lines are compared with each other.
    """

    label: str
    along: str
    of: str
    sizes: np.ndarray
    logarithms: np.ndarray
    expected: float | None

    @property
    def complete(self) -> np.ndarray:
        """(runs, seeds) logarithms of the seeds that have one at every size."""
        return self.logarithms[:, np.isfinite(self.logarithms).all(axis=0)]


class Lines(ABC):
    """A test whose slopes a figure can draw."""

    @property
    def has_slopes(self) -> bool:
        """Always: its lines."""
        return True

    @abstractmethod
    def lines(self, selected: Callable[..., list[Trace]]) -> Iterator[Line]:
        """What its slopes are taken of; selected: runs → traces at their chosen points."""


class SlopeTest(ComparisonTest, ABC):
    """A test of the slope of log cost to targets over the log of a size.

    `smallest_effect` is a difference of slopes. A seed that missed a target has an infinite slope.
    """

    measurement: Level

    @property
    def unit(self) -> str:
        return "slope"

    @property
    @abstractmethod
    def spent(self) -> str:
        """The cost."""

    @property
    @abstractmethod
    def expected(self) -> float:
        """The slope that is claimed where nothing is compared with."""

    def format_counted(self, smallest: float) -> str:
        """What counts, in words."""
        return f"{smallest:g} counts"

    def of_different_delta(self, reached: Iterable[tuple[str, Trace, float]]) -> str:
        """Why an ε cannot be compared, in words; reached: name, trace and target of each cost."""
        if self.spent != EPSILON:
            return ""
        return why_no_common_delta(
            [
                (name, delta_to_reach(trace, self.measurement, target))
                for name, trace, target in reached
            ]
        )

    def sloping(
        self,
        results: Results,
        traces: Sequence[Trace],
        sizes: np.ndarray,
        found: Sequence[Sequence[Crossings]],
        told: str,
    ) -> CaseOutcome:
        """The slope of the first series of crossings, against that of the second if there is one.

        sizes: (crossings,) of each series. traces: all that crossings are of. told: subject and
        crossings, in words.
        """
        slopes = [slopes_of(sizes, np.stack([each.cost for each in series])) for series in found]
        if not np.isfinite(slopes).any(axis=0).any():
            return CaseOutcome("", "not testable", f"{told}; the budget is too small")
        criterion, alone = self.criterion, len(found) == 1
        outcome, effect = results.compare(
            self._gaps(slopes), criterion, self.unit, traces, self.measurement
        )
        shown = f"{plain(effect.estimate)} ({plain(effect.low)} to {plain(effect.high)})"
        what = f"below {self.expected:g} by" if alone else "lower than theirs by"
        counted = (
            self.format_counted(criterion.smallest) if alone else f"{criterion.smallest:g} counts"
        )
        evidence = f"{told}; slope {what} {shown}; {counted}{format_repeats(effect)}"
        finding = CaseOutcome("", outcome, evidence, effect)
        # The highest slope of ours against the lowest of theirs, and the other way round.
        gaps = [
            self._gaps(
                [
                    _extreme(sizes, series, (place == 0) == lowest)
                    for place, series in enumerate(found)
                ]
            )
            for lowest in (False, True)
        ]
        return as_far_as_resolved(results, finding, traces, gaps, criterion)

    def _gaps(self, slopes: Sequence[np.ndarray]) -> np.ndarray:
        """(seeds,) how much lower the first slopes are than the others, or than is expected."""
        if len(slopes) == 1:
            return self.expected - slopes[0]
        return advantages(slopes[0], slopes[1])


class BoundTest(ComparisonTest, ABC):
    """A test that an exponent is no worse than a theorem bounds it."""

    @property
    def direction(self) -> Direction:
        return "not worse"

    @property
    def default_effect(self) -> float:
        return COUNTING_POWER


class PowerTest(BoundTest, SlopeTest, ABC):
    """A test that a cost grows no faster than a size to a power."""

    cost: Cost = "round"
    power: float

    @property
    def spent(self) -> str:
        return self.cost

    @property
    def expected(self) -> float:
        return self.power


class SeriesTest(Lines, SlopeTest, ABC):
    """A test of the slope along a series of runs of rising size.

    With `compare_with`, runs of another method at the same sizes: whether the slope is lower than
    theirs.

    compare_with: those runs, by rising size.
    """

    #: What sizes count, one and several.
    sized_by: ClassVar[tuple[str, str]]

    series: tuple[str, ...] = Field(min_length=2, description="by rising size")
    compare_with: tuple[str, ...] = ()
    measurement: Level = "suboptimality"
    target: PositiveFloat = Field(default=1e-3, description="in units of the measurement")

    @property
    def runs(self) -> tuple[str, ...]:
        return (*self.series, *self.compare_with)

    @abstractmethod
    def sizes(self, traces: Sequence[Trace]) -> np.ndarray:
        """(runs,) sizes; FedatlasError unless they rise."""

    @abstractmethod
    def size_in(self, experiment: Experiment, run: str) -> int:
        """That of a run; ValueError if it has none."""

    @model_validator(mode="after")
    def _series_are_as_long_and_can_reach_the_target(self) -> Self:
        if self.compare_with and len(self.compare_with) != len(self.series):
            raise ValueError("compare_with needs a run for each of series, or none at all")
        check_target(self, self.measurement, self.target)
        return self

    def check(self, experiment: Experiment) -> None:
        series, compared = (
            [self.size_in(experiment, run) for run in runs]
            for runs in (self.series, self.compare_with)
        )
        many = self.sized_by[1]
        if series != sorted(set(series)):
            raise ValueError(f"{many} of series must rise; they are {series}")
        if compared and compared != series:
            raise ValueError(f"compare_with has {compared} {many}, series has {series}")

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        target = log_target(self.measurement, self.target)
        again = {
            words: partial(self._to, results, target + float(np.log10(factor)))
            for words, factor in FACTORS.items()
        }
        finding = judged_again(self._to(results, target), again)
        yield from results.with_tuning([finding], *self.runs)

    def lines(self, selected: Callable[..., list[Trace]]) -> Iterator[Line]:
        target = log_target(self.measurement, self.target)
        labels = ("", "compared with") if self.compare_with else ("",)
        for label, runs in zip(labels, (self.series, self.compare_with), strict=False):
            traces = selected(*runs)
            yield Line(
                label=label,
                along=self.sized_by[1],
                of=self._subject(target),
                sizes=self.sizes(traces),
                logarithms=np.stack([one.cost for one in self._crossings(traces, target)]),
                expected=None if self.compare_with else self.expected,
            )

    def _subject(self, target: float) -> str:
        return f"{unit_of(self.spent)} to {target_name(self.measurement, target)}"

    def _crossings(self, traces: Sequence[Trace], target: float) -> list[Crossings]:
        return [crossings(trace, self.measurement, self.spent, target) for trace in traces]

    def _to(self, results: Results, target: float) -> CaseOutcome:
        subject = self._subject(target)
        series, other = results.selected(*self.series), results.selected(*self.compare_with)
        numbers = self.sizes(series)
        found = [self._crossings(traces, target) for traces in (series, other) if traces]
        if other:
            self.sizes(other)
        told = ", against ".join(self._told(numbers, of_series) for of_series in found)
        every = [(trace.attrs["run"], trace, target) for trace in (*series, *other)]
        if why := self.of_different_delta(every):
            return CaseOutcome("", "not testable", f"{subject}: {told}; {why}")
        if any(np.isneginf(crossing.cost).any() for of_series in found for crossing in of_series):
            reason = "one run starts there, or gets there at a cost of 0"
            return CaseOutcome("", "not testable", f"{subject}: {told}; {reason}")
        return self.sloping(results, [*series, *other], numbers, found, f"{subject}: {told}")

    def _told(self, numbers: np.ndarray, found: Sequence[Crossings]) -> str:
        one, many = self.sized_by
        return ", ".join(
            level(f"{count} {one if count == 1 else many}", crossing.cost)
            for count, crossing in zip(numbers, found, strict=True)
        )


def rising(traces: Sequence[Trace], numbers: Sequence[int], what: str) -> np.ndarray:
    """The numbers (runs,); FedatlasError unless they rise."""
    if sorted(set(numbers)) != list(numbers):
        raise FedatlasError(
            f"runs {', '.join(trace.attrs['run'] for trace in traces)} have "
            f"{', '.join(map(str, numbers))} {what}: list runs by rising number of {what}"
        )
    return np.array(numbers)


def slopes_of(numbers: np.ndarray, logarithms: np.ndarray) -> np.ndarray:
    """(seeds,) slopes of log costs (sizes, seeds) over log sizes; +inf: a target was missed."""
    whole = np.isfinite(logarithms).all(axis=0)
    slopes = np.full(logarithms.shape[1], np.inf)
    if whole.any():
        slopes[whole] = _weights(numbers) @ logarithms[:, whole]
    return slopes


def _weights(numbers: np.ndarray) -> np.ndarray:
    """(sizes,) by which logarithms of costs make a slope of least squares."""
    x = np.log10(numbers) - np.log10(numbers).mean()
    return x / (x @ x)


def _extreme(numbers: np.ndarray, found: Sequence[Crossings], lowest: bool) -> np.ndarray:
    """(seeds,) the lowest or highest slope, if targets were met anywhere between two records."""
    sooner = (_weights(numbers) > 0) == lowest
    ends = [
        crossing.before if early else crossing.after
        for early, crossing in zip(sooner, found, strict=True)
    ]
    at_once = np.isneginf(ends).any(axis=0)  # before the first record, which costs nothing
    slopes = slopes_of(numbers, np.stack(ends))
    missed = np.isposinf(ends).any(axis=0)
    return np.where(at_once & ~missed, -np.inf if lowest else np.inf, slopes)
