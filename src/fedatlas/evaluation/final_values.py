"""Claims about the measurement that runs end with: equal, better, or as printed."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from fedatlas.evaluation.costs import column
from fedatlas.evaluation.evidence import Finding, bounds, mean_of
from fedatlas.evaluation.levels import ROUNDING, Interval, deceptive, difference, diverged
from fedatlas.schema.claims import BetterFinalTest, EqualFinalTest, PublishedMeasurementTest
from fedatlas.schema.measurements import LARGER_IS_BETTER


def judge_equal(test: EqualFinalTest, first: xr.Dataset, second: xr.Dataset) -> Finding:
    """The difference lies within the margin, its borders included."""
    interval, evidence = _at_the_end(test, first, second)
    margin = test.margin + ROUNDING
    return Finding(
        "", interval.verdict(-margin, margin), f"{evidence}, claimed within {test.margin:g}"
    )


def judge_better(test: BetterFinalTest, first: xr.Dataset, second: xr.Dataset) -> Finding:
    """The difference lies beyond the lead; a tie is no lead."""
    interval, evidence = _at_the_end(test, first, second)
    # Differences of decimal fractions carry rounding errors: 0.82 − 0.8 < 0.02.
    border = ROUNDING - test.by_at_least if test.by_at_least else 0.0
    lead = -_sign(test.measurement) * test.by_at_least
    side = "above" if test.measurement in LARGER_IS_BETTER else "below"
    return Finding(
        "", interval.verdict(-np.inf, border), f"{evidence}, claimed {side} {lead + 0.0:g}"
    )


def judge_published(test: PublishedMeasurementTest, trace: xr.Dataset) -> Finding:
    """The mean over seeds lies within the tolerance, its borders included."""
    losses = final_losses(trace, test.measurement)
    interval = difference(losses, np.full(len(losses), _sign(test.measurement) * test.value))
    tolerance = test.tolerance + ROUNDING
    shown = _signed(interval, test.measurement)
    evidence = (
        f"{test.measurement} at the end: {_ends(test.run, losses, test.measurement)}; "
        f"minus the published {bounds(shown)}; published {test.value:g} ± {test.tolerance:g}"
    )
    return Finding("", interval.verdict(-tolerance, tolerance), evidence)


def _at_the_end(
    test: EqualFinalTest | BetterFinalTest, first: xr.Dataset, second: xr.Dataset
) -> tuple[Interval, str]:
    losses = [final_losses(trace, test.measurement) for trace in (first, second)]
    return contrasted(f"{test.measurement} at the end", test.runs, losses, test.measurement)


def contrasted(
    subject: str, runs: Sequence[str], losses: Sequence[np.ndarray], measurement: str
) -> tuple[Interval, str]:
    """The interval of two losses' difference, and evidence in the measurement's own direction."""
    interval = difference(*losses)
    ends = ", ".join(
        _ends(run, values, measurement) for run, values in zip(runs, losses, strict=True)
    )
    return interval, f"{subject}: {ends}; difference {bounds(_signed(interval, measurement))}"


def final_losses(trace: xr.Dataset, measurement: str) -> np.ndarray:
    """(seeds,) the losses of the last record."""
    return as_losses(trace, measurement, column(trace, measurement)[:, -1])


def as_losses(trace: xr.Dataset, measurement: str, values: np.ndarray) -> np.ndarray:
    """(seeds,) values, negative where larger is better; +inf for a seed that is lost.

    Lost are seeds that diverged, or where the measurement is deceptive at the end.
    """
    lost = diverged(trace) | deceptive(trace, measurement)[:, -1]
    return np.where(lost, np.inf, _sign(measurement) * values)


def _sign(measurement: str) -> int:
    return -1 if measurement in LARGER_IS_BETTER else 1


def _ends(run: str, losses: np.ndarray, measurement: str) -> str:
    return mean_of(run, _sign(measurement) * losses)


def _signed(interval: Interval, measurement: str) -> Interval:
    if measurement not in LARGER_IS_BETTER:
        return interval
    return Interval(-interval.centre, -interval.high, -interval.low)
