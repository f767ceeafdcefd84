"""What methods run in: data, arithmetic and network, one module for each kind of partition.

`horizontal.py`, `vertical.py`: each has one subclass of Setting. They are loaded by name, so that a
run depends on the code of its own kind only.
"""

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.closure import setting_module
from fedatlas.specs import RunSpec


@dataclass(frozen=True)
class Trial:
    """What one seed of a run has of its own: an oracle and a network that count, and the start.

    counters: a dataclass of running totals, named as the costs and measurements of a trace.
    samples: training samples, by which epochs are counted.
    """

    problem: Any
    network: Any
    counters: Any
    x0: Any
    samples: int


class Setting(ABC):
    """Data and arithmetic of a run.

    device: where it computes. data_digest: of all files that it reads.
    """

    device: str
    data_digest: str

    @abstractmethod
    def __init__(self, spec: RunSpec, shards: Path, optima: Path | None, device: str) -> None:
        """Find the run's files; see `open_setting`."""

    @abstractmethod
    def trial(self, seed: int) -> Trial:
        """A fresh start for one seed."""

    @abstractmethod
    def array(self, values: np.ndarray) -> Any:
        """The values in the setting's own array type."""

    @abstractmethod
    def numpy(self, array: Any) -> np.ndarray:
        """The values as numpy; waits for the device."""


def open_setting(spec: RunSpec, shards: Path, optima: Path | None, device: str) -> Setting:
    """The setting of a run.

    shards: the folder with a folder for each partition, by its slug; optima: the same for optima.
    device: "auto", "cpu", or a torch device such as "cuda", which a setting may decline.
    """
    module = importlib.import_module(setting_module(spec.partition.kind))
    (setting,) = (
        member
        for member in vars(module).values()
        if isinstance(member, type) and member.__module__ == module.__name__
    )
    return setting(spec, shards, optima, device)


def shard_files(folder: Path, silos: int) -> list[Path]:
    """The shard files of a partition's folder, in the order of its silos."""
    return [folder / f"silo-{number}.parquet" for number in range(silos)]
