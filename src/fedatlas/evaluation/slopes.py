"""Slopes of logarithms of costs or errors over logarithms of a size of the problem."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace, specification
from fedatlas.evaluation.levels import Crossings, cost_to_reach, log_target
from fedatlas.schema.experiments import Experiment

Size = Literal["rounds", "local_steps", "silos", "clients", "parties", "horizon"]


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


class Lines(ABC):
    """A test whose slopes a figure can draw, where `has_slopes` says so."""

    @abstractmethod
    def lines(self, selected: Callable[..., list[Trace]]) -> Iterator[Line]:
        """Lines whose slopes it compares; selected: runs → traces at their tuned configurations."""


def sizes_of(traces: Sequence[Trace], size: Size) -> np.ndarray:
    """(runs,) sizes; FedatlasError if a run has none, or unless they rise."""
    found = []
    for trace in traces:
        declared = specification(trace)
        own = _size(
            *(size, declared["partition"], declared["hyper_parameters"], int(declared["rounds"]))
        )
        if own is None:
            raise FedatlasError(f"run '{trace.attrs['run']}' has no one number of {size}")
        found.append(own)
    if sorted(set(found)) != found:
        raise FedatlasError(
            f"runs {', '.join(trace.attrs['run'] for trace in traces)} have "
            f"{', '.join(map(str, found))} {size}: list runs by rising number of {size}"
        )
    return np.array(found)


def size_in(experiment: Experiment, run: str, size: Size) -> int:
    """The declared size of a run; ValueError if it has none, or several."""
    declared = experiment.runs[run].hyper_parameters
    partition = experiment.partition_of(run).model_dump()
    found = _size(size, partition, declared, experiment.rounds_of(run))
    if found is None:
        raise ValueError(f"run '{run}' has no one number of {size}")
    return found


def _size(
    size: Size, partition: Mapping[str, Any], hyper_parameters: Mapping[str, Any], rounds: int
) -> int | None:
    """The size of a run; None where it has none, or several."""
    if size == "rounds":
        return rounds
    if size == "silos":
        return int(np.prod(list(partition["cut"].values()))) if "cut" in partition else None
    where = hyper_parameters if size in ("local_steps", "horizon") else partition
    declared = where.get(size)
    return declared if isinstance(declared, int) else None


def costs_to(traces: Sequence[Trace], measurement: str, target: float, cost: str) -> np.ndarray:
    """(runs, seeds) cost until the target is met; +inf: it never is."""
    level = log_target(measurement, target)
    return np.stack([cost_to_reach(trace, measurement, cost, level) for trace in traces])


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


def extreme_slopes(numbers: np.ndarray, found: Sequence[Crossings], lowest: bool) -> np.ndarray:
    """(seeds,) the lowest or highest slope, if targets were met anywhere between two records."""
    sooner = (_weights(numbers) > 0) == lowest
    ends = [
        crossing.before if early else crossing.after
        for early, crossing in zip(sooner, found, strict=True)
    ]
    at_once = np.isneginf(ends).any(axis=0)  # before the first record, which costs nothing
    slopes = slopes_of(numbers, np.stack(ends))
    missed = np.isposinf(ends).any(axis=0)
    return np.where(at_once & ~missed, -np.inf if lowest else np.inf, slopes)
