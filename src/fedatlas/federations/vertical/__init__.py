"""Parties with columns of all samples."""

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.context import FederationContext, SeedRun
from fedatlas.federations.parts import NumpyArrays
from fedatlas.federations.vertical.problem import PartyCounters, PartyProblem
from fedatlas.schema.federation import FEW, Federation, Sizes, Tiny, format_span
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import VerticalPartition

_ROWS = 200  # of a rehearsal


class Vertical(Federation):
    """Parties are simulated: a sequence of tiny updates, each of which takes its time."""

    partition_kind = "vertical"
    objectives = (LinearObjective,)
    sharding = "fedatlas.shards.cutting:cut_parties"
    holders = "parties"
    counters: ClassVar[type[Any]] = PartyCounters
    own_clock = True
    instead: ClassVar[Mapping[str, str]] = {
        "elapsed_time": "its time is simulated: name simulated_time, or say 'backend: processes'"
    }
    moves = ("dominated_updates", "barrier", "full_pass", "distribute", "settled", "start")
    needed = ("dominated_updates",)
    silent = "parties update nothing: call network.dominated_updates"

    @classmethod
    def check_columns(cls, partition: Any, shape: tuple[int, ...]) -> None:
        if partition.parties > prod(shape):
            raise FedatlasError(
                f"the partition asks for {partition.parties} parties, but samples have only "
                f"{prod(shape)} features, and each party needs one"
            )

    @classmethod
    def describe(cls, partitions: Sequence[Any]) -> str:
        parties = format_span((each.parties for each in partitions), "party", "parties")
        return f"{parties}, {format_span(each.active for each in partitions)} with labels"

    @classmethod
    def read(cls, files: Sequence[Path]) -> Any:
        from fedatlas.federations.vertical.shards import read_party_shards

        return read_party_shards(files)

    @classmethod
    def tiny(cls, partition: Any, hyper_parameters: Mapping[str, Any], sizes: Sizes) -> Tiny:
        """Ask for as many rows as rounds in an epoch: methods refuse fewer."""
        changes = {"samples": None, "test": None, "standardise": False, "seed": 0}
        rows = max(_ROWS, int(hyper_parameters.get("rounds_per_epoch", 1)))
        return Tiny(changes, 1, rows, max(FEW, 2 * partition.parties))


class VerticalContext(FederationContext):
    """A sequence of tiny updates, always on the CPU."""

    def _claimed(self, device: str) -> str:
        return "cpu"

    def _engine(self, files: Sequence[Path]) -> "_Rows":
        return _Rows(files)

    def _seed_run(self, seed: int) -> SeedRun:
        from fedatlas.federations.vertical.network import PartyNetwork

        partition, objective = self._spec.partition, self._spec.objective
        assert isinstance(partition, VerticalPartition)
        assert isinstance(objective, LinearObjective)
        data, counters = self.engine.data, PartyCounters()
        problem = PartyProblem(data, objective)
        model = self._spec.network or NetworkModel()
        network = PartyNetwork(data.train, objective, partition.active, model, counters, seed)
        return SeedRun(problem, network, counters, np.zeros(problem.dimension), seeded=True)


class _Rows(NumpyArrays):
    """The rows of all parties; problem and network compute on them."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.data = Vertical.read(files)
