"""Timing several ways of doing the same on a machine that does other things, too."""

import statistics
import time
from collections.abc import Callable, Mapping

import torch

_FOR_NOTHING = 2  # repetitions before those that count


def medians(
    calls: Mapping[str, Callable[[], object]], repetitions: int, device: torch.device
) -> dict[str, float]:
    """Seconds of each call, the median of so many repetitions; see `times`."""
    return {
        name: statistics.median(values)
        for name, values in times(calls, repetitions, device).items()
    }


def times(
    calls: Mapping[str, Callable[[], object]], repetitions: int, device: torch.device
) -> dict[str, list[float]]:
    """Seconds of each call in every repetition: processor time, or wall time with a GPU.

    Calls take turns, so that a busy machine slows all of them alike.
    """
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    found: dict[str, list[float]] = {name: [] for name in calls}
    for repetition in range(repetitions + _FOR_NOTHING):
        for name, call in calls.items():
            began = clock()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize()
            if repetition >= _FOR_NOTHING:
                found[name].append(clock() - began)
    return found
