from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import Direction, advantages
from fedatlas.evaluation.costs import Trace, specification
from fedatlas.evaluation.evidence import level, plain, target_name
from fedatlas.evaluation.levels import Crossings, cost_to_reach, crossings, log_target
from fedatlas.evaluation.relations import FACTORS, ComparisonTest, as_far_as_resolved, judged_again
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.measurements import Level, check_target
from fedatlas.schema.partitions import VerticalPartition

#: Time to a target falls as parties to this power where speed-up is linear.
LINEAR_POWER = -1.0
#: "Near linear": a power closer to it than this. Our choice.
NEAR = 0.2
#: "Much better scalability": a power lower by this much, a fifth of the time at 8 times q. Ours.
MUCH_LOWER = 0.1


class ScalingTest(ComparisonTest):
    """Simulated time to a target falls near linearly with the number of parties.

    With `compare_with`, runs of another method at the same numbers of parties: it falls faster than
    theirs. The statistic is the slope of log time over log parties, and how close it is to -1, or
    how much lower than that of the others. `smallest_effect` is a difference of slopes: 0.2 of what
    is near linear, 0.1 of what is faster. A seed that missed a target has an infinite slope.
    """

    kind: Literal["scaling"]
    series: tuple[str, ...] = Field(min_length=2, description="by rising number of parties")
    compare_with: tuple[str, ...] = ()
    measurement: Level = "suboptimality"
    target: PositiveFloat = Field(default=1e-3, description="in units of the measurement")

    @property
    def runs(self) -> tuple[str, ...]:
        return (*self.series, *self.compare_with)

    @property
    def unit(self) -> str:
        return "slope"

    @property
    def direction(self) -> Direction:
        return "better" if self.compare_with else "equal"

    @property
    def default_effect(self) -> float:
        return MUCH_LOWER if self.compare_with else NEAR

    @model_validator(mode="after")
    def _series_are_as_long_and_can_reach_the_target(self) -> Self:
        if self.compare_with and len(self.compare_with) != len(self.series):
            raise ValueError("compare_with needs a run for each of series, or none at all")
        check_target(self, self.measurement, self.target)
        return self

    def check(self, experiment: Experiment) -> None:
        series, compared = (
            [_parties_of(experiment, run) for run in runs]
            for runs in (self.series, self.compare_with)
        )
        if series != sorted(set(series)):
            raise ValueError(f"parties of series must rise; they are {series}")
        if compared and compared != series:
            raise ValueError(f"compare_with has {compared} parties, series has {series}")

    def judge(self, results: Results) -> Iterator[Finding]:
        target = log_target(self.measurement, self.target)
        again = {
            words: partial(self._to, results, target + float(np.log10(factor)))
            for words, factor in FACTORS.items()
        }
        finding = judged_again(self._to(results, target), again)
        yield from results.with_tuning([finding], *self.runs)

    def _to(self, results: Results, target: float) -> Finding:
        subject = f"simulated seconds to {target_name(self.measurement, target)}"
        series, other = results.selected(*self.series), results.selected(*self.compare_with)
        numbers = parties(series)
        found = [
            [crossings(trace, self.measurement, "simulated_time", target) for trace in traces]
            for traces in (series, other)
            if traces
        ]
        if other:
            parties(other)
        told = ", against ".join(_told(numbers, of_series) for of_series in found)
        costs = [np.stack([crossing.cost for crossing in of_series]) for of_series in found]
        if any(np.isneginf(cost).any() for cost in costs):
            return Finding("", "not testable", f"{subject}: {told}; one run starts there")
        slopes = [slopes_of(numbers, cost) for cost in costs]
        if not np.isfinite(slopes).any(axis=0).any():
            return Finding("", "not testable", f"{subject}: {told}; the budget is too small")
        aim = self.aim
        outcome, effect = results.compare(
            _gaps(slopes), aim, self.unit, [*series, *other], self.measurement
        )
        shown = f"{plain(effect.estimate)} ({plain(effect.low)} to {plain(effect.high)})"
        what = "lower than theirs by" if other else "below -1 by"
        counted = f"{aim.smallest:g} counts" if other else f"closer than {aim.smallest:g} is near"
        evidence = f"{subject}: {told}; slope {what} {shown}; {counted}"
        seconds = results.seconds_of_a_seed([*series, *other]) if outcome == "undecided" else None
        finding = Finding("", outcome, evidence, effect, seconds=seconds)
        # The highest slope of ours against the lowest of theirs, and the other way round.
        gaps = [
            _gaps(
                [
                    _extreme(numbers, of_series, (place == 0) == lowest)
                    for place, of_series in enumerate(found)
                ]
            )
            for lowest in (False, True)
        ]
        return as_far_as_resolved(results, finding, gaps, aim)


def slopes_of(numbers: np.ndarray, logarithms: np.ndarray) -> np.ndarray:
    """(seeds,) slopes of log time (runs, seeds) over log parties; +inf: a target was missed."""
    whole = np.isfinite(logarithms).all(axis=0)
    slopes = np.full(logarithms.shape[1], np.inf)
    if whole.any():
        slopes[whole] = _weights(numbers) @ logarithms[:, whole]
    return slopes


def _weights(numbers: np.ndarray) -> np.ndarray:
    """(runs,) by which logarithms of times make a slope of least squares."""
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


def _gaps(slopes: Sequence[np.ndarray]) -> np.ndarray:
    """(seeds,) how much lower the first slopes are than the others, or than linear."""
    if len(slopes) == 1:
        return LINEAR_POWER - slopes[0]
    return advantages(slopes[0], slopes[1])


def _told(numbers: np.ndarray, found: Sequence[Crossings]) -> str:
    return ", ".join(
        level(f"{count} {'party' if count == 1 else 'parties'}", crossing.cost)
        for count, crossing in zip(numbers, found, strict=True)
    )


def _parties_of(experiment: Experiment, run: str) -> int:
    partition = experiment.partition_of(run)
    if not isinstance(partition, VerticalPartition):
        raise ValueError(f"run '{run}' has no parties")
    return partition.parties


def parties(traces: Sequence[Trace]) -> np.ndarray:
    """(runs,) numbers of parties; FedatlasError if a run has none or they do not rise."""
    numbers = []
    for trace in traces:
        partition = specification(trace)["partition"]
        if "parties" not in partition:
            raise FedatlasError(
                f"run '{trace.attrs['run']}' has no parties: scaling needs vertical runs"
            )
        numbers.append(partition["parties"])
    if sorted(set(numbers)) != numbers:
        raise FedatlasError(
            f"runs {', '.join(trace.attrs['run'] for trace in traces)} have "
            f"{', '.join(map(str, numbers))} parties: list runs by rising number of parties"
        )
    return np.array(numbers)


def times(traces: Sequence[Trace], measurement: str, target: float) -> np.ndarray:
    """(runs, seeds) simulated time until the target is met, +inf where it never is."""
    level = log_target(measurement, target)
    return np.stack(
        [cost_to_reach(trace, measurement, "simulated_time", level) for trace in traces]
    )
