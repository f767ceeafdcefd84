"""Workers with whole samples around a server, solving a min–max problem with a network."""

from collections.abc import Sequence
from pathlib import Path

from fedatlas.federations.client_shards import read_shard
from fedatlas.federations.counters import Counters
from fedatlas.federations.min_max.engine import AucEngine
from fedatlas.federations.setting import FederationContext, SeedRun
from fedatlas.federations.star_network import StarNetwork
from fedatlas.schema.objectives import AucObjective


class HorizontalMinMaxSetting(FederationContext):
    """Every seed has another network; "auto" is a GPU where there is one."""

    def _engine(self, files: Sequence[Path]) -> AucEngine:
        (file,) = files
        objective = self._spec.objective
        assert isinstance(objective, AucObjective)
        rounds = self._spec.rounds_of_all_seeds
        return AucEngine(read_shard(file), objective, self.device, rounds=rounds)

    def _seed_run(self, seed: int) -> SeedRun:
        counters = Counters()
        network = StarNetwork(len(self.engine.workers), counters)
        return SeedRun(self.engine.counting(counters), network, counters, self.engine.start(seed))
