from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from fedatlas.evaluation.results import Results
from fedatlas.evaluation.tried_values import TriedValueTest, best_of, is_value, listing
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.experiments import Experiment


class SelectedOrderTest(TriedValueTest):
    """The best value of a hyper-parameter is larger for the run `larger` than for `smaller`.

    Only runs of `larger` are compared: at the best of its values above the one that `smaller`
    chose, against the best of those up to it. Levels are those by which points are chosen.
    Reproduced: a larger value is surely better, by the smallest effect that counts or more. Smaller
    than claimed: surely better, but by less. No difference: the profile is flat, a larger value
    neither helps nor harms. Contradicted: larger values are surely worse.

    larger, smaller: runs, by the value that is claimed to be best for them.
    """

    kind: Literal["selected_order"]
    larger: str
    smaller: str

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.larger, self.smaller)

    def check(self, experiment: Experiment) -> None:
        self.in_grid(experiment, self.larger)

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        yield from results.with_tuning([self._finding(results)], *self.runs)

    def _finding(self, results: Results) -> CaseOutcome:
        tried = self.tried(results, self.larger)
        own, other = (self.chosen_value(results, run) for run in self.runs)
        choices = f"chosen {self.hyper_parameter}: {self.larger} {own:g}, {self.smaller} {other:g}"
        above = [one for one in tried if one.value > other and not is_value(one, other)]
        up_to = tried[: len(tried) - len(above)]  # from small to large
        if not up_to or not above:
            lacks = f"no value {'above' if up_to else 'up to'} {other:g}"
            reason = f"{choices}; {self.larger} tried {listing(tried)}, {lacks}"
            return CaseOutcome("", "not testable", reason)
        pair = [("best above", best_of(above)), (f"best up to {other:g}", best_of(up_to))]
        finding = self.regret(results, self.larger, pair)
        return replace(finding, evidence=f"{choices}; {finding.evidence}")
