"""Clients with whole samples around a server."""

from collections.abc import Sequence
from pathlib import Path

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.client_shards import fewest_samples, read_shard
from fedatlas.federations.counters import Counters
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.setting import FederationContext, SeedRun
from fedatlas.federations.star_network import StarNetwork
from fedatlas.privacy.accountants import PrivacyContext
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import RunSpec


class HorizontalSetting(FederationContext):
    """On "auto" the CPU: there, compiled loops over sparse rows beat a GPU's launch times."""

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        super().__init__(spec, shards, device)
        self._privacy_context = PrivacyContext(
            fewest_samples(self._files.values()), self.engine.dimension
        )

    def _claimed(self, device: str) -> str:
        if device in ("auto", "cpu"):
            return "cpu"
        from fedatlas.arithmetic.torch_device import claimed

        return claimed(device, self._spec.name)

    def _engine(self, files: Sequence[Path]) -> HorizontalProblem:
        (file,) = files
        data, objective = read_shard(file), self._spec.objective
        assert isinstance(objective, LinearObjective)
        if self.device == "cpu":
            from fedatlas.federations.horizontal.cpu_engine import CompiledEngine

            return CompiledEngine(data, objective)
        from fedatlas.federations.horizontal.torch_engine import TorchEngine

        return TorchEngine(data, objective, self.device)

    def _seed_run(self, seed: int) -> SeedRun:
        counters = Counters()
        problem = self.engine.counting(counters)
        network = StarNetwork(problem.clients, counters)
        return SeedRun(problem, network, counters, problem.zeros())

    def random(self, seed: int) -> RoundRandom:
        from fedatlas.arithmetic.kernels.drawing import CompiledRandom

        return CompiledRandom(seed)
