"""Clients with whole samples around a server."""

from pathlib import Path

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.counters import Counters
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.setting import Setting, Trial, read_clients
from fedatlas.federations.star_network import StarNetwork
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import RunSpec


class HorizontalSetting(Setting):
    """The same data for all seeds; "auto" is the CPU.

    There, compiled loops over sparse rows beat a GPU's launch times.
    """

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        data, digest = read_clients(spec, shards)
        assert isinstance(spec.objective, LinearObjective)
        if device == "auto":
            device = "cpu"
        elif device != "cpu":
            from fedatlas.arithmetic.torch_device import claimed

            device = claimed(device, spec.name)
        engine: HorizontalProblem
        if device == "cpu":
            from fedatlas.federations.horizontal.cpu_engine import CompiledEngine

            engine = CompiledEngine(data, spec.objective)
        else:
            from fedatlas.federations.horizontal.torch_engine import TorchEngine

            engine = TorchEngine(data, spec.objective, device)
        super().__init__(spec, engine, device, digest)

    def trial(self, seed: int) -> Trial:
        counters = Counters()
        problem = self.engine.counting(counters)
        network = StarNetwork(problem.clients, counters)
        return Trial(problem, network, counters, problem.zeros())

    def random(self, seed: int) -> RoundRandom:
        from fedatlas.arithmetic.compiled_randomness import CompiledRandom

        return CompiledRandom(seed)
