from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from fedatlas.evaluation.budgets import cases_of
from fedatlas.evaluation.claims.highest import HighestTest
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, ClaimTest
from fedatlas.schema.cost_names import Cost
from fedatlas.schema.measurements import LargerIsBetter
from fedatlas.schema.models import Model


class OverGraph(Model):
    """A run over some graphs, and its rivals over these or their own.

    run: that which is claimed to be best. among: its rivals.
    """

    run: str
    among: tuple[str, ...] = Field(min_length=1)


class HighestByGraphTest(ClaimTest):
    """As `highest`, once for each choice of graphs, where a paper does not say which it has.

    One case for each choice, and one for each of its rivals. Evidence says how much noise gathers
    in the mean of the agents' models, by graphs, steps and noise alone: what is otherwise equal may
    differ by that.
    """

    needs: ClassVar[tuple[str, ...]] = ("trained", "budgets")

    kind: Literal["highest_by_graph"]
    graphs: dict[str, OverGraph] = Field(min_length=1, description="name of the graphs → runs")
    measurement: LargerIsBetter
    cost: Cost | None = Field(default=None, description="compare means along this cost")
    chance: float | None = Field(default=None, description="as of `highest`")

    @property
    def runs(self) -> tuple[str, ...]:
        named = (run for over in self.graphs.values() for run in (over.run, *over.among))
        return tuple(dict.fromkeys(named))

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        for name, over in self.graphs.items():
            test = HighestTest(
                kind="highest",
                run=over.run,
                among=over.among,
                measurement=self.measurement,
                cost=self.cost,
                chance=self.chance,
            )
            whole, *cases = test.judge(results)
            drift = "; noise gathered in x̄: " + ", ".join(
                f"{run} {_drift(results, run)}" for run in test.runs
            )
            yield replace(whole, case=f"over {name}", evidence=whole.evidence + drift)
            if len(cases) > 1:
                yield from (replace(case, case=f"over {name}, {case.case}") for case in cases)


def _drift(results: Results, run: str) -> str:
    """Of a number of the model, by the end."""
    case = cases_of(results.study(results.budgets, "budgets"), run)[0]
    gathered = case["drift"].dropna("iteration").to_numpy()
    return f"{gathered[-1]:.2f}" if len(gathered) else "not known"
