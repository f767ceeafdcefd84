"""How time to a target falls with the number of parties, and claims about it."""

import json
from collections.abc import Sequence

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.evidence import Finding, bounds, level, target_name
from fedatlas.evaluation.levels import cost_to_reach, difference, log_target
from fedatlas.schema.claims import CLEARLY_LOWER_POWER, NEAR_LINEAR_POWERS, ScalingTest


def parties(traces: Sequence[xr.Dataset]) -> np.ndarray:
    """(runs,) numbers of parties, which must rise; FedatlasError otherwise."""
    numbers = []
    for trace in traces:
        partition = json.loads(trace.attrs["specification"])["partition"]
        if "parties" not in partition:
            raise FedatlasError(
                f"run '{trace.attrs['run']}' has no parties: scaling needs vertical runs"
            )
        numbers.append(partition["parties"])
    if sorted(set(numbers)) != numbers:
        raise FedatlasError(
            f"runs {', '.join(trace.attrs['run'] for trace in traces)} have {_listed(numbers)} "
            "parties: list runs by rising number of parties"
        )
    return np.array(numbers)


def times(traces: Sequence[xr.Dataset], measurement: str, target: float) -> np.ndarray:
    """(runs, seeds) simulated time until the target is met, +inf where it never is."""
    return np.stack(
        [
            cost_to_reach(trace, measurement, "simulated_time", log_target(measurement, target))
            for trace in traces
        ]
    )


def judge_scaling(
    test: ScalingTest, series: Sequence[xr.Dataset], other: Sequence[xr.Dataset]
) -> Finding:
    """The slope of log time against log parties, by itself or against another method's."""
    slopes, told = _slopes(test, series)
    target = target_name(test.measurement, log_target(test.measurement, test.target))
    subject = f"simulated seconds to {target}"
    if not other:
        if not np.isfinite(slopes).any():
            return Finding("", "inconclusive", f"{subject}: {told}; the budget is too small")
        interval = difference(slopes, np.zeros(len(slopes)))
        low, high = NEAR_LINEAR_POWERS
        evidence = f"{subject}: {told}; slope {bounds(interval)}, claimed {low:g} to {high:g}"
        return Finding("", interval.verdict(low, high), evidence)
    if parties(series).tolist() != parties(other).tolist():
        raise FedatlasError(
            f"claims: series and compare_with have {_listed(parties(series))} and "
            f"{_listed(parties(other))} parties: list runs with the same numbers"
        )
    other_slopes, other_told = _slopes(test, other)
    if not np.isfinite([slopes, other_slopes]).all(axis=0).any():
        reason = "the budget is too small to compare them"
        return Finding("", "inconclusive", f"{subject}: {told}, against {other_told}; {reason}")
    interval = difference(slopes, other_slopes)
    evidence = f"{subject}: {told}, against {other_told}; slopes differ by {bounds(interval)}"
    verdict = interval.verdict(-np.inf, CLEARLY_LOWER_POWER)
    return Finding("", verdict, f"{evidence}, claimed below {CLEARLY_LOWER_POWER:g}")


def _slopes(test: ScalingTest, series: Sequence[xr.Dataset]) -> tuple[np.ndarray, str]:
    """(seeds,) slopes of log time over log parties; +inf for a seed that missed a target."""
    numbers = parties(series)
    logarithms = np.log10(times(series, test.measurement, test.target))
    told = ", ".join(
        level(f"{count} {'party' if count == 1 else 'parties'}", row)
        for count, row in zip(numbers, logarithms, strict=True)
    )
    whole = np.isfinite(logarithms).all(axis=0)
    slopes = np.full(logarithms.shape[1], np.inf)
    if whole.any():
        slopes[whole] = np.polyfit(np.log10(numbers), logarithms[:, whole], 1)[0]
    return slopes, told


def _listed(numbers: Sequence[int] | np.ndarray) -> str:
    return ", ".join(str(count) for count in numbers)
