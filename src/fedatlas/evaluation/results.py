"""The results of an experiment that its claims are judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.bounds import Row
from fedatlas.evaluation.comparison import Criterion, Interval, compare, median_interval
from fedatlas.evaluation.constants import Constants
from fedatlas.evaluation.levels import Trace, column, specification
from fedatlas.evaluation.selection import Choice, Effort, Traces, format_tuning, why_not_tuned
from fedatlas.evaluation.tables import Surface, budgets_of
from fedatlas.evaluation.tuning import Grid
from fedatlas.schema.claims import CaseOutcome, ClaimTest, Effect, Outcome

if TYPE_CHECKING:
    import xarray as xr

T = TypeVar("T")


class NotTestableError(Exception):
    """These runs cannot test a claim; the message is the evidence."""


def tested(judge: Callable[[], Iterable[CaseOutcome]]) -> list[CaseOutcome]:
    """The cases that `judge` finds, or one case that says why the claim is not testable."""
    try:
        return list(judge())
    except NotTestableError as why:
        return [CaseOutcome("", "not testable", str(why))]


def judged(test: ClaimTest, results: Results) -> Iterator[CaseOutcome]:
    """The cases of a test; not testable where a run that it needs was never tuned."""
    if why := results.why_not_tuned(*test.tuned_runs):
        yield CaseOutcome("", "not testable", why)
    else:
        yield from test.judge(results)


@dataclass(frozen=True)
class Results:
    """Traces, the chosen point of each run, and studies if there are any.

    selected_by: the measurement whose levels choose points. seeds_added: whether seeds were added
    after verdicts were seen, so that every interval must hold at whatever number one stops.
    constants: measurements of the best constant predictor.
    """

    traces: Traces
    chosen: Mapping[str, Choice]
    selected_by: str = "gradient_norm"
    seeds_added: bool = False
    landscape: Surface | None = None
    budgets: xr.Dataset | None = None
    attacks: Sequence[Mapping[str, str]] | None = None
    leaks: Sequence[Mapping[str, str]] | None = None
    theory: Sequence[Row] | None = None
    constants: Constants | None = None
    grids: Mapping[str, Grid] = field(default_factory=dict)

    def selected(self, *runs: str) -> list[Trace]:
        """The traces of the runs' chosen points; see `at`."""
        return self.at((run, self.chosen[run].point) for run in runs)

    def at(self, points: Iterable[tuple[str, str]]) -> list[Trace]:
        """The traces of runs at points.

        Raises FedatlasError unless all have the same seeds, which are compared pair by pair.
        """
        traces = [self.traces[run][point] for run, point in points]
        first, *others = (trace["seed"].to_numpy().tolist() for trace in traces)
        for seeds in others:
            if seeds != first:
                raise FedatlasError(f"seeds {first} and {seeds} are no pairs: compare equal seeds")
        return traces

    def compare(
        self,
        gaps: np.ndarray,
        criterion: Criterion,
        unit: str,
        traces: Iterable[Trace],
        measurement: str,
    ) -> tuple[Outcome, Effect]:
        """Compare the advantages of seeds that differ; test rows may add to their spread."""
        overlap = max((resampled_overlap(trace, measurement) for trace in traces), default=0.0)
        own = observations(gaps, traces)
        return compare(
            own,
            *(criterion, unit),
            seeds_added=self.seeds_added,
            overlap=overlap,
            repeats=len(gaps) - len(own),
        )

    def interval(self, gaps: np.ndarray, traces: Iterable[Trace]) -> Interval:
        """The interval of advantages (seeds,), where no test rows count."""
        own = observations(gaps, traces)
        return median_interval(own, self.seeds_added, 0.0, len(gaps) - len(own))

    def constant(self, trace: Trace, measurement: str) -> np.ndarray | None:
        """(seeds,) what the best constant predictor has of a run's measurement; None if unknown.

        Nor has it a sub-optimality where models without an intercept are no better.
        """
        if self.constants is None:
            return None
        of_objective = measurement == "suboptimality"
        found = self.constants.of(
            trace.attrs["run"],
            "objective" if of_objective else measurement,
            trace["seed"].to_numpy().tolist(),
        )
        if found is None or not of_objective:
            return found
        optima = np.nanmedian(column(trace, "objective") - column(trace, measurement), axis=1)
        above = found - optima
        return above if (above > 0).all() else None

    @staticmethod
    def of_test_rows(traces: Iterable[Trace], measurement: str) -> str:
        """A limit of what is measured on the same test rows by all seeds."""
        fixed = measurement.startswith("test_") and any(
            not resampled_overlap(trace, measurement) for trace in traces
        )
        return "; for these test rows" if fixed else ""

    def points_by_step(self, run: str) -> dict[float, str]:
        """The run's points by effective step size, from small to large."""
        by_step: dict[float, str] = {}
        for point, trace in self.traces[run].items():
            step = round(float(trace.attrs["effective_step_size"]), 12)
            if step in by_step:
                raise FedatlasError(
                    f"run '{run}' has two points of effective step size {step:g}; a claim by step "
                    "needs one"
                )
            by_step[step] = point
        return dict(sorted(by_step.items()))

    def common_steps(self, *runs: str) -> dict[float, dict[str, str]]:
        """Each run's point at every effective step size that all have, from small to large."""
        of_run = {run: self.points_by_step(run) for run in runs}
        common = set.intersection(*(set(points) for points in of_run.values()))
        if not common:
            raise FedatlasError(
                f"runs {' and '.join(map(repr, runs))} share no effective step size"
            )
        return {step: {run: of_run[run][step] for run in runs} for step in sorted(common)}

    def why_not_tuned(self, *runs: str) -> str:
        """Why the chosen points of runs say nothing; empty if they do. See `why_not_tuned`."""
        return why_not_tuned({run: self.chosen[run].effort for run in runs if run in self.chosen})

    def tuned(self, outcome: CaseOutcome, *runs: str) -> CaseOutcome:
        """The outcome, with how the runs' points were chosen; see `format_tuning`."""
        told = format_tuning({run: self.chosen[run].effort for run in runs}, self.selected_by)
        return replace(outcome, evidence=f"{outcome.evidence}; {told}")

    def at_points(self, outcome: CaseOutcome, points: Mapping[str, str]) -> CaseOutcome:
        """The outcome of declared points of runs, with how what they do not state was chosen."""
        efforts = {run: self.chosen[run].efforts.get(point) for run, point in points.items()}
        if why := why_not_tuned({run: effort for run, effort in efforts.items() if effort}):
            return CaseOutcome(outcome.case, "not testable", why)
        told = self.tuning_at(points)
        return replace(outcome, evidence=f"{outcome.evidence}; {told}") if told else outcome

    def tuning_at(self, points: Mapping[str, str]) -> str:
        """Describe how what declared points of runs leave open was chosen; empty if nothing."""
        efforts = {run: self.chosen[run].efforts.get(point) for run, point in points.items()}
        if not any(efforts.values()):
            return ""
        return format_tuning(
            {run: effort or Effort() for run, effort in efforts.items()}, self.selected_by
        )

    def budgets_of(self, run: str) -> list[xr.Dataset]:
        """The run's privacy budgets, one per accounting."""
        return budgets_of(self.study(self.budgets, "budgets"), run)

    @staticmethod
    def study(made: T | None, name: str) -> T:
        """The result of a study; FedatlasError if it was not given."""
        if made is None:
            raise FedatlasError(f"needs the study '{name}' of the experiment, which is not there")
        return made


def observations(gaps: np.ndarray, traces: Iterable[Trace]) -> np.ndarray:
    """The advantages (seeds,) of seeds whose runs differ: of coinciding seeds the first counts.

    Seeds coincide where nothing is random, or where draws are the same: in the advantage and in the
    objective at every record of every trace, to a billionth of the advantage's unit and of the
    objective's start, as arithmetic may differ by seed.
    """
    objectives = [column(trace, "objective") for trace in traces]
    # A run may start where the objective is 0.
    scaled = [
        own / (np.abs(own[:, 0]).max() or np.nanmedian(np.abs(own)) or 1.0) for own in objectives
    ]
    rows = np.round(np.column_stack([gaps, *scaled]), 9) + 0.0
    first: dict[bytes, int] = {}
    for place, row in enumerate(rows):
        first.setdefault(row.tobytes(), place)
    return gaps[list(first.values())]


def resampled_overlap(trace: Trace, measurement: str) -> float:
    """Test rows over training rows, if every seed splits the rows anew; otherwise 0."""
    partition = specification(trace)["partition"]
    share = partition.get("test")
    if not measurement.startswith("test_") or not isinstance(share, float):
        return 0.0
    return share / (1 - share) if partition.get("seed") is None else 0.0
