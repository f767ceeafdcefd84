"""What methods run in: data, arithmetic and network, one folder for each federation.

Each folder has one subclass of Federation and one of FederationContext in its `__init__`, which is
loaded by name, so that a run depends on the code of its own federation only.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.algorithm import Algorithm
from fedatlas.files import text_digest
from fedatlas.privacy.accountants import PrivacyContext
from fedatlas.schema.federation import FEW, Federation, Sizes, Tiny, format_span
from fedatlas.schema.models import only_subclass
from fedatlas.schema.objectives import NetworkObjective
from fedatlas.schema.runs import RunSpec


@dataclass(frozen=True)
class SeedRun:
    """One seed of a run: the oracle and the network, which count, and the start.

    counters: a dataclass of running totals, named as the costs and measurements of a trace.
    x0: where to start: a model (d,), or a tuple of arrays or of such tuples.
    seeded: whether the network draws numbers of its own by the seed.
    """

    problem: Any
    network: Any
    counters: Any
    x0: Any
    seeded: bool = False


@dataclass(frozen=True)
class Privacy:
    """What a method promises of privacy; nothing, by default.

    statement: what its budgets rest on. warnings: conditions of theorems that do not hold.
    spent: "epsilon" and "delta" after each round, (rounds + 1,); empty without a budget.
    """

    statement: str = ""
    warnings: tuple[str, ...] = ()
    spent: Mapping[str, np.ndarray] = field(default_factory=dict)


class FederationContext(ABC):
    """Data and arithmetic of a run; of the partitions that seeds may have, one is held at once.

    engine: of the seed that was tried last; has the array type (`array`, `numpy`).
    device: where the engine computes; linear models on the CPU, as far as `linear_on_gpus` is not.
    shard_digests: of all files that a seed reads, by seed.
    accelerator: model, driver and CUDA of a GPU that computes.
    """

    #: Whether linear models are computed on a GPU that is asked for by its name.
    linear_on_gpus: ClassVar[bool] = False

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        """See `open_context`; a GPU is claimed when all files are found to be whole."""
        from fedatlas.federations.shards import client_sizes, verify_manifest

        self._spec = spec
        self._files: dict[int, list[Path]] = {}
        self.shard_digests: dict[int, str] = {}
        by_slug: dict[str, str] = {}
        for seed in spec.seeds:
            partition = spec.partition.of_seed(seed)
            files = shard_files(shards / partition.slug, partition.silos)
            if partition.slug not in by_slug:
                digests = verify_manifest(files, spec.dataset, spec.split, partition)
                by_slug[partition.slug] = text_digest("".join(digests))
            self._files[seed], self.shard_digests[seed] = files, by_slug[partition.slug]
        self.device = device = _claimed(spec, device, self.linear_on_gpus)
        self._held: list[Path] = []
        self.engine: Any = None
        engine = self._hold(spec.seeds[0])
        self.uses_torch = device != "cpu" or isinstance(spec.objective, NetworkObjective)
        self.accelerator: dict[str, str] = {}
        if device != "cpu":
            from fedatlas.arithmetic.torch_device import gpu_versions

            self.accelerator = gpu_versions(device)
        #: Weights of the graphs, if there are any.
        self._graphs: Any = spec.graph_weights if spec.graphs else ()
        #: What budgets of privacy depend on, where they are recorded.
        self._privacy_context: PrivacyContext | None = None
        if spec.federation.has_budgets:
            fewest = min(
                client_sizes(file).min() for file in {one for (one,) in self._files.values()}
            )
            self._privacy_context = PrivacyContext(int(fewest), engine.dimension, *self._graphs)

    @abstractmethod
    def _engine(self, files: Sequence[Path]) -> Any:
        """The arithmetic over the shards in these files, in the order of their silos."""

    def _network(self, counters: Any) -> Any:  # noqa: B027 parties' seed runs are their own
        """The network of one seed, which counts in these."""

    def _seed_run(self, seed: int) -> SeedRun:
        """A fresh start on the engine."""
        counters = self._spec.federation.counters()
        problem, network = self.engine.counting(counters), self._network(counters)
        return SeedRun(problem, network, counters, self.engine.start(seed))

    def seed_run(self, seed: int) -> SeedRun:
        """A fresh start for one seed; earlier ones must not be used any more."""
        self._hold(seed)
        return self._seed_run(seed)

    def _hold(self, seed: int) -> Any:
        """The engine of the seed's shards, which are read unless they were read last."""
        if self._files[seed] != self._held:
            self.engine = None  # before the next is read: memory holds one
            self.engine, self._held = self._engine(self._files[seed]), self._files[seed]
        return self.engine

    def random(self, seed: int) -> RoundRandom:
        """The random numbers of one seed."""
        return RoundRandom(seed)

    def privacy(self, algorithm: Algorithm, rounds: int) -> Privacy:
        """What the method promises, by its first accounting; a round is an iteration."""
        if self._privacy_context is None:
            return Privacy()
        conditions = algorithm.conditions(self._privacy_context)
        warnings = tuple(str(condition) for condition in conditions if condition.holds is False)
        spent = {}
        for budget in list(algorithm.budgets(self._privacy_context, rounds).values())[:1]:
            spent = {
                "epsilon": np.append(0.0, budget.epsilon),
                "delta": np.append(0.0, budget.delta),
            }
        return Privacy(algorithm.privacy_statement, warnings, spent)


class ClientFederation(Federation):
    """Federations whose clients, workers or agents hold whole samples."""

    partition_kind = "horizontal"
    sharding = "fedatlas.shards.cutting:cut_clients"
    mean_of_clients = True

    @classmethod
    def describe(cls, partitions: Sequence[Any]) -> str:
        holders = format_span((each.clients for each in partitions), cls.holders.removesuffix("s"))
        assignments = dict.fromkeys(each.assignment.replace("_", " ") for each in partitions)
        return f"{holders}, {' or '.join(assignments)}"

    @classmethod
    def read(cls, files: Sequence[Path]) -> Any:
        from fedatlas.federations.shards import read_shard

        (file,) = files
        return read_shard(file)

    @classmethod
    def tiny(cls, partition: Any, hyper_parameters: Mapping[str, Any], sizes: Sizes) -> Tiny:
        changes: dict[str, Any] = {
            "samples": None, "test": None, "seed": None, "binary": None,
            "assignment": "consecutive", "concentration": None,
        }  # fmt: skip
        found = sizes()
        each = max(2, min(int(found.min()), FEW))
        return Tiny(changes, len(found), len(found) * each)


def open_context(spec: RunSpec, shards: Path, device: str) -> FederationContext:
    """Open the context of a run.

    shards: the folder with a folder for each partition, by its slug.
    device: "auto", "cpu", or a torch device such as "cuda", which a context may decline.
    """
    module = importlib.import_module(spec.federation.__module__)
    context: Any = only_subclass(module, FederationContext)
    opened: FederationContext = context(spec, shards, device)
    return opened


def _claimed(spec: RunSpec, device: str, linear_on_gpus: bool) -> str:
    """The device that computes, claimed for this process if it is a GPU."""
    takes_gpus = linear_on_gpus and device != "auto"
    if device == "cpu" or not (takes_gpus or isinstance(spec.objective, NetworkObjective)):
        return "cpu"
    from fedatlas.arithmetic.torch_device import claimed

    return claimed(device, spec.name)


def shard_files(folder: Path, silos: int) -> list[Path]:
    """The shard files of a partition's folder, in the order of its silos."""
    return [folder / f"silo-{number}.parquet" for number in range(silos)]
