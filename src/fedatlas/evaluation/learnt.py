"""Runs beside the best constant predictor: a run that is no better has learnt nothing.

The study `fedatlas.studies.constants` computes the predictor's measurements. Where one is not
known, no run is compared with it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedatlas.evaluation.comparison import ROUNDING
from fedatlas.evaluation.evidence import target_name
from fedatlas.evaluation.levels import Trace, log_target, sign_of
from fedatlas.evaluation.quantities import EffectTest, unit_of_losses
from fedatlas.evaluation.results import NotTestableError, Results
from fedatlas.schema.claims import CaseOutcome


def constant_losses(results: Results, trace: Trace, measurement: str) -> np.ndarray | None:
    """(seeds,) losses of the best constant predictor, in `unit_of_losses`; None if unknown."""
    constant = results.constant(trace, measurement)
    if constant is None:
        return None
    if unit_of_losses(measurement) == "decades":
        return _levels(measurement, constant)
    return sign_of(measurement) * constant


def told_constant(results: Results, trace: Trace, measurement: str) -> str:
    """Words about the best constant predictor for evidence; empty where it is not known."""
    constant = results.constant(trace, measurement)
    return "" if constant is None else f"; best constant predictor {constant.mean():.4g}"


def require_beyond_constant(
    results: Results, traces: Sequence[Trace], measurement: str, target: float
) -> None:
    """NotTestableError for a target level that the best constant predictor reaches."""
    for trace in traces:
        constant = results.constant(trace, measurement)
        if constant is not None and np.median(_levels(measurement, constant)) <= target:
            raise NotTestableError(
                f"{target_name(measurement, target)} is reached by predicting a constant, which "
                f"has {constant.mean():.4g}"
            )


def has_learnt(
    test: EffectTest, results: Results, trace: Trace, losses: np.ndarray, measurement: str
) -> bool:
    """Whether the typical seed is ahead of the best constant predictor by what counts.

    losses: (seeds,) of the measurement, in `unit_of_losses`. True where that is not known.
    """
    constant = constant_losses(results, trace, measurement)
    if constant is None:
        return True
    criterion = test.criterion
    counted = criterion.smallest if criterion.tie is None else criterion.tie
    return bool(np.median(constant - losses) >= counted - ROUNDING)


def beside_constant(
    test: EffectTest,
    results: Results,
    case: CaseOutcome,
    runs: Sequence[tuple[Trace, np.ndarray]],
    measurement: str,
    *,
    all_must: bool = False,
) -> CaseOutcome:
    """The case, with what the best constant predictor has.

    Nothing is reproduced of a run that is no better, and runs none of which is better are not
    compared. runs: traces and losses by seed, first of the run that is claimed to be good.
    all_must: be better, the others as well: of what runs come to in the end.
    """
    trace, _ = runs[0]
    told = told_constant(results, trace, measurement)
    learnt = [has_learnt(test, results, *run, measurement) for run in runs]
    if all(learnt) or (learnt[0] and not all_must):
        # Of levels it says little: they lie orders of magnitude below.
        shown = "" if unit_of_losses(measurement) == "decades" else told
        return replace(case, evidence=case.evidence + shown)
    worse = dict.fromkeys(
        own.attrs["run"] for (own, _), ok in zip(runs, learnt, strict=True) if not ok
    )
    case = replace(case, evidence=case.evidence + told)
    why = f"no better than a constant: {', '.join(worse)}"
    if case.outcome != "reproduced" and any(learnt) and not all_must:
        return replace(case, evidence=f"{case.evidence}; {why}")
    effect = case.effect and replace(case.effect, p=None, needed=None)
    return replace(case, effect=effect).not_testable(why)


def _levels(measurement: str, constant: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):  # rows of one class
        return np.array([log_target(measurement, value) for value in constant])
