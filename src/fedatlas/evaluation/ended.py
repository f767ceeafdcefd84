"""Runs that a target of their own ends: what their records cannot tell."""

from collections.abc import Sequence

from fedatlas.evaluation.comparison import ROUNDING
from fedatlas.evaluation.evidence import target_name
from fedatlas.evaluation.levels import Trace, log_target, specification
from fedatlas.evaluation.results import NotTestableError
from fedatlas.schema.endings import Ending, ending_of


def require_records(traces: Sequence[Trace], measurement: str, target: float) -> None:
    """NotTestableError where runs were ended by a target of theirs that is easier than this one.

    target: a level.
    """
    for trace in traces:
        if why := why_no_record(trace, measurement, target):
            raise NotTestableError(f"{target_name(measurement, target)}: {why}")


def why_no_record(trace: Trace, measurement: str, target: float) -> str:
    """Why a run cannot tell when it reaches a level: it was ended before; empty if it can."""
    ending = ended_at(trace)
    if ending is None or (
        measurement == ending.measurement
        and log_target(measurement, ending.target) <= target + ROUNDING
    ):
        return ""
    return f"run '{trace.attrs['run']}' was ended at {ending.in_words}"


def ended_at(trace: Trace) -> Ending | None:
    """The target that ends a run; None without one."""
    ending = ending_of(specification(trace).get("until", {}))
    return ending if ending.measurement else None
