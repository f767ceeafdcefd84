"""Slopes of logarithms of costs or errors over logarithms of a size of the problem."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import Crossings, Trace, specification

Size = Literal["rounds", "local_steps", "silos", "clients", "sampled", "parties", "horizon"]
#: Why a slope of tuned runs is not testable if a tuned step lies at the edge of its grid.
BEYOND_EDGE = "another step, beyond the edge, may have another rate"


@dataclass(frozen=True)
class Line:
    """Sizes and logarithms of which a slope is taken.

    label: what tells it from other lines of one claim. along, of: what sizes are, and what there is
    of logarithms. sizes: (runs,), rising. logarithms: (runs, seeds); +inf where a seed has none.
    expected: the slope that is claimed, None where lines are compared with each other.
    """

    label: str
    along: str
    of: str
    sizes: np.ndarray
    logarithms: np.ndarray
    expected: float | None

    @property
    def complete(self) -> np.ndarray:
        """(runs, seeds) logarithms of the seeds that have one at every size."""
        return self.logarithms[:, np.isfinite(self.logarithms).all(axis=0)]


def sizes_of(traces: Sequence[Trace], size: Size) -> np.ndarray:
    """(runs,) sizes; FedatlasError unless each run has one, and they rise."""
    found = [size_in(size, specification(trace)) for trace in traces]
    if None in found or sorted(set(found)) != found:
        raise FedatlasError(
            f"runs {', '.join(trace.attrs['run'] for trace in traces)} have "
            f"{', '.join(map(str, found))} {size}: list runs by rising number of {size}, one each"
        )
    return np.array(found)


def size_in(size: Size, declared: Mapping[str, Any]) -> Any:
    """The size of a run that declares these; None where it has none, or several."""
    if size == "rounds":
        return declared["rounds"]
    partition = declared["partition"]
    if size == "silos":
        return int(np.prod(list(partition["cut"].values()))) if "cut" in partition else None
    own = size in ("local_steps", "sampled", "horizon")
    key = "clients_per_round" if size == "sampled" else size
    number = (declared["hyper_parameters"] if own else partition).get(key)
    return number if isinstance(number, int) else None


def declared_sizes(size: Size, experiment: Any, runs: Iterable[str]) -> list[Any]:
    """The size of each run as the `Experiment` declares it, see `size_in`."""
    return [
        size_in(
            size,
            {
                "partition": experiment.partition_of(run).model_dump(),
                "hyper_parameters": experiment.runs[run].hyper_parameters,
                "rounds": experiment.rounds_of(run),
            },
        )
        for run in runs
    ]


def slopes_of(numbers: np.ndarray, logarithms: np.ndarray) -> np.ndarray:
    """(seeds,) slopes of log costs (sizes, seeds) over log sizes; +inf: a target was missed."""
    whole = np.isfinite(logarithms).all(axis=0)
    slopes = np.full(logarithms.shape[1], np.inf)
    if whole.any():
        slopes[whole] = _weights(numbers) @ logarithms[:, whole]
    return slopes


def _weights(numbers: np.ndarray) -> np.ndarray:
    """(sizes,) by which logarithms of costs make a slope of least squares."""
    x = np.log10(numbers) - np.log10(numbers).mean()
    return x / (x @ x)


def local_slopes(numbers: np.ndarray, logarithms: np.ndarray) -> np.ndarray:
    """(sizes − 1, seeds) slopes from each size to the next."""
    return np.diff(logarithms, axis=0) / np.diff(np.log10(numbers))[:, None]


def slopes_between(sizes: np.ndarray, found: Sequence[Crossings]) -> tuple[np.ndarray, ...]:
    """(seeds,) slopes of costs; the lowest and highest, wherever between two records they lie."""
    extremes = []
    for lowest in (True, False):
        sooner = (_weights(sizes) > 0) == lowest
        pairs = zip(sooner, found, strict=True)
        ends = np.stack([each.before if early else each.after for early, each in pairs])
        at_once = np.isneginf(ends).any(axis=0)  # before the first record, which costs nothing
        missed = np.isposinf(ends).any(axis=0)
        bound = -np.inf if lowest else np.inf
        extremes.append(np.where(at_once & ~missed, bound, slopes_of(sizes, ends)))
    return slopes_of(sizes, np.stack([each.cost for each in found])), *extremes


def most_chosen(chosen: np.ndarray, traces: Sequence[Trace]) -> str:
    """The step that most seeds chose, and whether it is the smallest or largest that was tried."""
    edge = ", an edge of its grid" if at_edge(chosen, traces) else ""
    return f"step {_most(chosen, traces):g}{edge}"


def at_edge(chosen: np.ndarray, traces: Sequence[Trace]) -> bool:
    """Whether most seeds chose the smallest or the largest step of several."""
    steps = {float(trace.attrs["effective_step_size"]) for trace in traces}
    return len(steps) > 1 and _most(chosen, traces) in (min(steps), max(steps))


def _most(chosen: np.ndarray, traces: Sequence[Trace]) -> float:
    steps = [float(trace.attrs["effective_step_size"]) for trace in traces]
    return steps[int(np.bincount(chosen, minlength=len(steps)).argmax())]
