from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import Direction
from fedatlas.evaluation.costs import Trace, specification
from fedatlas.evaluation.levels import cost_to_reach, log_target
from fedatlas.evaluation.slopes import SeriesTest, rising
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.partitions import VerticalPartition

#: Time to a target falls as parties to this power where speed-up is linear.
LINEAR_POWER = -1.0
#: "Near linear": a power closer to it than this. Our choice.
NEAR = 0.2
#: "Much better scalability": a power lower by this much, a fifth of the time at 8 times q. Ours.
MUCH_LOWER = 0.1


class ScalingTest(SeriesTest):
    """Simulated time to a target falls near linearly with the number of parties.

    With `compare_with`: it falls faster than theirs. The statistic is the slope of log time over
    log parties, and how close it is to -1, or how much lower than that of the others.
    `smallest_effect`: 0.2 of what is near linear, 0.1 of what is faster.
    """

    sized_by: ClassVar[tuple[str, str]] = ("party", "parties")

    kind: Literal["scaling"]

    @property
    def direction(self) -> Direction:
        return "better" if self.compare_with else "equal"

    @property
    def default_effect(self) -> float:
        return MUCH_LOWER if self.compare_with else NEAR

    @property
    def spent(self) -> str:
        return "simulated_time"

    @property
    def expected(self) -> float:
        return LINEAR_POWER

    def format_counted(self, smallest: float) -> str:
        return f"closer than {smallest:g} is near"

    def sizes(self, traces: Sequence[Trace]) -> np.ndarray:
        return parties(traces)

    def size_in(self, experiment: Experiment, run: str) -> int:
        partition = experiment.partition_of(run)
        if not isinstance(partition, VerticalPartition):
            raise ValueError(f"run '{run}' has no parties")
        return partition.parties


def parties(traces: Sequence[Trace]) -> np.ndarray:
    """(runs,) numbers of parties; FedatlasError if a run has none or they do not rise."""
    numbers = []
    for trace in traces:
        partition = specification(trace)["partition"]
        if "parties" not in partition:
            raise FedatlasError(
                f"run '{trace.attrs['run']}' has no parties: scaling needs vertical runs"
            )
        numbers.append(partition["parties"])
    return rising(traces, numbers, "parties")


def times(
    traces: Sequence[Trace], measurement: str, target: float, cost: str = "simulated_time"
) -> np.ndarray:
    """(runs, seeds) simulated time, or another cost, until the target is met; +inf: it never is."""
    level = log_target(measurement, target)
    return np.stack([cost_to_reach(trace, measurement, cost, level) for trace in traces])
