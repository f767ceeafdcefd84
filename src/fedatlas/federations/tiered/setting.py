"""Silos with slices of all samples, each shared out to clients around the silo's hub."""

from collections.abc import Sequence
from pathlib import Path

from fedatlas.federations.setting import FederationContext, SeedRun
from fedatlas.federations.tiered.network import TieredCounters, TieredNetwork
from fedatlas.federations.tiered.problem import TieredProblem
from fedatlas.federations.tiered.shards import TieredSamples, read_tiered_shards
from fedatlas.schema.objectives import ClassificationObjective, LinearObjective
from fedatlas.schema.runs import RunSpec


class TieredSetting(FederationContext):
    """On "auto" a GPU for networks where there is one."""

    def _engine(self, files: Sequence[Path]) -> TieredProblem:
        return _engine(self._spec, read_tiered_shards(files), self.device)

    def _seed_run(self, seed: int) -> SeedRun:
        engine, counters = self.engine, TieredCounters()
        network = TieredNetwork(engine.clients, counters)
        return SeedRun(engine.counting(counters), network, counters, engine.start(seed))


def _engine(spec: RunSpec, data: TieredSamples, device: str) -> TieredProblem:
    """The engine of the objective; torch is imported only if it computes."""
    if isinstance(spec.objective, LinearObjective):
        from fedatlas.federations.tiered.linear_engine import LinearSilos

        return LinearSilos(data, spec.objective)
    from fedatlas.federations.tiered.network_engine import NetworkSilos

    assert isinstance(spec.objective, ClassificationObjective)
    return NetworkSilos(data, spec.objective, device)
