from collections.abc import Iterator
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import spent
from fedatlas.evaluation.final_values import as_losses, contrasted, final_losses
from fedatlas.evaluation.levels import common_budget, common_start, mean_along
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import ClaimTest, Finding, Outcome
from fedatlas.schema.cost_names import Cost
from fedatlas.schema.measurements import LargerIsBetter

_WORDS = {
    "reproduced": "better than",
    "inconclusive": "not told apart from",
    "not reproduced": "worse than",
}


class HighestTest(ClaimTest):
    """One run is better than each of its rivals: one case per rival, and all of them together.

    Without a `cost` the measurements that runs end with are compared; with one, the means along it,
    from where all begin to the largest cost that all reached. The claim holds if the run is better
    than every rival, and fails if any is better than it.
    """

    kind: Literal["highest"]
    run: str
    among: tuple[str, ...] = Field(min_length=1, description="the rivals")
    measurement: LargerIsBetter
    at_end: Literal[True] | None = Field(
        default=None, description="may be stated where no `cost` is: compare where runs end"
    )
    cost: Cost | None = Field(default=None, description="compare means along this cost")

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
        return self

    def judge(self, results: Results) -> Iterator[Finding]:
        yield from results.with_edges(self._cases(results.selected(*self.runs)), *self.runs)

    def _cases(self, traces: list[Trace]) -> list[Finding]:
        if self.cost is None:
            subject = f"{self.measurement} at the end"
            losses = [final_losses(trace, self.measurement) for trace in traces]
        else:
            end = common_budget(traces, self.cost)
            if not end:
                return [Finding("", "inconclusive", "every seed of all diverged")]
            start = common_start(traces, self.cost)
            if start >= end:
                raise FedatlasError(
                    f"'cost: {self.cost}' has no range that {', '.join(self.runs)} share: one has "
                    f"no record before {spent(self.cost, start)}, one ends at {end:.4g}"
                )
            since = f"from {start:.4g} to" if start else "up to"
            subject = f"mean {self.measurement} {since} {spent(self.cost, end)}"
            losses = [
                as_losses(
                    trace,
                    self.measurement,
                    mean_along(trace, self.measurement, self.cost, start, end),
                )
                for trace in traces
            ]
        cases = [
            self._against(subject, rival, [losses[0], other])
            for rival, other in zip(self.among, losses[1:], strict=True)
        ]
        return [self._together(subject, cases), *cases]

    def _against(self, subject: str, rival: str, losses: list[np.ndarray]) -> Finding:
        interval, evidence = contrasted(subject, (self.run, rival), losses, self.measurement)
        verdict = interval.verdict(-np.inf, 0.0)  # a tie is not "highest"
        return Finding(f"[against {rival}]", verdict, f"{evidence}, claimed above 0")

    def _together(self, subject: str, cases: list[Finding]) -> Finding:
        found = {case.verdict for case in cases}
        verdict: Outcome = "not reproduced" if "not reproduced" in found else "inconclusive"
        if found == {"reproduced"}:
            verdict = "reproduced"
        told = []
        for kind, words in _WORDS.items():
            named = [
                rival for rival, case in zip(self.among, cases, strict=True) if case.verdict == kind
            ]
            told += [f"{words} {', '.join(named)}"] if named else []
        return Finding("", verdict, f"{subject}: {self.run} {'; '.join(told)}")
