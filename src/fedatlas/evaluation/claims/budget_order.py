from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from fedatlas.evaluation.budgets import cases_of
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import ClaimTest, Finding, Outcome

if TYPE_CHECKING:
    import xarray as xr


class BudgetOrderTest(ClaimTest):
    """One run spends less privacy than others, ε over all iterations; one case per rival.

    By each run's first accounting; other accountings are evidence.
    """

    needs: ClassVar[tuple[str, ...]] = ("budgets",)

    kind: Literal["budget_order"]
    smaller: str
    than: tuple[str, ...] = Field(min_length=1)

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.smaller, *self.than)

    def judge(self, results: Results) -> Iterator[Finding]:
        budgets = results.study(results.budgets, "budgets")
        ours = _totals(budgets, self.smaller)
        for rival in self.than:
            theirs = _totals(budgets, rival)
            (own, mine), (other, its) = next(iter(ours.items())), next(iter(theirs.items()))
            evidence = (
                f"ε in all: {self.smaller} {mine:.5g} ({own}), {rival} {its:.5g} ({other})"
                f"{_others(self.smaller, ours)}{_others(rival, theirs)}"
                f"{_resting_on(budgets, self.smaller, rival)}"
            )
            verdict: Outcome = "reproduced" if mine < its else "not reproduced"
            yield Finding(f"[than {rival}]" if len(self.than) > 1 else "", verdict, evidence)


def _totals(budgets: xr.Dataset, run: str) -> dict[str, float]:
    """ε of all iterations by accounting."""
    cases = cases_of(budgets, run)
    return {
        str(case["accounting"].item()): float(case["epsilon"].dropna("iteration")[-1])
        for case in cases
    }


def _others(run: str, totals: Mapping[str, float]) -> str:
    further = [f"{value:.5g} ({name})" for name, value in list(totals.items())[1:]]
    return f"; {run} {', '.join(further)}" if further else ""


def _resting_on(budgets: xr.Dataset, *runs: str) -> str:
    """What the budgets of runs rest on, once if it is the same."""
    stated = {run: str(cases_of(budgets, run)[0]["statement"].item()) for run in runs}
    if len(set(stated.values())) == 1:
        return f"; each {stated[runs[0]]}"
    return "".join(f"; {run} {statement}" for run, statement in stated.items())
