"""Tests of the best value of a hyper-parameter, by regret: what another value costs.

Tuning scores decide which point represents a value, as they decide which point is chosen. The cost
of a value is measured on judged seeds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import Direction
from fedatlas.evaluation.evidence import level_name
from fedatlas.evaluation.levels import Trace
from fedatlas.evaluation.quantities import EFFECT_KEYS, WINDOW, EffectTest, Measured, Window
from fedatlas.evaluation.results import NotTestableError, Results
from fedatlas.evaluation.selection import hyper_parameters, number_at, scores
from fedatlas.schema.claims import CaseOutcome, ClaimTest, Kind, Outcome
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.runs import best_places, size_of


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
    """Compares the level of one value of a hyper-parameter with that of another value.

    published_value: The best value of a hyper-parameter is the printed one, judged by what it costs
    to use it. The value of the grid that is nearest to the printed one is compared with the chosen
    value, or with the best of the others if it was chosen itself. "Best" claims that no other value
    is better, so a flat profile reproduces every value in it. Levels are those of the measurement
    that chooses points.

    selected_order: The best value of a hyper-parameter is larger for the run `larger` than for
    `smaller`. Only `larger` is compared: with the best of its values above the value that `smaller`
    chose, against the best of those up to it. Levels are those of the measurement that chooses
    points. "No difference" means that the profile is flat: a larger value neither helps nor harms.

    run: the run whose printed value is tested. larger, smaller: the runs for which the larger and
    the smaller value are claimed to be best. hyper_parameter: its name, with a dot where it lies
    within a mapping. value: the printed value. tolerance: how far the nearest value of the grid may
    lie from it. window: share of the rounds, at their end, over which levels are means.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "published_value": Kind(
            requires=("run", "hyper_parameter", "value"),
            takes=("tolerance", "window", *EFFECT_KEYS),
        ),
        "selected_order": Kind(
            requires=("larger", "smaller", "hyper_parameter"), takes=("window", *EFFECT_KEYS)
        ),
    }

    run: str = ""
    larger: str = ""
    smaller: str = ""
    hyper_parameter: str
    value: float = 0.0
    tolerance: float = Field(default=0.0, ge=0)
    window: Window = WINDOW

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
        """The first of two values of a run against the second, by what each is."""
        run = self.runs[0]
        tried = self._tried(results, run)
        listing = ", ".join(f"{one.value:g}" for one in tried)
        chosen, *other = (
            number_at(trace, self.hyper_parameter) for trace in results.selected(*self.runs)
        )
        if self.run:
            before, pair = "", self._printed(tried, listing, chosen)
        else:
            before = f"chosen {self.hyper_parameter}: {run} {chosen:g}, {self.smaller} {other[0]:g}"
            above = [one for one in tried if one.value > other[0] and not one.is_value(other[0])]
            up_to = tried[: len(tried) - len(above)]
            if not up_to or not above:
                lacks = f"no value {'above' if up_to else 'up to'} {other[0]:g}"
                raise NotTestableError(f"{before}; {run} tried {listing}, {lacks}")
            before += "; "
            pair = {"best above": _best_of(above), f"best up to {other[0]:g}": _best_of(up_to)}
        measurement, of = results.selected_by, level_name(results.selected_by)
        losses = [scores(one.trace, measurement, self.window) for one in pair.values()]
        yield self.compared(
            results,
            [one.trace for one in pair.values()],
            [f"{one.value:g} ({words})" for words, one in pair.items()],
            Measured(f"{before}{run}: {of} by {self.hyper_parameter}", of, losses),
            measurement,
        )

    def _printed(self, tried: Sequence[Tried], listing: str, chosen: float) -> dict[str, Tried]:
        """The value that is nearest to the printed one, and the one with which it is compared."""
        printed = min(tried, key=lambda one: abs(one.value - self.value))
        # Differences of decimal fractions carry rounding errors: 0.4 − 0.3 > 0.1.
        if abs(printed.value - self.value) > self.tolerance + 1e-9 * abs(self.value):
            raise NotTestableError(
                f"{self.run}: no {self.hyper_parameter} within {self.tolerance:g} of the published "
                f"{self.value:g} was tried, only {listing}"
            )
        others = [one for one in tried if one is not printed]
        if not others:
            raise NotTestableError(f"{self.run}: only {listing} was tried")
        if printed.is_value(chosen):
            return {"published and chosen": printed, "best of the others": _best_of(others)}
        return {"published": printed, "chosen": next(o for o in others if o.is_value(chosen))}

    def _tried(self, results: Results, run: str) -> list[Tried]:
        """The best point at each value of a run, from small to large."""
        found: dict[float, Tried] = {}
        for point, trace in results.traces[run].items():
            own = Tried(
                number_at(trace, self.hyper_parameter), results.chosen[run].scores[point], trace
            )
            found[own.value] = _best_of([found.get(own.value, own), own])
        return [found[value] for value in sorted(found)]


def _best_of(tried: Sequence[Tried]) -> Tried:
    """The one of the lowest score; of tied ones as points are chosen."""
    tied = [tried[place] for place in best_places([one.score for one in tried])]
    return min(tied, key=lambda one: size_of(hyper_parameters(one.trace)))


class ChosenValueTest(ClaimTest):
    """Tests what tuning chose, for sentences that report the tuning and not what it costs.

    The chosen value of a hyper-parameter is the best by the pooled score, and by the score of each
    tuning seed alone; judged seeds do not count. If these do not agree, the claim is undecided.

    chosen_order: The chosen value is larger for the run `larger` than for `smaller`, among the
    values that both tried. Reproduced if it is larger by every score, contradicted if it is smaller
    by every score, and no difference if it is equal by every score.

    chosen_value: The chosen value is the printed one, or next to it in the grid. Compatible if this
    holds by every score, incompatible if by none.

    larger, smaller, run: runs. hyper_parameter: its name, with a dot where it lies within a
    mapping. value: the printed value. among: the values that count, if the compared runs tried
    different ones.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "chosen_order": Kind(requires=("larger", "smaller", "hyper_parameter")),
        "chosen_value": Kind(requires=("run", "hyper_parameter", "value"), takes=("among",)),
    }

    run: str = ""
    larger: str = ""
    smaller: str = ""
    hyper_parameter: str
    value: float = 0.0
    among: tuple[float, ...] = ()

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.run,) if self.run else (self.larger, self.smaller)

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        grids = [self._values(results, run) for run in self.runs]
        values = [set(grid.values()) for grid in grids]
        common = sorted(set.intersection(*values, *([set(self.among)] if self.among else [])))
        if len(common) < 2:
            raise FedatlasError(
                f"runs {' and '.join(self.runs)} tried fewer than two common values of "
                f"{self.hyper_parameter}"
            )
        chosen = [
            self._chosen(results, run, {p: v for p, v in grid.items() if v in common})
            for run, grid in zip(self.runs, grids, strict=True)
        ]
        told = "; ".join(
            f"{run} {own[0]:g}, by tuning seed {', '.join(f'{value:g}' for value in own[1:])}"
            for run, own in zip(self.runs, chosen, strict=True)
        )
        listing = ", ".join(f"{value:g}" for value in common)
        evidence = f"chosen {self.hyper_parameter}: {told}; among {listing}"
        if self.run:
            near = self._nearest(common)
            agree = {int(value in near) for value in chosen[0]}
            outcomes: dict[int, Outcome] = {1: "compatible", 0: "incompatible"}
            agreeing = ", ".join(f"{value:g}" for value in near)
            evidence += f"; printed {self.value:g}, with which {agreeing} agree"
        else:
            agree = {int(np.sign(a - b)) for a, b in zip(*chosen, strict=True)}
            outcomes = {1: "reproduced", 0: "no difference", -1: "contradicted"}
        outcome = outcomes[agree.pop()] if len(agree) == 1 else "undecided"
        yield results.tuned(CaseOutcome("", outcome, evidence), *self.runs)

    def _nearest(self, values: Sequence[float]) -> list[float]:
        """The value nearest to the printed one and its neighbours in the grid."""
        place = int(np.argmin(np.abs(np.array(values) - self.value)))
        return list(values[max(place - 1, 0) : place + 2])

    def _values(self, results: Results, run: str) -> dict[str, float]:
        """The value of each point of a run."""
        points = results.traces[run].items()
        return {p: round(number_at(trace, self.hyper_parameter), 12) for p, trace in points}

    def _chosen(self, results: Results, run: str, values: Mapping[str, float]) -> list[float]:
        """The best value by the pooled score, then by each tuning seed alone."""
        choice = results.chosen[run]
        tried = [
            [
                Tried(value, score, results.traces[run][point])
                for score in (choice.scores[point], *choice.by_seed[point])
            ]
            for point, value in values.items()
        ]
        return [_best_of(row).value for row in zip(*tried, strict=True)]
