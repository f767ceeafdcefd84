"""The interface to methods' surroundings: data, arithmetic and network of each federation.

Each folder has one subclass of Federation in its `__init__`, which is loaded by name, so that a run
depends on the code of its own federation only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.algorithm import Algorithm
from fedatlas.files import text_digest
from fedatlas.privacy.accountants import PrivacyContext
from fedatlas.schema.federation import FEW, Federation, Sizes, Tiny, format_span
from fedatlas.schema.network_model import StarNetworkModel
from fedatlas.schema.objectives import LinearObjective, NetworkObjective
from fedatlas.schema.runs import RunSpec


@dataclass(frozen=True)
class SeedRun:
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
    """The privacy that a method promises; none by default.

    statement: what its budgets rest on. warnings: conditions of theorems that do not hold.
    spent: "epsilon" and "delta" after each round, (rounds + 1,); empty without a budget.
    """

    statement: str = ""
    warnings: tuple[str, ...] = ()
    spent: Mapping[str, np.ndarray] = field(default_factory=dict)


class FederationContext:
    """Data and arithmetic of a run; of the partitions that seeds may have, one is held at once.

    engine: of the seed that was tried last; has the array type (`array`, `numpy`).
    device: where the engine computes.
    shard_digests: of all files that a seed reads, by seed.
    accelerator: model, driver and CUDA of a GPU that computes.
    """

    def __init__(self, spec: RunSpec, shards: Path, device: str) -> None:
        """Open the shards of a run; a GPU is claimed when all files are found to be whole.

        shards: the folder with a folder for each partition, by its slug.
        device: "auto", "cpu", or a torch device such as "cuda", which a federation may decline.
        """
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
        self.device = device = _claimed(spec, device)
        self._held: list[Path] = []
        self.engine: Any = None
        engine = self._hold(spec.seeds[0])
        self.uses_torch = device != "cpu" or isinstance(spec.objective, NetworkObjective)
        self.accelerator: dict[str, str] = {}
        if device != "cpu":
            from fedatlas.arithmetic.torch_device import gpu_versions

            self.accelerator = gpu_versions(device)
        #: What budgets of privacy depend on, where they are recorded.
        self._privacy_context: PrivacyContext | None = None
        if spec.federation.has_budgets:
            fewest = min(
                client_sizes(file).min() for file in {one for (one,) in self._files.values()}
            )
            sizes = int(fewest), engine.dimension
            self._privacy_context = PrivacyContext(*sizes, *spec.graph_weights, engine.clients)

    def seed_run(self, seed: int) -> SeedRun:
        """A fresh start for one seed; earlier ones must not be used any more."""
        engine, kind = self._hold(seed), self._spec.federation
        counters = kind.counters_of(self._spec.network)()
        network = kind.network(self._spec, engine, counters, seed)
        return SeedRun(engine.counting(counters), network, counters, engine.start(seed))

    def _hold(self, seed: int) -> Any:
        """The engine of the seed's shards, which are read unless they were read last."""
        if self._files[seed] != self._held:
            self.engine = None  # before the next is read: memory holds one
            files, kind = self._files[seed], self._spec.federation
            self.engine, self._held = kind.engine(self._spec, files, self.device), files
        return self.engine

    def random(self, seed: int) -> RoundRandom:
        """The random numbers of one seed."""
        if not self._spec.federation.compiled_draws:
            return RoundRandom(seed)
        from fedatlas.arithmetic.kernels.drawing import CompiledRandom

        return CompiledRandom(seed)

    def privacy(self, algorithm: Algorithm, rounds: int) -> Privacy:
        """What the method promises, by its first accounting; a round is an iteration."""
        if self._privacy_context is None:
            return Privacy()
        conditions = algorithm.conditions(self._privacy_context)
        warnings = tuple(str(condition) for condition in conditions if condition.holds is False)
        spent = {}
        if budgets := algorithm.budgets(self._privacy_context, rounds):
            first = next(iter(budgets.values()))
            spent = {name: np.append(0.0, getattr(first, name)) for name in ("epsilon", "delta")}
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
            "samples": None, "test": None, "seed": None, "binary": None, **partition.plain
        }  # fmt: skip
        found = sizes()
        each = max(2, min(int(found.min()), FEW))
        return Tiny(changes, len(found), len(found) * each)


def _claimed(spec: RunSpec, device: str) -> str:
    """The device that computes, claimed for this process if it is a GPU."""
    objective, asked = spec.objective, device != "auto" and spec.federation.linear_on_gpus
    takes_gpus = asked and isinstance(objective, LinearObjective) and objective.on_gpus
    if device == "cpu" or not (takes_gpus or isinstance(objective, NetworkObjective)):
        return "cpu"
    from fedatlas.arithmetic.torch_device import claimed

    return claimed(device, spec.name)


def timed(
    network: Any, counters: Any, spec: RunSpec, seed: int, nodes: int, *, down: Sequence[str] = (),
    share: float = 1.0,
) -> Any:  # fmt: skip
    """The network as it is or, of a run that states one, with the time of its exchanges.

    nodes: how many compute. down: calls that carry to workers or clients. share: of the bytes of
    the busiest node, those on its busiest link.
    """
    if spec.network is None:
        return network
    from fedatlas.federations.times import ClientTimes, TimedExchanges

    assert isinstance(spec.network, StarNetworkModel)
    times = ClientTimes(spec.network, nodes, seed)
    return TimedExchanges(network, counters, times, down, share)


def shard_files(folder: Path, silos: int) -> list[Path]:
    """The shard files of a partition's folder, in the order of its silos."""
    return [folder / f"silo-{number}.parquet" for number in range(silos)]
