"""Workers with whole samples around a server, solving a min–max problem with a network."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedatlas.counters import Counters
from fedatlas.objectives import AucObjective
from fedatlas.problems.auc_engine import AucEngine
from fedatlas.problems.min_max import MinMaxProblem
from fedatlas.problems.torch_device import claimed, gpu_versions
from fedatlas.settings import Setting, Trial, read_clients
from fedatlas.simulation.network import StarNetwork
from fedatlas.specs import RunSpec


class HorizontalMinMaxSetting(Setting):
    """The same data for all seeds, another network; "auto" is a GPU where there is one."""

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        """Read the shard into an engine of the device."""
        data, self.data_digest = read_clients(spec, shards)
        self.device = claimed(device, spec.name)
        self.accelerator = gpu_versions(self.device)
        assert isinstance(spec.objective, AucObjective)
        self._engine = AucEngine(data, spec.objective, self.device)
        self.memory = self._engine.memory

    @property
    def uses_torch(self) -> bool:
        """See Setting."""
        return True

    def trial(self, seed: int) -> Trial:
        """See Setting."""
        counters = Counters()
        problem = MinMaxProblem(self._engine, counters)
        network = StarNetwork(len(problem.workers), counters)
        return Trial(problem, network, counters, self._engine.start(seed), self._engine.samples)

    def array(self, values: np.ndarray) -> torch.Tensor:
        """See Setting."""
        return self._engine.array(values)

    def numpy(self, array: Any) -> np.ndarray:
        """See Setting."""
        values: np.ndarray = array.cpu().numpy()
        return values
