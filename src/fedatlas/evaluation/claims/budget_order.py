from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from fedatlas.evaluation.budgets import BudgetTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.shared_costs import common_delta, format_delta, why_no_common_delta
from fedatlas.schema.claims import CaseOutcome, Outcome

if TYPE_CHECKING:
    import xarray as xr


class BudgetOrderTest(BudgetTest):
    """One run spends less ε over all iterations than each of its rivals: one case per rival.

    Judged by each run's first accounting; others are evidence. Nothing is random here: reproduced
    if it is less, otherwise contradicted. ε that hold at different δ, none of them 0, are not
    testable.

    smaller: the run that is claimed to spend less. than: its rivals.
    """

    kind: Literal["budget_order"]
    smaller: str
    than: tuple[str, ...] = Field(min_length=1)

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.smaller, *self.than)

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        ours = _totals(self.cases(results, self.smaller))
        for rival in self.than:
            theirs = _totals(self.cases(results, rival))
            (own, mine), (other, its) = next(iter(ours.items())), next(iter(theirs.items()))
            evidence = (
                f"ε in all: {self.smaller} {mine:.5g} ({own}), {rival} {its:.5g} ({other})"
                f"{_others(self.smaller, ours)}{_others(rival, theirs)}"
                f"{self._resting_on(results, self.smaller, rival)}"
            )
            deltas = [(run, _delta(self.cases(results, run)[0])) for run in (self.smaller, rival)]
            delta = common_delta([own for _, own in deltas])
            outcome: Outcome = "reproduced" if mine < its else "contradicted"
            if delta is None:
                outcome, evidence = "not testable", f"{evidence}; {why_no_common_delta(deltas)}"
            elif delta:
                evidence += f"; both{format_delta(delta)}"
            yield CaseOutcome(f"than {rival}" if len(self.than) > 1 else "", outcome, evidence)

    def _resting_on(self, results: Results, *runs: str) -> str:
        """The assumptions of the runs' budgets, declared once if they are the same."""
        declared = {run: str(self.cases(results, run)[0]["statement"].item()) for run in runs}
        if len(set(declared.values())) == 1:
            return f"; each {declared[runs[0]]}"
        return "".join(f"; {run} {statement}" for run, statement in declared.items())


def _delta(case: xr.Dataset) -> np.ndarray:
    """(1,) the δ at which the ε of all iterations holds."""
    return np.array(case["delta"].dropna("iteration"))[-1:]


def _totals(cases: Sequence[xr.Dataset]) -> dict[str, float]:
    """ε of all iterations by accounting."""
    return {
        str(case["accounting"].item()): float(case["epsilon"].dropna("iteration")[-1])
        for case in cases
    }


def _others(run: str, totals: Mapping[str, float]) -> str:
    further = [f"{value:.5g} ({name})" for name, value in list(totals.items())[1:]]
    return f"; {run} {', '.join(further)}" if further else ""
