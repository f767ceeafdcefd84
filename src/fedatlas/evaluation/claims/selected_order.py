from collections.abc import Iterator
from typing import Literal

from fedatlas.evaluation.chosen_values import ChosenValueTest, listing, unanimous
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding


class SelectedOrderTest(ChosenValueTest):
    """The selected hyper-parameter of `larger` is above that of `smaller`."""

    kind: Literal["selected_order"]
    larger: str
    smaller: str

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.larger, self.smaller)

    def judge(self, results: Results) -> Iterator[Finding]:
        larger, smaller = (results.seed_choices(run, self.hyper_parameter) for run in self.runs)
        largest_tried = max(
            results.hyper_parameter(self.larger, point, self.hyper_parameter)
            for point in results.traces[self.larger]
        )
        # A choice that no larger value was tried against cannot be surpassed.
        not_above = (larger <= smaller) & (smaller < largest_tried)
        evidence = (
            f"selected {self.hyper_parameter} by seed: {self.larger} {listing(larger)}, "
            f"{self.smaller} {listing(smaller)}; largest tried {largest_tried:g}"
        )
        finding = Finding("", unanimous(larger > smaller, not_above), evidence)
        yield from results.with_edges([finding], *self.runs)
