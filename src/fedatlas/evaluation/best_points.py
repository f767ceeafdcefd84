"""The best point of a run for each target: what a method can do if its step may follow ε."""

from collections.abc import Mapping

import numpy as np

from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.levels import Crossings


def best_by_others(by_point: Mapping[str, Crossings]) -> tuple[Crossings, np.ndarray]:
    """Each seed's crossing at the point where the other seeds arrive first, in the median.

    No seed chooses for itself. Also returns (seeds,) places of the points. A point that the median
    of the others never arrives at is chosen only where there is no better one.
    """
    costs = np.stack([found.cost for found in by_point.values()])
    seeds = costs.shape[1]
    chosen = np.zeros(seeds, dtype=np.int64)
    if len(costs) > 1 and seeds > 1:
        for seed in range(seeds):
            others = np.delete(costs, seed, axis=1)
            # The higher one of two in the middle: a mean of infinities would have no value.
            middle = np.sort(others, axis=1)[:, others.shape[1] // 2]
            chosen[seed] = int(middle.argmin())
    places = np.arange(seeds)
    of_points = [np.stack(each) for each in zip(*by_point.values(), strict=True)]
    return Crossings(*(each[chosen, places] for each in of_points)), chosen


def format_best(chosen: np.ndarray, points: Mapping[str, Trace]) -> str:
    """The step that most seeds chose, and whether it is the smallest or largest that was tried."""
    steps = [float(trace.attrs["effective_step_size"]) for trace in points.values()]
    most = steps[int(np.bincount(chosen, minlength=len(steps)).argmax())]
    edge = ", an edge of its grid" if most in (min(steps), max(steps)) else ""
    return f"step {most:g}{edge}"
