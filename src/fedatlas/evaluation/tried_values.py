"""Claims about the best value of a hyper-parameter, judged by regret: what a value costs.

Which points stand for a value is decided as points are chosen, by their scores on tuning seeds.
What they cost is measured on judged seeds.
"""

from abc import ABC
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import level_name
from fedatlas.evaluation.relations import ComparisonTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import number_at, scores
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.experiments import Experiment


class Tried(NamedTuple):
    """A value of a hyper-parameter, and the best point of its run with that value.

    score: by which points are chosen, smaller is better.
    """

    value: float
    score: float
    trace: Trace


class TriedValueTest(ComparisonTest, ABC):
    """A test of the values of a hyper-parameter in the grid of a run.

    hyper_parameter: its name, with a dot where it lies within a mapping.
    """

    hyper_parameter: str

    @property
    def unit(self) -> str:
        return "decades"

    def in_grid(self, experiment: Experiment, run: str) -> None:
        """Raise ValueError unless the run tries several values."""
        grid = experiment.runs[run].grid
        if len(grid.get(self.hyper_parameter, ())) < 2:
            raise ValueError(
                f"run '{run}' has no grid of '{self.hyper_parameter}'; its grid is of "
                f"{', '.join(grid) or 'nothing'}"
            )

    def tried(self, results: Results, run: str) -> list[Tried]:
        """All values of a run, from small to large."""
        found: dict[float, Tried] = {}
        for point, trace in results.traces[run].items():
            value = number_at(trace, self.hyper_parameter)
            score = results.chosen[run].scores[point]
            if value not in found or score < found[value].score:
                found[value] = Tried(value, score, trace)
        return [found[value] for value in sorted(found)]

    def chosen_value(self, results: Results, run: str) -> float:
        """Its value at the chosen point of a run."""
        (trace,) = results.selected(run)
        return number_at(trace, self.hyper_parameter)

    def regret(self, results: Results, run: str, pair: Sequence[tuple[str, Tried]]) -> CaseOutcome:
        """The first of two values against the second, each with the words that tell what it is."""
        measurement = results.selected_by
        return self.compared(
            results,
            [tried.trace for _, tried in pair],
            [
                (f"{tried.value:g} ({words})", scores(tried.trace, measurement, results.window))
                for words, tried in pair
            ],
            subject=f"{run}: {level_name(measurement)} by {self.hyper_parameter}",
            what=level_name(measurement),
            measurement=measurement,
        )


def best_of(tried: Sequence[Tried]) -> Tried:
    """That of the lowest score, the first of several."""
    return min(tried, key=lambda one: one.score)


def listing(tried: Sequence[Tried]) -> str:
    """The values in words."""
    return ", ".join(f"{one.value:g}" for one in tried)


def is_value(tried: Tried, value: float) -> bool:
    """Whether it is this value, but for rounding."""
    return bool(np.isclose(tried.value, value, rtol=1e-9, atol=0.0))
