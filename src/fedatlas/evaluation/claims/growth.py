from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedatlas.evaluation.comparison import Direction
from fedatlas.evaluation.costs import Trace, specification
from fedatlas.evaluation.slopes import PowerTest, SeriesTest, rising
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.partitions import VerticalPartition


class GrowthTest(SeriesTest, PowerTest):
    """The cost to a target grows no faster than the number of clients to a power.

    With `compare_with`: it grows more slowly than theirs. The statistic is how much lower the slope
    of log cost over log clients is than `power`, or than that of the others. Theorems bound from
    above: a lower slope reproduces.
    """

    sized_by: ClassVar[tuple[str, str]] = ("client", "clients")

    kind: Literal["growth"]
    power: float = Field(default=1.0, description="of the number of clients, in the theorem")

    @property
    def direction(self) -> Direction:
        return "better" if self.compare_with else super().direction

    def sizes(self, traces: Sequence[Trace]) -> np.ndarray:
        return clients(traces)

    def size_in(self, experiment: Experiment, run: str) -> int:
        partition = experiment.partition_of(run)
        if isinstance(partition, VerticalPartition):
            raise ValueError(f"run '{run}' has no clients")
        if not isinstance(partition.clients, int):
            raise ValueError(f"run '{run}' has other clients in each silo")
        return partition.clients


def clients(traces: Sequence[Trace]) -> np.ndarray:
    """(runs,) numbers of clients; FedatlasError unless they rise."""
    numbers = [specification(trace)["partition"]["clients"] for trace in traces]
    return rising(traces, numbers, "clients")
