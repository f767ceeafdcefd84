"""Claims about the measurement that runs end with."""

from collections.abc import Sequence

import numpy as np

from fedatlas.evaluation.costs import Trace, column
from fedatlas.evaluation.evidence import bounds, mean_of
from fedatlas.evaluation.levels import Interval, deceptive, difference, diverged
from fedatlas.evaluation.results import Results
from fedatlas.schema.measurements import LARGER_IS_BETTER


def contrasted(
    subject: str, runs: Sequence[str], losses: Sequence[np.ndarray], measurement: str
) -> tuple[Interval, str]:
    """The interval of two losses' difference, and evidence in the measurement's own direction."""
    interval = difference(*losses)
    told = ", ".join(
        ends(run, values, measurement) for run, values in zip(runs, losses, strict=True)
    )
    return interval, f"{subject}: {told}; difference {bounds(signed(interval, measurement))}"


def final_losses(trace: Trace, measurement: str) -> np.ndarray:
    """(seeds,) the losses of the last record."""
    return as_losses(trace, measurement, column(trace, measurement)[:, -1])


def as_losses(trace: Trace, measurement: str, values: np.ndarray) -> np.ndarray:
    """(seeds,) values, negated where larger is better; +inf for a lost seed.

    A seed is lost if it diverged or if the measurement is deceptive at its end.
    """
    lost = diverged(trace) | deceptive(trace, measurement)[:, -1]
    return np.where(lost, np.inf, sign_of(measurement) * values)


def sign_of(measurement: str) -> int:
    """-1 where larger is better, so that smaller losses are better."""
    return -1 if measurement in LARGER_IS_BETTER else 1


def ends(run: str, losses: np.ndarray, measurement: str) -> str:
    """The mean of the measurement, in words."""
    return mean_of(run, sign_of(measurement) * losses)


def signed(interval: Interval, measurement: str) -> Interval:
    """An interval of losses in the measurement's own direction."""
    if measurement not in LARGER_IS_BETTER:
        return interval
    return Interval(-interval.centre, -interval.high, -interval.low)


def contrasted_ends(
    results: Results, runs: Sequence[str], measurement: str
) -> tuple[Interval, str]:
    """As `contrasted`, of where the selected points of two runs end."""
    losses = [final_losses(trace, measurement) for trace in results.selected(*runs)]
    return contrasted(f"{measurement} at the end", runs, losses, measurement)
