"""Parties that are processes: each holds its own columns only and talks to others by messages.

`backend: processes` in an experiment. What is simulated in `federations.vertical` is done here, by
the same rules and the same secure sum; docs/parties.md says how to run it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedatlas.federations.context import FederationContext, SeedRun
from fedatlas.federations.parts import NumpyArrays
from fedatlas.federations.vertical import Vertical
from fedatlas.federations.vertical.problem import ProcessCounters
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import VerticalPartition


class Processes(Vertical):
    """Parties with columns of all samples, each a process of its own, whose time is real."""

    backend = "processes"
    counters: ClassVar[type[Any]] = ProcessCounters
    instead: ClassVar[Mapping[str, str]] = {"simulated_time": "its time is real: name elapsed_time"}


class ProcessContext(FederationContext):
    """Processes on the CPU, one group for all trials on the same shards."""

    def _engine(self, files: Sequence[Path]) -> "_Parties":
        assert isinstance(self._spec.objective, LinearObjective)
        return _Parties(files, self._spec.objective, self._spec.network)

    def _seed_run(self, seed: int) -> SeedRun:
        from fedatlas.federations.parties.network import ProcessNetwork

        partition, engine = self._spec.partition, self.engine
        assert isinstance(partition, VerticalPartition)
        counters = ProcessCounters()
        rows = engine.data.train
        network = ProcessNetwork(engine.group, rows.starts, partition.active, len(rows), counters)
        start = np.zeros(engine.problem.dimension)
        return SeedRun(engine.problem, network, counters, start, seeded=True)


class _Parties(NumpyArrays):
    """The processes; and all that they hold, side by side, by which models are measured here.

    To measure is no part of the protocol: this process sees all blocks, no party does.
    """

    def __init__(
        self, files: Sequence[Path], objective: LinearObjective, network: NetworkModel | None
    ) -> None:
        from fedatlas.federations.parties.group import PartyGroup
        from fedatlas.federations.vertical.problem import PartyProblem

        self.data = Processes.read(files)
        self.problem = PartyProblem(self.data, objective)
        self.group = PartyGroup(files)
        self.group.set_up(objective, network)
