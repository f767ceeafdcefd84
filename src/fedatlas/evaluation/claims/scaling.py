import json
from collections.abc import Iterator, Sequence
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import bounds, level, target_name
from fedatlas.evaluation.levels import cost_to_reach, difference, log_target
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import ClaimTest, Finding
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.measurements import Level, check_target
from fedatlas.schema.partitions import VerticalPartition

#: "Near linear speed-up": time to a target falls as parties to a power in this range.
NEAR_LINEAR_POWERS = (-1.2, -0.8)
#: "Much better scalability": that power is lower by this much, a fifth of the time at 8 times q.
CLEARLY_LOWER_POWER = -0.1


class ScalingTest(ClaimTest):
    """Simulated time to a target falls near linearly with the number of parties.

    With `compare_with`, runs of another method at the same numbers of parties: it falls faster than
    theirs. The statistic is the slope of log time over log parties.
    """

    kind: Literal["scaling"]
    series: tuple[str, ...] = Field(min_length=2, description="by rising number of parties")
    compare_with: tuple[str, ...] = ()
    measurement: Level = "suboptimality"
    target: PositiveFloat = Field(default=1e-3, description="in units of the measurement")

    @property
    def runs(self) -> tuple[str, ...]:
        return (*self.series, *self.compare_with)

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
        series, other = results.selected(*self.series), results.selected(*self.compare_with)
        yield from results.with_edges([self._compared(series, other)], *self.runs)

    def _compared(self, series: Sequence[Trace], other: Sequence[Trace]) -> Finding:
        slopes, told = self._slopes(series)
        target = target_name(self.measurement, log_target(self.measurement, self.target))
        subject = f"simulated seconds to {target}"
        if not other:
            if not np.isfinite(slopes).any():
                return Finding("", "inconclusive", f"{subject}: {told}; the budget is too small")
            interval = difference(slopes, np.zeros(len(slopes)))
            low, high = NEAR_LINEAR_POWERS
            evidence = f"{subject}: {told}; slope {bounds(interval)}, claimed {low:g} to {high:g}"
            return Finding("", interval.verdict(low, high), evidence)
        other_slopes, other_told = self._slopes(other)
        if not np.isfinite([slopes, other_slopes]).all(axis=0).any():
            reason = "the budget is too small to compare them"
            return Finding("", "inconclusive", f"{subject}: {told}, against {other_told}; {reason}")
        interval = difference(slopes, other_slopes)
        evidence = f"{subject}: {told}, against {other_told}; slopes differ by {bounds(interval)}"
        verdict = interval.verdict(-np.inf, CLEARLY_LOWER_POWER)
        return Finding("", verdict, f"{evidence}, claimed below {CLEARLY_LOWER_POWER:g}")

    def _slopes(self, series: Sequence[Trace]) -> tuple[np.ndarray, str]:
        """(seeds,) slopes of log time over log parties; +inf for a seed that missed a target."""
        numbers = parties(series)
        logarithms = np.log10(times(series, self.measurement, self.target))
        told = ", ".join(
            level(f"{count} {'party' if count == 1 else 'parties'}", row)
            for count, row in zip(numbers, logarithms, strict=True)
        )
        whole = np.isfinite(logarithms).all(axis=0)
        slopes = np.full(logarithms.shape[1], np.inf)
        if whole.any():
            slopes[whole] = np.polyfit(np.log10(numbers), logarithms[:, whole], 1)[0]
        return slopes, told


def _parties_of(experiment: Experiment, run: str) -> int:
    partition = experiment.partition_of(run)
    if not isinstance(partition, VerticalPartition):
        raise ValueError(f"run '{run}' has no parties")
    return partition.parties


def parties(traces: Sequence[Trace]) -> np.ndarray:
    """(runs,) numbers of parties; FedatlasError if a run has none or they do not rise."""
    numbers = []
    for trace in traces:
        partition = json.loads(trace.attrs["specification"])["partition"]
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
