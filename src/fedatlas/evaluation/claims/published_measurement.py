from collections.abc import Iterator
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from fedatlas.evaluation.comparison import ROUNDING
from fedatlas.evaluation.costs import column
from fedatlas.evaluation.evidence import format_repeats, mean_of, plain
from fedatlas.evaluation.levels import diverged
from fedatlas.evaluation.prediction import Printed, prediction_interval
from fedatlas.evaluation.results import Results, observations
from fedatlas.schema.claims import CaseOutcome, Effect, Outcome, RunTest
from fedatlas.schema.measurements import Measurement


class PublishedMeasurementTest(RunTest):
    """The mean over seeds of the measurement that a run ends with, against the printed number.

    Compatible where the printed number lies within the prediction interval of a mean like ours, by
    the paper's spread and its number of trials as well as ours. Where the paper prints no spread,
    ours stands for it; a number without ± is taken for one trial unless `trials` says otherwise.
    Not testable where a seed was lost: a mean of the others is no mean of the run. A single seed is
    undecided, unless the paper prints a spread.
    """

    kind: Literal["published_measurement"]
    measurement: Measurement
    value: float = Field(description="in units of the measurement: 81.96 % is 0.8196")
    spread: PositiveFloat | None = Field(
        default=None, description="the paper's standard deviation over its trials"
    )
    trials: PositiveInt = Field(default=1, description="of how many trials the value is the mean")

    @model_validator(mode="after")
    def _spread_is_of_trials(self) -> Self:
        if self.spread is not None and self.trials < 2:
            raise ValueError("spread needs 'trials', 2 or more: the number that it was taken over")
        return self

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        yield from results.with_tuning([self._finding(results)], self.run)

    def _finding(self, results: Results) -> CaseOutcome:
        (trace,) = results.selected(self.run)
        lost, ends = diverged(trace), column(trace, self.measurement)[:, -1]
        ours = np.where(lost, np.inf, ends)
        evidence = (
            f"{self.measurement} at the end: {mean_of(self.run, ours)}, published {self.printed}"
        )
        if lost.any():
            return CaseOutcome("", "not testable", f"{evidence}; a lost seed leaves no mean")
        printed = Printed(self.value, self.trials, self.spread)
        own = observations(ours, [trace])
        interval = prediction_interval(own, printed, results.confidence)
        if interval is None:
            return CaseOutcome("", "undecided", f"{evidence}; one observation shows no spread")
        inside = interval.low <= ROUNDING and interval.high >= -ROUNDING
        outcome: Outcome = "compatible" if inside else "incompatible"
        effect = Effect(
            estimate=interval.estimate,
            low=interval.low,
            high=interval.high,
            smallest=0.0,
            unit=self.measurement,
            seeds=len(own),
            published=0.0,
            repeats=len(ours) - len(own),
        )
        evidence += (
            f"; ours minus the published {plain(interval.estimate)} "
            f"({plain(interval.low)} to {plain(interval.high)}){format_repeats(effect)}"
        )
        return CaseOutcome("", outcome, evidence, effect)

    @property
    def printed(self) -> str:
        """The printed number in words."""
        spread = "" if self.spread is None else f" ± {self.spread:g}"
        return f"{self.value:g}{spread} of {self.trials} trial{'s' if self.trials > 1 else ''}"
