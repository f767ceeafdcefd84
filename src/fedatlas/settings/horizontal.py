"""Clients with whole samples around a server."""

from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.counters import Counters
from fedatlas.objectives import LinearObjective
from fedatlas.problems.engine import build_engine
from fedatlas.problems.horizontal import HorizontalProblem
from fedatlas.settings import Setting, Trial, read_clients
from fedatlas.simulation.network import StarNetwork
from fedatlas.specs import RunSpec


class HorizontalSetting(Setting):
    """The same data for all seeds; "auto" is the CPU.

    There, compiled loops over sparse rows beat a GPU's launch times.
    """

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        """Read the shard into an engine of the device."""
        data, self.data_digest = read_clients(spec, shards)
        self.device = "cpu"
        if device not in ("auto", "cpu"):
            from fedatlas.problems.torch_device import claimed, gpu_versions

            self.device = claimed(device, spec.name)
            self.accelerator = gpu_versions(self.device)
        assert isinstance(spec.objective, LinearObjective)
        self._engine = build_engine(data, spec.objective, self.device)
        self.memory = self._engine.memory

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
