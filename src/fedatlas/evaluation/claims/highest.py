from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedatlas.evaluation.comparison import together_of
from fedatlas.evaluation.costs import Trace, column
from fedatlas.evaluation.evidence import format_cost
from fedatlas.evaluation.levels import common_budget, common_start, until
from fedatlas.evaluation.relations import (
    SHARES,
    ComparisonTest,
    final_losses,
    judged_again,
    losses_along,
    losses_at_least_lead,
)
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.shared_costs import format_common_cost, why_not_shared
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.cost_names import Cost
from fedatlas.schema.measurements import LargerIsBetter


class HighestTest(ComparisonTest):
    """One run is better than each of its rivals: one case per rival, and all of them together.

    Without a `cost` the measurements that runs end with are compared; with one, the means along it,
    from where all begin to the largest cost that all reached. With `each_record_from` the run must
    lead at every record after that share of the rounds: its least lead is judged. That any rival is
    better than the run is asked of every rival, which Holm's correction pays for.

    run: that which is claimed to be best.
    """

    kind: Literal["highest"]
    run: str
    among: tuple[str, ...] = Field(min_length=1, description="the rivals")
    measurement: LargerIsBetter
    at_end: Literal[True] | None = Field(
        default=None, description="may be declared where no `cost` is: compare where runs end"
    )
    cost: Cost | None = Field(default=None, description="compare means along this cost")
    each_record_from: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="with `cost: round`: compare the record, of those after this share of the "
        "rounds, at which the lead over a rival is least",
    )
    chance: float | None = Field(
        default=None,
        description="the measurement of guessing: a run that the paper trains and that ends less "
        "than 0.05 above it is not compared, as its training is not reproduced",
    )

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.run, *self.among)

    @model_validator(mode="after")
    def _rivals_are_others(self) -> Self:
        if self.run in self.among:
            raise ValueError(f"among: '{self.run}' is the run itself; name its rivals only")
        if len(set(self.among)) != len(self.among):
            raise ValueError(f"among: a rival is listed twice in {', '.join(self.among)}")
        if self.at_end and self.cost is not None:
            raise ValueError(f"at_end: true and cost: {self.cost} exclude each other; remove one")
        if self.each_record_from is not None and self.cost != "round":
            raise ValueError("each_record_from: needs 'cost: round', as runs share rounds only")
        return self

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        traces = results.selected(*self.runs)
        whole = self._cases(results, traces, 1.0)
        again = {words: self._cases(results, traces, share) for words, share in SHARES.items()}
        findings = [
            judged_again(
                finding, {words: partial(_at, found, place) for words, found in again.items()}
            )
            for place, finding in enumerate(whole)
        ]
        yield from results.with_tuning(findings, *self.runs)

    def _cases(self, results: Results, traces: Sequence[Trace], share: float) -> list[CaseOutcome]:
        """Of a share of the budget: all rivals together, then each."""
        if self.cost is None:
            subject = f"{self.measurement} at the end"
            own, *others = (final_losses(until(trace, share), self.measurement) for trace in traces)
            losses = [(own, other) for other in others]
        else:
            whole = common_budget(list(traces), self.cost)
            if why := why_not_shared(traces, self.cost, whole):
                return [CaseOutcome("", "not testable", why)]
            end = share * whole
            start = common_start(list(traces), self.cost)
            if start >= end:
                evidence = (
                    f"'cost: {self.cost}' has no range that {', '.join(self.runs)} share: one has "
                    f"no record before {format_cost(self.cost, start)}, one ends at {end:.4g}"
                )
                return [CaseOutcome("", "not testable", evidence)]
            subject, losses = self._along(traces, self.cost, start, end)
        cases = [
            self._against(results, subject, place, traces, pair)
            for place, pair in enumerate(losses, 1)
        ]
        return [self._together(subject, cases), *cases]

    def _along(
        self, traces: Sequence[Trace], cost: str, start: float, end: float
    ) -> tuple[str, list[tuple[np.ndarray, np.ndarray]]]:
        """What is compared between two costs, in words; losses of the run and of each rival."""
        first, *rivals = traces
        if self.each_record_from is not None:
            start = self.each_record_from * end
            since = f"from {start:.4g} to {format_cost(cost, end)}"
            return f"{self.measurement} at the record of the least lead {since}", [
                losses_at_least_lead(first, rival, self.measurement, start, end) for rival in rivals
            ]
        since = f"from {start:.4g} to" if start else "up to"
        own, *others = (losses_along(one, self.measurement, cost, start, end) for one in traces)
        subject = f"mean {self.measurement} {since} {format_common_cost(traces, cost, end)}"
        return subject, [(own, other) for other in others]

    def _against(
        self,
        results: Results,
        subject: str,
        place: int,
        traces: Sequence[Trace],
        losses: tuple[np.ndarray, np.ndarray],
    ) -> CaseOutcome:
        """losses: the run's and the rival's."""
        rival = self.runs[place]
        finding = self.compared(
            results,
            [traces[0], traces[place]],
            [(self.run, losses[0]), (rival, losses[1])],
            subject=subject,
            what=self.measurement,
            measurement=self.measurement,
        )
        finding = replace(finding, case=f"against {rival}")
        ends = {
            run: _typical_end(traces[at], self.measurement)
            for run, at in ((self.run, 0), (rival, place))
        }
        untrained = [
            f"{run} ends at {end:.3f}"
            for run, end in ends.items()
            if self.chance is not None and end < self.chance + _LEARNT
        ]
        if not untrained:
            return finding
        evidence = (
            f"training not reproduced: {', '.join(untrained)}, and guessing gives {self.chance:g}; "
            f"{finding.evidence}"
        )
        return CaseOutcome(finding.case, "not testable", evidence)

    def _together(self, subject: str, cases: Sequence[CaseOutcome]) -> CaseOutcome:
        outcome = together_of(cases)
        by_outcome: dict[str, list[str]] = {}
        for rival, case in zip(self.among, cases, strict=True):
            by_outcome.setdefault(case.outcome, []).append(rival)
        told = "; ".join(
            f"{kind} against {', '.join(rivals)}" for kind, rivals in by_outcome.items()
        )
        closest = min(cases, key=lambda case: case.effect.estimate if case.effect else np.inf)
        return CaseOutcome("", outcome, f"{subject}: {self.run} {told}", closest.effect)


_LEARNT = 0.05  # above chance


def _typical_end(trace: Trace, measurement: str) -> float:
    """The median over seeds, lost ones being lowest."""
    ends = column(trace, measurement)[:, -1]
    return float(np.median(np.where(np.isfinite(ends), ends, -np.inf)))


def _at(findings: Sequence[CaseOutcome], place: int) -> CaseOutcome:
    """The finding of a case; where there is one for all, that."""
    return findings[min(place, len(findings) - 1)]
