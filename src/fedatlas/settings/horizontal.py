"""Clients with whole samples around a server."""

from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.counters import Counters
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest
from fedatlas.partition import HorizontalPartition
from fedatlas.problems.engine import build_engine
from fedatlas.problems.horizontal import HorizontalProblem
from fedatlas.settings import Setting, Trial, shard_files
from fedatlas.shards import read_shard
from fedatlas.simulation.network import StarNetwork
from fedatlas.specs import RunSpec


class HorizontalSetting(Setting):
    """The same data for all seeds; "auto" is the CPU.

    There, compiled loops over sparse rows beat a GPU's launch times.
    """

    def __init__(self, spec: RunSpec, shards: Path, optima: Path | None, device: str) -> None:
        """Read the shard into an engine of the device."""
        partition = spec.partition
        assert isinstance(partition, HorizontalPartition)
        (path,) = shard_files(shards / partition.slug, partition.silos)
        data = read_shard(path)
        if data.clients != partition.clients:
            raise FedatlasError(
                f"{path}: holds {data.clients} clients, but {spec.name} expects "
                f"{partition.clients}. Delete it and run again."
            )
        self.device = "cpu" if device == "auto" else device
        self.data_digest = file_digest(path)
        self._engine = build_engine(data, spec.objective, self.device)

    def trial(self, seed: int) -> Trial:
        """See Setting."""
        counters = Counters()
        problem = HorizontalProblem(self._engine, counters)
        network = StarNetwork(problem.clients, counters)
        return Trial(problem, network, counters, problem.zeros(), self._engine.samples)

    def array(self, values: np.ndarray) -> Any:
        """See Setting."""
        return self._engine.array(values)

    def numpy(self, array: Any) -> np.ndarray:
        """See Setting."""
        return self._engine.numpy(array)
