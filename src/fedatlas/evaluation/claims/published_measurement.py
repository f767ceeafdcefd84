"""The measurement of a run, against the number that a paper prints, by a prediction interval.

Two means of independent trials are compared by Welch's t. Only the variation of a trial counts:
seeds, and splits where every trial splits anew. The paper split and tested the same rows, so what
these rows happen to be is in both means, and neither the sampling error of a fixed test set nor the
correction of Nadeau and Bengio (2003), which is for other rows, is added.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from pydantic import PositiveFloat, PositiveInt, model_validator

from fedatlas.evaluation.comparison import ROUNDING, Interval
from fedatlas.evaluation.evidence import format_interval, format_repeats, mean_of
from fedatlas.evaluation.levels import column, diverged
from fedatlas.evaluation.results import Results, observations
from fedatlas.schema.claims import CaseOutcome, ClaimTest, Effect, Outcome
from fedatlas.schema.quantities import Measurement


class PublishedMeasurementTest(ClaimTest):
    """The mean over seeds of the measurement that a run ends with, against the printed number.

    Compatible where the printed number lies within the prediction interval of a mean like ours, by
    the paper's spread and its number of trials as well as ours. Where the paper prints no spread,
    ours stands for it; a number without ± is taken for one trial unless `trials` says otherwise.
    Not testable where a seed was lost: a mean of the others is no mean of the run. A single seed is
    undecided, unless the paper prints a spread.

    run: that which the claim is about. value: in units of the measurement: 81.96 % is 0.8196.
    spread: the paper's standard deviation over its trials. trials: of how many trials the value is
    the mean.
    """

    kind: Literal["published_measurement"]
    run: str
    measurement: Measurement
    value: float
    spread: PositiveFloat | None = None
    trials: PositiveInt = 1

    @model_validator(mode="after")
    def _spread_is_of_trials(self) -> Self:
        if self.spread is not None and self.trials < 2:
            raise ValueError("spread needs 'trials', 2 or more: the number that it was taken over")
        return self

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        yield results.tuned(self._judged(results), self.run)

    def _judged(self, results: Results) -> CaseOutcome:
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
        gap = format_interval(interval.estimate, interval.low, interval.high)
        evidence += f"; ours minus the published {gap}{format_repeats(effect)}"
        return CaseOutcome("", outcome, evidence, effect)

    @property
    def printed(self) -> str:
        """The printed number in words."""
        spread = "" if self.spread is None else f" ± {self.spread:g}"
        return f"{self.value:g}{spread} of {self.trials} trial{'s' if self.trials > 1 else ''}"


@dataclass(frozen=True)
class Printed:
    """A printed mean of trials; spread: their standard deviation, where the paper prints it."""

    value: float
    trials: int
    spread: float | None = None


def prediction_interval(ours: np.ndarray, printed: Printed, confidence: float) -> Interval | None:
    """Our mean over trials minus the printed one, which is compatible if the interval holds 0.

    Where one side has no spread, that of the other stands for it. None where neither has any. It
    holds a perfect replication with its confidence; of 95 %, 94 % with three trials beside ten.
    """
    from scipy.special import stdtrit

    count = len(ours)
    own = float(np.var(ours, ddof=1)) if count > 1 else None
    theirs = None if printed.spread is None else printed.spread**2
    if own is not None and theirs is not None:
        parts = own / count, theirs / printed.trials
        error = sum(parts)
        freedom = _welch(parts, (count - 1, printed.trials - 1))
    elif own is not None:
        error, freedom = own * (1 / count + 1 / printed.trials), count - 1.0
    elif theirs is not None:
        error, freedom = theirs * (1 / count + 1 / printed.trials), printed.trials - 1.0
    else:
        return None
    gap = float(ours.mean()) - printed.value
    half = float(stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(error))
    return Interval(gap, gap - half, gap + half)


def _welch(parts: tuple[float, float], freedom: tuple[int, int]) -> float:
    """Degrees of freedom of a sum of two variances of means (Welch 1947)."""
    total = sum(parts)
    if total == 0:
        return float(sum(freedom))
    return total**2 / sum(part**2 / free for part, free in zip(parts, freedom, strict=True))
