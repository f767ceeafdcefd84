"""The results of an experiment, by which claims are judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import CONFIDENCE, Aim, compare
from fedatlas.evaluation.costs import Trace, column, specification
from fedatlas.evaluation.selection import Choice, Traces, hyper_parameters, tuning_told
from fedatlas.evaluation.stationary_points import Surface
from fedatlas.schema.claims import Effect, Finding, Outcome
from fedatlas.schema.hyper_parameters import flat

if TYPE_CHECKING:
    import xarray as xr

T = TypeVar("T")


@dataclass(frozen=True)
class Results:
    """Traces, the chosen point of each run, and studies if there are any.

    window: share of a budget over which levels are means. selected_by: the measurement whose levels
    choose points. looks: how often the experiment is looked at while seeds are added, for which
    every interval pays (Bonferroni).
    """

    traces: Traces
    chosen: Mapping[str, Choice]
    window: float
    selected_by: str = "gradient_norm"
    looks: int = 1
    landscape: Surface | None = None
    budgets: xr.Dataset | None = None
    attacks: Sequence[Mapping[str, str]] | None = None

    def selected(self, *runs: str) -> list[Trace]:
        """The traces of the runs' chosen points."""
        return [self.traces[run][self.chosen[run].point] for run in runs]

    def compare(
        self, gaps: np.ndarray, aim: Aim, unit: str, traces: Iterable[Trace], measurement: str
    ) -> tuple[Outcome, Effect]:
        """As `comparison.compare`, with the variation that the traces' test rows add."""
        overlap = max(resampled_overlap(trace, measurement) for trace in traces)
        return compare(gaps, aim, unit, confidence=self.confidence, overlap=overlap)

    @property
    def confidence(self) -> float:
        """Of every interval."""
        return 1 - (1 - CONFIDENCE) / self.looks

    @staticmethod
    def of_test_rows(traces: Iterable[Trace], measurement: str) -> str:
        """A limit of what is measured on the same test rows by all seeds."""
        fixed = measurement.startswith("test_") and any(
            not resampled_overlap(trace, measurement) for trace in traces
        )
        return "; for these test rows" if fixed else ""

    @staticmethod
    def seconds_of_a_seed(traces: Iterable[Trace]) -> float:
        """About how long one more seed of all these runs takes in rounds."""
        spent = [np.fmax.reduce(column(trace, "wall_time"), axis=1) for trace in traces]
        healthy = [seconds[np.isfinite(seconds)] for seconds in spent]
        return float(sum(seconds.mean() for seconds in healthy if len(seconds)))

    def by_step(self, run: str) -> dict[float, Trace]:
        """The run's traces by effective step size, from small to large."""
        by_step: dict[float, Trace] = {}
        for trace in self.traces[run].values():
            step = round(float(trace.attrs["effective_step_size"]), 12)
            if step in by_step:
                raise FedatlasError(
                    f"run '{run}' has two points of effective step size {step:g}; a claim by step "
                    "needs one"
                )
            by_step[step] = trace
        return dict(sorted(by_step.items()))

    def with_tuning(self, findings: Iterable[Finding], *runs: str) -> Iterator[Finding]:
        """The findings, with how the runs' points were chosen; see `tuning_told`."""
        told = tuning_told(self.chosen, *runs)
        for finding in findings:
            yield replace(finding, evidence=f"{finding.evidence}; {told}")

    def hyper_parameter(self, run: str, point: str, name: str) -> float:
        """Its value at a point of the run; FedatlasError if it is no number."""
        parameters = flat(hyper_parameters(self.traces[run][point]))
        if name not in parameters:
            raise FedatlasError(
                f"run '{run}' has no hyper-parameter '{name}'; it has "
                f"{', '.join(sorted(parameters))}"
            )
        value = parameters[name]
        if not isinstance(value, int | float):
            raise FedatlasError(f"'{name}' of run '{run}' is {value!r}, not a number")
        return float(value)

    @staticmethod
    def study(made: T | None, name: str) -> T:
        """The result of a study; FedatlasError if it was not given."""
        if made is None:
            raise FedatlasError(f"needs the {name}, --{name}")
        return made


def resampled_overlap(trace: Trace, measurement: str) -> float:
    """Test rows over training rows, if every seed splits the rows anew; otherwise 0."""
    partition = specification(trace)["partition"]
    share = partition.get("test")
    if not measurement.startswith("test_") or not isinstance(share, float):
        return 0.0
    return share / (1 - share) if partition.get("seed") is None else 0.0
