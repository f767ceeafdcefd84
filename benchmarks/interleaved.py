"""Timing several ways of doing the same on a machine that does other things, too."""

import statistics
import time
from collections.abc import Callable, Mapping

import torch

_FOR_NOTHING = 2  # repetitions before those that count


def medians(
    calls: Mapping[str, Callable[[], object]], repetitions: int, device: torch.device
) -> dict[str, float]:
    """Seconds of each call, the median of so many repetitions.

    Calls take turns, so that a busy machine slows all of them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repetition in range(repetitions + _FOR_NOTHING):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize()
            if repetition >= _FOR_NOTHING:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in times.items()}
