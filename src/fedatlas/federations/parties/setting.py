"""Parties with columns of all samples, each a process of its own."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedatlas.federations.engine import NumpyArrays
from fedatlas.federations.parties.group import PartyGroup
from fedatlas.federations.parties.network import ProcessNetwork
from fedatlas.federations.setting import FederationContext, SeedRun
from fedatlas.federations.vertical.counters import ProcessCounters
from fedatlas.federations.vertical.problem import PartyProblem
from fedatlas.federations.vertical.shards import read_party_shards
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import VerticalPartition


class ProcessSetting(FederationContext):
    """Processes on the CPU, one group for all trials on the same shards."""

    def _claimed(self, device: str) -> str:
        return "cpu"

    def _engine(self, files: Sequence[Path]) -> "_Parties":
        assert isinstance(self._spec.objective, LinearObjective)
        return _Parties(files, self._spec.objective, self._spec.network)

    def _seed_run(self, seed: int) -> SeedRun:
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
        self.data = read_party_shards(files)
        self.problem = PartyProblem(self.data, objective)
        self.group = PartyGroup(files)
        self.group.set_up(objective, network)
