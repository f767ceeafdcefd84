"""Parties with columns of all samples."""

from pathlib import Path

import numpy as np

from fedatlas.federations.engine import NumpyArrays
from fedatlas.federations.setting import Setting, Trial, shard_files
from fedatlas.federations.vertical.network import PartyCounters, PartyNetwork
from fedatlas.federations.vertical.problem import PartyProblem
from fedatlas.federations.vertical.shards import PartySamples, read_party_shards
from fedatlas.files import text_digest
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import VerticalPartition
from fedatlas.schema.runs import RunSpec
from fedatlas.shards.manifests import vouched_digests


class VerticalSetting(Setting):
    """Every seed may have a partition of its own; a sequence of tiny updates, always on the CPU."""

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        partition = spec.partition
        assert isinstance(partition, VerticalPartition)
        assert isinstance(spec.objective, LinearObjective)
        self._model, self._objective = spec.network or NetworkModel(), spec.objective
        self._partitions = {seed: partition.of_trial(seed) for seed in spec.seeds}
        self._files = {}
        digests = []
        for part in {part.slug: part for part in self._partitions.values()}.values():
            files = shard_files(shards / part.slug, part.silos)
            digests += vouched_digests(files, spec.dataset, spec.split, part)
            self._files[part.slug] = files
        super().__init__(spec, NumpyArrays(), "cpu", text_digest("".join(sorted(digests))))
        self._read: tuple[str, PartySamples] | None = None

    def trial(self, seed: int) -> Trial:
        partition, counters = self._partitions[seed], PartyCounters()
        data = self._samples(partition)
        problem = PartyProblem(data, self._objective)
        network = PartyNetwork(
            data.train, self._objective, partition.active, self._model, counters, seed
        )
        return Trial(problem, network, counters, np.zeros(problem.dimension))

    def _samples(self, partition: VerticalPartition) -> PartySamples:
        """Read the parties' files unless they are the last that were read."""
        if self._read is None or self._read[0] != partition.slug:
            self._read = partition.slug, read_party_shards(self._files[partition.slug])
        return self._read[1]
