"""Silos with slices of all samples, each shared out to clients around the silo's hub."""

from pathlib import Path

from fedatlas.federations.setting import Setting, Trial, claimed_for_networks, shard_files
from fedatlas.federations.tiered.network import TieredCounters, TieredNetwork
from fedatlas.federations.tiered.problem import TieredProblem
from fedatlas.federations.tiered.shards import TieredSamples, read_tiered_shards
from fedatlas.files import text_digest
from fedatlas.schema.objectives import ClassificationObjective, LinearObjective
from fedatlas.schema.partitions import TieredPartition
from fedatlas.schema.runs import RunSpec
from fedatlas.shards.manifests import vouched_digests


class TieredSetting(Setting):
    """The same data for all seeds; "auto" is a GPU for networks where there is one."""

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        partition = spec.partition
        assert isinstance(partition, TieredPartition)
        files = shard_files(shards / partition.slug, partition.silos)
        digests = vouched_digests(files, spec.dataset, spec.split, partition)
        device = claimed_for_networks(spec, device)
        engine = _engine(spec, read_tiered_shards(files), device)
        super().__init__(spec, engine, device, text_digest("".join(digests)))

    def trial(self, seed: int) -> Trial:
        engine, counters = self.engine, TieredCounters()
        network = TieredNetwork(engine.silos, engine.clients, counters)
        return Trial(engine.counting(counters), network, counters, engine.start(seed))


def _engine(spec: RunSpec, data: TieredSamples, device: str) -> TieredProblem:
    """The engine of the objective; torch is imported only if it computes."""
    if isinstance(spec.objective, LinearObjective):
        from fedatlas.federations.tiered.linear_engine import LinearSilos

        return LinearSilos(data, spec.objective)
    from fedatlas.federations.tiered.network_engine import NetworkSilos

    assert isinstance(spec.objective, ClassificationObjective)
    return NetworkSilos(data, spec.objective, device)
