"""The best value of a hyper-parameter, judged by regret: what another value costs.

Which points stand for a value is decided as points are chosen, by their scores on tuning seeds.
What they cost is measured on judged seeds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from fedatlas.evaluation.comparison import Direction
from fedatlas.evaluation.evidence import level_name
from fedatlas.evaluation.levels import Trace
from fedatlas.evaluation.quantities import EFFECT_KEYS, EffectTest, Measured
from fedatlas.evaluation.results import NotTestableError, Results
from fedatlas.evaluation.selection import number_at, scores
from fedatlas.schema.claims import CaseOutcome, Kind
from fedatlas.schema.experiments import Experiment


class Tried(NamedTuple):
    """A value of a hyper-parameter, and the best point of its run with that value.

    score: by which points are chosen, smaller is better.
    """

    value: float
    score: float
    trace: Trace

    def is_value(self, value: float) -> bool:
        """Whether it is this value, but for rounding."""
        return bool(np.isclose(self.value, value, rtol=1e-9, atol=0.0))


class TriedValueTest(EffectTest):
    """The level of one value of a hyper-parameter, against that of another value.

    published_value: The best value of a hyper-parameter is the printed one, judged by what it costs
    to use it. The value of the grid that is nearest to the printed one is compared with the chosen
    value, or, where it was chosen itself, with the best of the others: "best" claims that no other
    is better. Levels are those by which points are chosen. Reproduced: the printed value is surely
    not worse by the smallest effect that counts, so choosing it costs nothing that counts.
    Contradicted: it is surely worse by that or more. A flat profile thus reproduces every value in
    it.

    selected_order: The best value of a hyper-parameter is larger for the run `larger` than for
    `smaller`. Only runs of `larger` are compared: at the best of its values above the one that
    `smaller` chose, against the best of those up to it. Levels are those by which points are
    chosen. Reproduced: a larger value is surely better, by the smallest effect that counts or more.
    Smaller than claimed: surely better, but by less. No difference: the profile is flat, a larger
    value neither helps nor harms. Contradicted: larger values are surely worse.

    run: that whose printed value is tested. larger, smaller: runs, by the value that is claimed to
    be best for them. hyper_parameter: its name, with a dot where it lies within a mapping. value:
    the printed one. tolerance: how far the nearest value of the grid may lie from it.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "published_value": Kind(
            requires=("run", "hyper_parameter", "value"), takes=("tolerance", *EFFECT_KEYS)
        ),
        "selected_order": Kind(
            requires=("larger", "smaller", "hyper_parameter"), takes=EFFECT_KEYS
        ),
    }

    run: str = ""
    larger: str = ""
    smaller: str = ""
    hyper_parameter: str
    value: float = 0.0
    tolerance: float = Field(default=0.0, ge=0)

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.run,) if self.run else (self.larger, self.smaller)

    @property
    def direction(self) -> Direction:
        return "not worse" if self.run else "better"

    def check(self, experiment: Experiment) -> None:
        run = self.runs[0]
        grid = experiment.runs[run].grid
        if len(grid.get(self.hyper_parameter, ())) < 2:
            raise ValueError(
                f"run '{run}' has no grid of '{self.hyper_parameter}'; its grid is of "
                f"{', '.join(grid) or 'nothing'}"
            )

    def at_scale(self, results: Results, scale: float) -> Iterator[CaseOutcome]:
        yield self._printed(results) if self.run else self._larger(results)

    def _printed(self, results: Results) -> CaseOutcome:
        tried, value = self._tried(results, self.run), self.value
        printed = min(tried, key=lambda one: abs(one.value - value))
        # Differences of decimal fractions carry rounding errors: 0.4 − 0.3 > 0.1.
        if abs(printed.value - value) > self.tolerance + 1e-9 * abs(value):
            raise NotTestableError(
                f"{self.run}: no {self.hyper_parameter} within {self.tolerance:g} of the published "
                f"{value:g} was tried, only {_listing(tried)}"
            )
        others = [one for one in tried if one is not printed]
        if not others:
            raise NotTestableError(f"{self.run}: only {_listing(tried)} was tried")
        chosen = self._chosen(results, self.run)
        if printed.is_value(chosen):
            pair = {"published and chosen": printed, "best of the others": _best_of(others)}
        else:
            other = next(one for one in others if one.is_value(chosen))
            pair = {"published": printed, "chosen": other}
        return self._regret(results, self.run, pair)

    def _larger(self, results: Results) -> CaseOutcome:
        tried = self._tried(results, self.larger)
        own, other = (self._chosen(results, run) for run in self.runs)
        choices = f"chosen {self.hyper_parameter}: {self.larger} {own:g}, {self.smaller} {other:g}"
        above = [one for one in tried if one.value > other and not one.is_value(other)]
        up_to = tried[: len(tried) - len(above)]  # from small to large
        if not up_to or not above:
            lacks = f"no value {'above' if up_to else 'up to'} {other:g}"
            raise NotTestableError(f"{choices}; {self.larger} tried {_listing(tried)}, {lacks}")
        pair = {"best above": _best_of(above), f"best up to {other:g}": _best_of(up_to)}
        return self._regret(results, self.larger, pair, f"{choices}; ")

    def _tried(self, results: Results, run: str) -> list[Tried]:
        """All values of a run, from small to large."""
        found: dict[float, Tried] = {}
        for point, trace in results.traces[run].items():
            value = number_at(trace, self.hyper_parameter)
            score = results.chosen[run].scores[point]
            if value not in found or score < found[value].score:
                found[value] = Tried(value, score, trace)
        return [found[value] for value in sorted(found)]

    def _chosen(self, results: Results, run: str) -> float:
        """Its value at the tuned configuration of a run."""
        (trace,) = results.selected(run)
        return number_at(trace, self.hyper_parameter)

    def _regret(
        self, results: Results, run: str, pair: Mapping[str, Tried], before: str = ""
    ) -> CaseOutcome:
        """The first of two values against the second, by the words that tell what it is."""
        measurement, of = results.selected_by, level_name(results.selected_by)
        losses = [scores(one.trace, measurement, results.window) for one in pair.values()]
        return self.compared(
            results,
            [one.trace for one in pair.values()],
            [f"{one.value:g} ({words})" for words, one in pair.items()],
            Measured(f"{before}{run}: {of} by {self.hyper_parameter}", of, losses),
            measurement,
        )


def _best_of(tried: Sequence[Tried]) -> Tried:
    """The one of the lowest score, the first of several."""
    return min(tried, key=lambda one: one.score)


def _listing(tried: Sequence[Tried]) -> str:
    return ", ".join(f"{one.value:g}" for one in tried)
