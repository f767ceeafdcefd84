from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fedatlas.evaluation.costs import Trace, column, specification
from fedatlas.evaluation.evidence import counts, level, plain
from fedatlas.evaluation.levels import diverged, log_measurement, until
from fedatlas.evaluation.relations import SHARES, check_pairs, judged_again
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.slopes import BoundTest, Line, Lines, rising, slopes_of
from fedatlas.evaluation.theory_table import running_means
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.measurements import MEASUREMENTS, Level

Size = Literal["rounds", "local_steps", "silos", "clients"]
_ALONG: dict[Size, str] = {
    "rounds": "rounds of a run",
    "local_steps": "local steps of a round",
    "silos": "silos",
    "clients": "clients of each silo",
}


class ErrorScalingTest(Lines, BoundTest):
    """The error that runs end with grows at most, or falls at least, as a size to a power.

    The statistic is how much lower the slope of log error over log size is than `power`. Theorems
    bound from above: a lower slope reproduces. With `averaged` the error is the mean square of the
    measurement along all rounds, as theorems of nonconvex objectives bound it; otherwise it is the
    measurement at the end.

    averaged: whether the error is a mean along all rounds.
    """

    kind: Literal["error_scaling"]
    series: tuple[str, ...] = Field(min_length=2, description="by rising size")
    size: Size = Field(description="of clients those of each silo")
    power: float = Field(description="of the size, in the theorem: -0.5 of 1/√R")
    measurement: Level = "gradient_norm"
    averaged: bool = True

    @property
    def runs(self) -> tuple[str, ...]:
        return self.series

    @property
    def unit(self) -> str:
        return "slope"

    def check(self, experiment: Experiment) -> None:
        sizes = [
            _size(
                self.size,
                experiment.partition_of(run).model_dump(),
                experiment.runs[run].hyper_parameters,
                experiment.rounds_of(run),
            )
            for run in self.series
        ]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            raise ValueError(f"run '{self.series[sizes.index(None)]}' has no one {self.size}")
        if known != sorted(set(known)):
            raise ValueError(f"{self.size} of series must rise; they are {known}")

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        traces = results.selected(*self.series)
        again = {
            words: partial(self._of, results, [until(trace, share) for trace in traces])
            for words, share in SHARES.items()
        }
        yield from results.with_tuning([judged_again(self._of(results, traces), again)], *self.runs)

    def lines(self, selected: Callable[..., list[Trace]]) -> Iterator[Line]:
        traces = selected(*self.series)
        of = MEASUREMENTS[self.measurement].long_name
        yield Line(
            label="",
            along=_ALONG[self.size],
            of=f"mean square of the {of}" if self.averaged else of,
            sizes=self._sizes(traces),
            logarithms=self._logarithms(traces),
            expected=self.power,
        )

    def _of(self, results: Results, traces: Sequence[Trace]) -> CaseOutcome:
        check_pairs(traces)
        sizes, errors = self._sizes(traces), self._logarithms(traces)
        of = f"mean square of {self.measurement}" if self.averaged else self.measurement
        told = ", ".join(
            level(f"{self.size} = {size:g}", error)
            for size, error in zip(sizes, errors, strict=True)
        )
        gaps = self.power - slopes_of(sizes, errors)
        if not np.isfinite(gaps).any():
            return CaseOutcome("", "not testable", f"{of}: {told}; no seed ended in all runs")
        outcome, effect = results.compare(gaps, self.criterion, self.unit, traces, self.measurement)
        slope, low, high = (self.power - one for one in (effect.estimate, effect.high, effect.low))
        evidence = f"{of}: {told}; slope {plain(slope)} ({plain(low)} to {plain(high)}), "
        evidence += f"at most {self.power:g} claimed; {counts(effect)}"
        return CaseOutcome("", outcome, evidence, effect)

    def _sizes(self, traces: Sequence[Trace]) -> np.ndarray:
        return rising(traces, [self._size_of(trace) for trace in traces], self.size)

    def _logarithms(self, traces: Sequence[Trace]) -> np.ndarray:
        return np.stack([self._errors(trace) for trace in traces])

    def _errors(self, trace: Trace) -> np.ndarray:
        """(seeds,) logarithms; +inf for a seed that diverged."""
        if not self.averaged:
            errors = log_measurement(trace, self.measurement)[:, -1]
        else:
            squares = column(trace, self.measurement) ** 2
            errors = np.log10(running_means(column(trace, "round"), squares)[:, -1])
        return np.where(diverged(trace), np.inf, errors)

    def _size_of(self, trace: Trace) -> int:
        declared = specification(trace)
        size = _size(
            self.size, declared["partition"], declared["hyper_parameters"], int(declared["rounds"])
        )
        assert size is not None  # as checked before training
        return size


def _size(
    size: Size, partition: Mapping[str, Any], hyper_parameters: Mapping[str, Any], rounds: int
) -> int | None:
    """None where a run has none, or several."""
    if size == "rounds":
        return rounds
    if size == "silos":
        return int(np.prod(list(partition["cut"].values()))) if "cut" in partition else None
    declared = hyper_parameters.get(size) if size == "local_steps" else partition.get(size)
    return declared if isinstance(declared, int) else None
