"""Limits of records: runs that end at their own target, and records that are far apart."""

from collections.abc import Callable, Sequence

import numpy as np

from fedatlas.evaluation.comparison import ROUNDING
from fedatlas.evaluation.evidence import target_name
from fedatlas.evaluation.levels import (
    Crossings,
    Trace,
    best_level,
    column,
    log_target,
    specification,
    until,
    value_at,
)
from fedatlas.evaluation.results import NotTestableError
from fedatlas.schema.endings import Ending, ending_of

#: Gives the least and the largest advantages (seeds,) that records leave open, if these lay so
#: many times closer.
Extremes = Callable[[float], tuple[np.ndarray, np.ndarray]]
# How many times closer records may have to be, in the order in which it is tried.
_CLOSER = (2, 3, 4, 5, 8, 10, 15, 20, 50, 100, 200, 500, 1000)


def require_records(traces: Sequence[Trace], measurement: str, target: float) -> None:
    """NotTestableError where runs were ended by a target of theirs that is easier than this one.

    target: a level.
    """
    for trace in traces:
        if why := why_no_record(trace, measurement, target):
            raise NotTestableError(f"{target_name(measurement, target)}: {why}")


def why_no_record(trace: Trace, measurement: str, target: float) -> str:
    """Why a run does not show when it reaches a level: it ended before; else empty."""
    ending = ended_at(trace)
    if ending is None or (
        measurement == ending.measurement
        and log_target(measurement, ending.target) <= target + ROUNDING
    ):
        return ""
    return f"run '{trace.attrs['run']}' was ended at {ending.in_words}"


def how_near(names: Sequence[str], traces: Sequence[Trace], measurement: str) -> str:
    """The best that the median over seeds of each run has, in words."""
    best = [best_level(trace, measurement) for trace in traces]
    told = (f"{value_at(measurement, one):.4g}" if np.isfinite(one) else "none" for one in best)
    return "at best " + ", ".join(f"{run} {value}" for run, value in zip(names, told, strict=True))


def recorded_until(traces: Sequence[Trace], share: float) -> list[Trace]:
    """The records of the first share of the rounds; NotTestableError if a run has only a start."""
    shown = [until(trace, share) for trace in traces]
    if any(trace.sizes["record"] < 2 for trace in shown):
        raise NotTestableError(f"no record in the first {share:.2g} of the rounds but the start")
    return shown


def ended_at(trace: Trace) -> Ending | None:
    """The target that ends a run; None without one."""
    ending = ending_of(specification(trace).get("until", {}))
    return ending if ending.measurement else None


def coincide(traces: Sequence[Trace], found: Sequence[Crossings], measurement: str) -> bool:
    """Whether two runs have the same levels at all records, and arrive at the same costs.

    Hyper-parameters can make one method of another. Records then leave nothing open.
    """
    (one, other), (first, second) = (column(trace, measurement) for trace in traces), found
    return (
        one.shape == other.shape
        and np.allclose(one, other, rtol=1e-9, atol=0, equal_nan=True)
        and np.allclose(first, second, rtol=1e-9, atol=0)
    )


def what_would_tell(traces: Sequence[Trace], told: Callable[[float], bool], seeds: bool) -> str:
    """Why records do not tell, and what would. told: whether they do if so many times closer.

    By straight lines: between records that are not there a curve may bend.
    seeds: whether more of them may tell.
    """
    apart = {
        trace.attrs["run"]: int(np.nanmax(np.diff(column(trace, "round"), axis=1), initial=1))
        for trace in traces
    }
    widest = max(apart.values())
    tried = (*(times for times in _CLOSER if times < widest), widest)
    closer = next((times for times in tried if told(times)), None)
    if closer is not None:
        each = ", ".join(f"{rounds} of {run}" for run, rounds in apart.items())
        every = max(1, min(apart.values()) // closer)
        why = "records are too far apart to tell"
        what = f"up to {each} rounds lie between; record_every: {every} would tell"
    elif told(np.inf):
        why = "a record of every round is too coarse to tell"
        what = "a harder target, which is reached later, may tell"
    else:
        why, what = "runs end too early to tell", "more rounds may tell"
    return f"{why}; {what}{', and so may more seeds' * seeds}"
