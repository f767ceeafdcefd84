"""Parties with columns of all samples."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedatlas.federations.engine import NumpyArrays
from fedatlas.federations.setting import FederationContext, SeedRun
from fedatlas.federations.vertical.counters import PartyCounters
from fedatlas.federations.vertical.network import PartyNetwork
from fedatlas.federations.vertical.problem import PartyProblem
from fedatlas.federations.vertical.shards import read_party_shards
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import VerticalPartition


class VerticalSetting(FederationContext):
    """A sequence of tiny updates, always on the CPU."""

    def _claimed(self, device: str) -> str:
        return "cpu"

    def _engine(self, files: Sequence[Path]) -> "_Rows":
        return _Rows(files)

    def _seed_run(self, seed: int) -> SeedRun:
        partition, objective = self._spec.partition, self._spec.objective
        assert isinstance(partition, VerticalPartition)
        assert isinstance(objective, LinearObjective)
        data, counters = self.engine.data, PartyCounters()
        problem = PartyProblem(data, objective)
        model = self._spec.network or NetworkModel()
        network = PartyNetwork(data.train, objective, partition.active, model, counters, seed)
        return SeedRun(problem, network, counters, np.zeros(problem.dimension), seeded=True)


class _Rows(NumpyArrays):
    """What all parties hold; problem and network compute on it."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.data = read_party_shards(files)
