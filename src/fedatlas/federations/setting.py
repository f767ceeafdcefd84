"""What methods run in: data, arithmetic and network, one folder for each federation.

`setting.py` in each folder has one subclass of Setting. It is loaded by name, so that a run depends
on the code of its own federation only.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.client_shards import ClientSamples, read_shard
from fedatlas.schema.models import only_subclass
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.runs import RunSpec
from fedatlas.shards.manifests import vouched_digests


@dataclass(frozen=True)
class Trial:
    """One seed of a run: the oracle and the network, which count, and the start.

    counters: a dataclass of running totals, named as the costs and measurements of a trace.
    x0: where to start: a model (d,), or a tuple of arrays or of such tuples.
    """

    problem: Any
    network: Any
    counters: Any
    x0: Any


@dataclass(frozen=True)
class Privacy:
    """What a method promises of privacy; nothing, by default.

    statement: what its budgets rest on. warnings: conditions of theorems that do not hold.
    spent: "epsilon" and "delta" after each round, (rounds + 1,); empty without a budget.
    """

    statement: str = ""
    warnings: tuple[str, ...] = ()
    spent: Mapping[str, np.ndarray] = field(default_factory=dict)


class Setting(ABC):
    """Data and arithmetic of a run; a subclass finds its files, see `open_setting`.

    engine: has the array type (`array`, `numpy`) and `memory`, what ran out of it.
    device: where the engine computes. data_digest: of all files that are read.
    accelerator: model, driver and CUDA of a GPU that computes.
    """

    def __init__(self, spec: RunSpec, engine: Any, device: str, data_digest: str) -> None:
        """device: claimed if it is a GPU."""
        self.engine, self.device, self.data_digest = engine, device, data_digest
        self.uses_torch = device != "cpu" or not isinstance(spec.objective, LinearObjective)
        self.accelerator: dict[str, str] = {}
        if device != "cpu":
            from fedatlas.arithmetic.torch_device import gpu_versions

            self.accelerator = gpu_versions(device)

    @abstractmethod
    def trial(self, seed: int) -> Trial:
        """A fresh start for one seed."""

    def random(self, seed: int) -> RoundRandom:
        """The random numbers of one seed."""
        return RoundRandom(seed)

    def privacy(self, algorithm: Algorithm, rounds: int) -> Privacy:
        """What the method promises in this setting."""
        return Privacy()


def open_setting(spec: RunSpec, shards: Path, device: str) -> Setting:
    """The setting of a run.

    shards: the folder with a folder for each partition, by its slug.
    device: "auto", "cpu", or a torch device such as "cuda", which a setting may decline.
    """
    module = importlib.import_module(f"fedatlas.federations.{spec.federation}.setting")
    setting: Any = only_subclass(module, Setting)
    opened: Setting = setting(spec, shards, device)
    return opened


def claimed_for_networks(spec: RunSpec, device: str) -> str:
    """The device, claimed for this process; linear models always use the CPU, without torch."""
    if isinstance(spec.objective, LinearObjective):
        return "cpu"
    from fedatlas.arithmetic.torch_device import claimed

    return claimed(device, spec.name)


def read_clients(spec: RunSpec, shards: Path) -> tuple[ClientSamples, str]:
    """The samples of a horizontal run and the digest of their file."""
    partition = spec.partition
    assert isinstance(partition, HorizontalPartition)
    files = shard_files(shards / partition.slug, partition.silos)
    (digest,) = vouched_digests(files, spec.dataset, spec.split, partition)
    (path,) = files
    return read_shard(path), digest


def shard_files(folder: Path, silos: int) -> list[Path]:
    """The shard files of a partition's folder, in the order of its silos."""
    return [folder / f"silo-{number}.parquet" for number in range(silos)]
