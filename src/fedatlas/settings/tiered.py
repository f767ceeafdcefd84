"""Silos with slices of all samples, each shared out to clients around the silo's hub."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedatlas.counters import TieredCounters
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest, text_digest
from fedatlas.objectives import ClassificationObjective
from fedatlas.partition import TieredPartition
from fedatlas.problems.silos import TieredEngine
from fedatlas.problems.tiered import TieredProblem
from fedatlas.problems.torch_device import chosen
from fedatlas.settings import Setting, Trial, shard_files
from fedatlas.simulation.tiers import TieredNetwork
from fedatlas.specs import RunSpec
from fedatlas.tiered_shards import read_tiered_shards


class TieredSetting(Setting):
    """The same data for all seeds, other networks; "auto" is a GPU where there is one."""

    def __init__(self, spec: RunSpec, shards: Path, optima: Path | None, device: str) -> None:
        """Read all silos' files into an engine of the device."""
        partition, objective = spec.partition, spec.objective
        assert isinstance(partition, TieredPartition)
        assert isinstance(objective, ClassificationObjective)
        files = shard_files(shards / partition.slug, partition.silos)
        self.device = chosen(device)
        data = read_tiered_shards(files)
        if data.metadata["partition"] != partition.model_dump(mode="json"):
            raise FedatlasError(
                f"{files[0].parent}: holds the shards of another partition than that of "
                f"{spec.name}. Delete it and run again."
            )
        self._engine = TieredEngine(data, objective, self.device)
        self.data_digest = text_digest("".join(file_digest(file) for file in files))

    @property
    def uses_torch(self) -> bool:
        """See Setting."""
        return True

    def trial(self, seed: int) -> Trial:
        """See Setting."""
        engine, counters = self._engine, TieredCounters()
        problem = TieredProblem(engine, counters)
        network = TieredNetwork(engine.silos, engine.clients, counters)
        return Trial(problem, network, counters, engine.start(seed), engine.samples)

    def array(self, values: np.ndarray) -> torch.Tensor:
        """See Setting."""
        return self._engine.array(values)

    def numpy(self, array: Any) -> np.ndarray:
        """See Setting."""
        values: np.ndarray = array.cpu().numpy()
        return values
