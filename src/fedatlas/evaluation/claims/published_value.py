from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from fedatlas.evaluation.comparison import Direction
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.tried_values import TriedValueTest, best_of, is_value, listing
from fedatlas.schema.claims import CaseOutcome, RunTest
from fedatlas.schema.experiments import Experiment


class PublishedValueTest(TriedValueTest, RunTest):
    """The best value of a hyper-parameter is the printed one, judged by what it costs to use it.

    The value of the grid that is nearest to the printed one is compared with the chosen value, or,
    where it was chosen itself, with the best of the others: "best" claims that no other is better.
    Levels are those by which points are chosen. Reproduced: the printed value is surely not worse
    by the smallest effect that counts, so choosing it costs nothing that counts. Contradicted: it
    is surely worse by that or more. A flat profile thus reproduces every value in it.

    value: the printed one.
    """

    kind: Literal["published_value"]
    value: float
    tolerance: float = Field(
        default=0.0, ge=0, description="how far the nearest value of the grid may lie from it"
    )

    @property
    def direction(self) -> Direction:
        return "not worse"

    def check(self, experiment: Experiment) -> None:
        self.in_grid(experiment, self.run)

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        yield from results.with_tuning([self._finding(results)], self.run)

    def _finding(self, results: Results) -> CaseOutcome:
        tried = self.tried(results, self.run)
        printed = min(tried, key=lambda one: abs(one.value - self.value))
        # Differences of decimal fractions carry rounding errors: 0.4 − 0.3 > 0.1.
        if abs(printed.value - self.value) > self.tolerance + 1e-9 * abs(self.value):
            return CaseOutcome(
                "",
                "not testable",
                f"{self.run}: no {self.hyper_parameter} within {self.tolerance:g} of the published "
                f"{self.value:g} was tried, only {listing(tried)}",
            )
        chosen = self.chosen_value(results, self.run)
        others = [one for one in tried if one is not printed]
        if not others:
            return CaseOutcome("", "not testable", f"{self.run}: only {listing(tried)} was tried")
        if is_value(printed, chosen):
            name, words, other = "published and chosen", "best of the others", best_of(others)
        else:
            name, words = "published", "chosen"
            other = next(one for one in others if is_value(one, chosen))
        return self.regret(results, self.run, [(name, printed), (words, other)])
