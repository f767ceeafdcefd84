"""Claims about the measurement that runs end with: equal, better, or as printed."""

import numpy as np
import xarray as xr

from fedatlas.claims import BetterFinalTest, EqualFinalTest, PublishedMeasurementTest
from fedatlas.evaluation.evidence import Finding, bounds, mean_of
from fedatlas.evaluation.levels import (
    ROUNDING,
    Interval,
    above_start,
    column,
    difference,
    diverged,
)
from fedatlas.traces import LARGER_IS_BETTER


def judge_equal(test: EqualFinalTest, first: xr.Dataset, second: xr.Dataset) -> Finding:
    """The difference lies within the margin, its borders included."""
    interval, evidence = _compared(test, first, second)
    margin = test.margin + ROUNDING
    return Finding(
        "", interval.verdict(-margin, margin), f"{evidence}, claimed within {test.margin:g}"
    )


def judge_better(test: BetterFinalTest, first: xr.Dataset, second: xr.Dataset) -> Finding:
    """The difference lies beyond the lead; a tie is no lead."""
    interval, evidence = _compared(test, first, second)
    # Differences of decimal fractions carry rounding errors: 0.82 − 0.8 < 0.02.
    border = ROUNDING - test.by_at_least if test.by_at_least else 0.0
    lead = -_sign(test.measurement) * test.by_at_least
    side = "above" if test.measurement in LARGER_IS_BETTER else "below"
    return Finding(
        "", interval.verdict(-np.inf, border), f"{evidence}, claimed {side} {lead + 0.0:g}"
    )


def judge_published(test: PublishedMeasurementTest, trace: xr.Dataset) -> Finding:
    """The mean over seeds lies within the tolerance, its borders included."""
    losses = _losses(trace, test.measurement)
    interval = difference(losses, np.full(len(losses), _sign(test.measurement) * test.value))
    tolerance = test.tolerance + ROUNDING
    shown = _signed(interval, test.measurement)
    evidence = (
        f"{test.measurement} at the end: {_ends(test.run, losses, test.measurement)}; "
        f"minus the published {bounds(shown)}; published {test.value:g} ± {test.tolerance:g}"
    )
    return Finding("", interval.verdict(-tolerance, tolerance), evidence)


def _compared(
    test: EqualFinalTest | BetterFinalTest, first: xr.Dataset, second: xr.Dataset
) -> tuple[Interval, str]:
    """The interval of the losses' difference, and evidence in the measurement's own direction."""
    losses = [_losses(trace, test.measurement) for trace in (first, second)]
    interval = difference(*losses)
    ends = ", ".join(
        _ends(run, values, test.measurement) for run, values in zip(test.runs, losses, strict=True)
    )
    shown = bounds(_signed(interval, test.measurement))
    return interval, f"{test.measurement} at the end: {ends}; difference {shown}"


def _losses(trace: xr.Dataset, measurement: str) -> np.ndarray:
    """(seeds,) the last record, negative where larger is better; +inf for a seed that is lost."""
    lost = diverged(trace) | above_start(trace)[:, -1]
    return np.where(lost, np.inf, _sign(measurement) * column(trace, measurement)[:, -1])


def _sign(measurement: str) -> int:
    return -1 if measurement in LARGER_IS_BETTER else 1


def _ends(run: str, losses: np.ndarray, measurement: str) -> str:
    return mean_of(run, _sign(measurement) * losses)


def _signed(interval: Interval, measurement: str) -> Interval:
    if measurement not in LARGER_IS_BETTER:
        return interval
    return Interval(-interval.centre, -interval.high, -interval.low)
