"""Workers with whole samples around a server, solving a min–max problem with a network."""

from pathlib import Path

from fedatlas.federations.counters import Counters
from fedatlas.federations.min_max.engine import AucEngine
from fedatlas.federations.setting import Setting, Trial, claimed_for_networks, read_clients
from fedatlas.federations.star_network import StarNetwork
from fedatlas.schema.objectives import AucObjective
from fedatlas.schema.runs import RunSpec


class HorizontalMinMaxSetting(Setting):
    """The same data for all seeds, another network; "auto" is a GPU where there is one."""

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        data, digest = read_clients(spec, shards)
        assert isinstance(spec.objective, AucObjective)
        device = claimed_for_networks(spec, device)
        engine = AucEngine(data, spec.objective, device, rounds=spec.rounds_of_all_seeds)
        super().__init__(spec, engine, device, digest)

    def trial(self, seed: int) -> Trial:
        counters = Counters()
        network = StarNetwork(len(self.engine.workers), counters)
        return Trial(self.engine.counting(counters), network, counters, self.engine.start(seed))
