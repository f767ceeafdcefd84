"""Time to a target by the number of parties."""

import json
from collections.abc import Sequence

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.levels import cost_to_reach, log_target


def parties(traces: Sequence[Trace]) -> np.ndarray:
    """(runs,) numbers of parties; FedatlasError if a run has none or they do not rise."""
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
            f"runs {', '.join(trace.attrs['run'] for trace in traces)} have "
            f"{', '.join(map(str, numbers))} parties: list runs by rising number of parties"
        )
    return np.array(numbers)


def times(traces: Sequence[Trace], measurement: str, target: float) -> np.ndarray:
    """(runs, seeds) simulated time until the target is met, +inf where it never is."""
    level = log_target(measurement, target)
    return np.stack(
        [cost_to_reach(trace, measurement, "simulated_time", level) for trace in traces]
    )
