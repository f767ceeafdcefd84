"""Records of seeds: measurements of files, all seeds together, and warnings."""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.context import SeedRun
from fedatlas.schema.runs import RunSpec
from fedatlas.training.seeds import SeedResult

log = logging.getLogger(__name__)


def uncounted(run: SeedRun, function: Callable[..., Any], *given: Any) -> Any:
    """What a function gives, whose questions to the problem cost the run nothing."""
    before = dict(vars(run.counters))
    found = function(*given)
    vars(run.counters).update(before)
    return found


def finite_number(name: str, done: int, found: Any) -> float:
    """What a file of measurements gives; FedatlasError unless it is a finite number."""
    try:
        value = float(found)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise FedatlasError(
            f"measurements/{name}.py: gives {str(found)[:80]} after round {done}: give a finite "
            "number"
        )
    return value


def together(results: Sequence[SeedResult], name: str) -> np.ndarray:
    """A variable of all seeds, (seeds, records).

    A seed that ended before others keeps its last record: it spends nothing more and stands still.
    """
    columns = [result.variables[name] for result in results]
    longest = max(map(len, columns))
    return np.stack([np.pad(column, (0, longest - len(column)), "edge") for column in columns])


def warnings_of_ends(spec: RunSpec, results: Sequence[SeedResult]) -> list[str]:
    """Warnings, also for the log, of budgets that were not spent, or that machines measure."""
    ending, warnings = spec.ending, []
    if not ending.repeatable:
        warnings.append(
            f"'until' is a budget of {ending.cost}, which the machine measures: another training "
            "ends elsewhere"
        )
    early = [
        str(seed)
        for seed, result in zip(spec.seeds, results, strict=True)
        if ending.cost and result.made["ended_by"] == "rounds"
    ]
    if early:
        warnings.append(
            f"all {spec.rounds} rounds end before {ending.cost}: {ending.budget:g} is spent, of "
            f"the seeds {', '.join(early)}: raise 'rounds'"
        )
    for warning in warnings:
        log.warning("%s: %s", spec.name, warning)
    return warnings


def ends_above_start(spec: RunSpec, objective: np.ndarray, status: Sequence[str]) -> list[str]:
    """A warning for the log and the trace, if seeds end worse than they began."""
    found = [
        number
        for number, outcome in enumerate(status)
        if outcome == "ok" and objective[number, -1] > objective[number, 0]
    ]
    if not found:
        return []
    seeds = ", ".join(str(spec.seeds[number]) for number in found)
    start, end = (float(np.median(objective[found, at])) for at in (0, -1))
    warning = (
        f"the objective ends above its start, at {end:.4g} from {start:.4g}, of the seeds {seeds}: "
        "the step size, noise or clipping may be too large"
    )
    log.warning("%s: %s", spec.name, warning)
    return [warning]
