"""Clients with whole samples around a server."""

from pathlib import Path

from fedatlas.counters import Counters
from fedatlas.objectives import LinearObjective
from fedatlas.problems.engine import build_engine
from fedatlas.problems.horizontal import HorizontalProblem
from fedatlas.settings import Trial, read_clients
from fedatlas.settings._engines import EngineSetting
from fedatlas.simulation.network import StarNetwork
from fedatlas.specs import RunSpec


class HorizontalSetting(EngineSetting):
    """The same data for all seeds; "auto" is the CPU.

    There, compiled loops over sparse rows beat a GPU's launch times.
    """

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        """Read the shard into an engine of the device."""
        data, self.data_digest = read_clients(spec, shards)
        assert isinstance(spec.objective, LinearObjective)
        if device == "auto":
            device = "cpu"
        elif device != "cpu":
            from fedatlas.problems.torch_device import claimed

            device = claimed(device, spec.name)
        super().__init__(build_engine(data, spec.objective, device), device)

    def trial(self, seed: int) -> Trial:
        """See Setting."""
        counters = Counters()
        problem = HorizontalProblem(self._engine, counters)
        network = StarNetwork(problem.clients, counters)
        return Trial(problem, network, counters, problem.zeros(), self._engine.samples)
