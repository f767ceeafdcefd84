"""Agents with whole samples on directed graphs, without a server."""

from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.counters import GraphCounters
from fedatlas.objectives import ClassificationObjective, LinearObjective
from fedatlas.privacy.exposure import Exposure
from fedatlas.problems.agents import AgentEngine
from fedatlas.problems.decentralised import DecentralisedProblem
from fedatlas.settings import Setting, Trial, read_clients
from fedatlas.shards import ClientSamples
from fedatlas.simulation.graph_network import GraphNetwork
from fedatlas.specs import RunSpec


class DecentralisedSetting(Setting):
    """The same data and graphs for all seeds; "auto" is a GPU for networks where there is one."""

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        """Read the shard into an engine of the device."""
        data, self.data_digest = read_clients(spec, shards)
        self._engine, self.device, self.accelerator = _engine(spec, data, device)
        self.memory = self._engine.memory
        self._states, self._trackers = spec.weights
        self.exposure = Exposure(
            self._engine.fewest_samples, self._engine.dimension, self._states, self._trackers
        )
        self._torch = isinstance(spec.objective, ClassificationObjective)

    @property
    def uses_torch(self) -> bool:
        """See Setting."""
        return self._torch

    def trial(self, seed: int) -> Trial:
        """See Setting."""
        engine, counters = self._engine, GraphCounters()
        problem = DecentralisedProblem(engine, counters)
        network = GraphNetwork(self._states, self._trackers, engine.array, engine.draws, counters)
        return Trial(problem, network, counters, engine.start(seed), engine.samples)

    def array(self, values: np.ndarray) -> Any:
        """See Setting."""
        return self._engine.array(values)

    def numpy(self, array: Any) -> np.ndarray:
        """See Setting."""
        return self._engine.numpy(array)


def _engine(
    spec: RunSpec, data: ClientSamples, device: str
) -> tuple[AgentEngine, str, dict[str, str]]:
    """The engine of the objective, and on what it computes; torch is imported only if it does."""
    if isinstance(spec.objective, LinearObjective):
        from fedatlas.problems.linear_agents import LinearAgents

        return LinearAgents(data, spec.objective), "cpu", {}
    from fedatlas.problems.classifying_agents import ClassifyingAgents
    from fedatlas.problems.torch_device import claimed, gpu_versions

    assert isinstance(spec.objective, ClassificationObjective)
    device = claimed(device, spec.name)
    return ClassifyingAgents(data, spec.objective, device), device, gpu_versions(device)
