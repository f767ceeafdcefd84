"""Claims that one run is better than all of its rivals."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.evidence import Finding, spent
from fedatlas.evaluation.final_values import as_losses, contrasted, final_losses
from fedatlas.evaluation.levels import common_budget, common_start, mean_along
from fedatlas.schema.claims import HighestTest

_WORDS = {
    "reproduced": "better than",
    "inconclusive": "not told apart from",
    "not reproduced": "worse than",
}


def judge_highest(
    test: HighestTest, run: xr.Dataset, rivals: Sequence[xr.Dataset]
) -> list[Finding]:
    """The claim's own finding, then one per rival by the rule of `better_final`.

    The claim holds if the run is better than every rival and fails if any is better than the run.
    """
    traces = [run, *rivals]
    if test.cost is None:
        subject = f"{test.measurement} at the end"
        losses = [final_losses(trace, test.measurement) for trace in traces]
    else:
        end = common_budget(traces, test.cost)
        if not end:
            return [Finding("", "inconclusive", "every seed of all diverged")]
        start = _start(test, traces, test.cost, end)
        since = f"from {start:.4g} to" if start else "up to"
        subject = f"mean {test.measurement} {since} {spent(test.cost, end)}"
        losses = [
            as_losses(
                trace,
                test.measurement,
                mean_along(trace, test.measurement, test.cost, start, end),
            )
            for trace in traces
        ]
    cases = [
        _against(test, subject, rival, [losses[0], other])
        for rival, other in zip(test.among, losses[1:], strict=True)
    ]
    return [_together(test, subject, cases), *cases]


def _start(test: HighestTest, traces: list[xr.Dataset], cost: str, end: float) -> float:
    start = common_start(traces, cost)
    if start >= end:
        raise FedatlasError(
            f"claims: 'cost: {cost}' has no range that {', '.join(test.runs)} share: one has no "
            f"record before {spent(cost, start)}, one ends at {end:.4g}"
        )
    return start


def _against(test: HighestTest, subject: str, rival: str, losses: list[np.ndarray]) -> Finding:
    interval, evidence = contrasted(subject, (test.run, rival), losses, test.measurement)
    verdict = interval.verdict(-np.inf, 0.0)  # a tie is not "highest"
    return Finding(f"[against {rival}]", verdict, f"{evidence}, claimed above 0")


def _together(test: HighestTest, subject: str, cases: list[Finding]) -> Finding:
    found = {case.verdict for case in cases}
    if found == {"reproduced"}:
        verdict = "reproduced"
    else:
        verdict = "not reproduced" if "not reproduced" in found else "inconclusive"
    told = []
    for kind, words in _WORDS.items():
        named = [
            rival for rival, case in zip(test.among, cases, strict=True) if case.verdict == kind
        ]
        told += [f"{words} {', '.join(named)}"] if named else []
    return Finding("", verdict, f"{subject}: {test.run} {'; '.join(told)}")
