"""Parties with columns of all samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.parts import by_column, linear_model
from fedatlas.federations.vertical.problem import PartyCounters, PartyProblem, UpdateRule
from fedatlas.schema.federation import FEW, Assembled, Federation, Sizes, Tiny, format_span
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import RunSpec

if TYPE_CHECKING:  # the workflow imports federations when it is parsed: keep compilers out of that
    from fedatlas.federations.vertical.network import PartyNetwork, PartyState

_ROWS = 200  # of a rehearsal


class Vertical(Federation):
    """Parties are simulated: a sequence of tiny updates, each of which takes its time."""

    partition_kind = "vertical"
    objectives = (LinearObjective,)
    sharding = "fedatlas.shards.cutting:cut_parties"
    holders = "parties"
    counters: ClassVar[type[Any]] = PartyCounters
    own_clock = True
    network_model = NetworkModel
    draws_by_seed = True
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
        changes |= partition.plain
        rows = max(_ROWS, int(hyper_parameters.get("rounds_per_epoch", 1)))
        return Tiny(changes, 1, rows, max(FEW, 2 * partition.parties))

    @classmethod
    def engine(cls, spec: Any, files: Sequence[Path], device: str) -> PartyProblem:
        """A sequence of tiny updates, always on the CPU."""
        return PartyProblem(cls.read(files), spec.objective)

    @classmethod
    def assembled(
        cls, spec: Any, engine: Any, point: Any, shards: Sequence[Any], shape: tuple[int, ...]
    ) -> Assembled:
        """All parties' blocks; mean and scale of columns that parties standardise."""
        weights = by_column(point, shards)
        if not spec.partition.standardise:
            return linear_model(spec, weights)
        scaling = {
            key: by_column(np.concatenate([shard["scaling"][key] for shard in shards]), shards)
            for key in ("mean", "scale")
        }
        own = {key: numbers[: prod(shape)].tolist() for key, numbers in scaling.items()}
        return linear_model(spec, weights, standardised=own)

    @classmethod
    def network(cls, spec: Any, engine: Any, counters: Any, seed: int) -> Any:
        from fedatlas.federations.vertical.network import PartyNetwork

        model, active = spec.network or NetworkModel(), spec.partition.active
        return PartyNetwork(engine.rows, engine.objective, active, model, counters, seed)


class VerticalAlgorithm(Algorithm):
    """Parties with blocks of columns, updated one sample at a time.

    The problem is a PartyProblem, the network a PartyNetwork, the state its PartyState. A round
    is the time between two records: 1/rounds_per_epoch of n dominated updates. Nothing waits at its
    end.

    step_size: γ. synchronous: a barrier whenever each dominator has made one update, the paper's
    "VFB". rounds_per_epoch: how many records an epoch of n dominated updates may have.
    """

    federation: ClassVar[type[Federation]] = Vertical

    step_size: PositiveFloat
    synchronous: bool = False
    rounds_per_epoch: PositiveInt = 10

    @property
    @abstractmethod
    def rule(self) -> UpdateRule:
        """The update that the network makes with every sample."""

    def start(self, problem: PartyProblem, network: PartyNetwork, x0: np.ndarray) -> PartyState:
        """w⁰."""
        return network.start(x0)

    @property
    def effective_step_size(self) -> float:
        """γ."""
        return self.step_size

    def point(self, state: PartyState, network: PartyNetwork) -> np.ndarray:
        """All blocks, after every update that is due."""
        return network.settled(state, self.rule)

    def round(
        self, state: PartyState, problem: PartyProblem, network: PartyNetwork, random: RoundRandom
    ) -> PartyState:
        """Dominated updates on samples drawn uniformly, with replacement."""
        n, rounds, decided = problem.samples, self.rounds_per_epoch, state.dominated_updates
        if rounds > n:
            raise FedatlasError(
                f"'rounds_per_epoch' is {rounds}, but there are only {n} training samples; lower it"
            )
        number = -(-decided * rounds // n)
        samples = random.indices(n, self._last(number, n) - decided)
        # Dominators that have begun when the round ends know samples of those that follow.
        known = decided + len(samples)
        wanted = min(known + network.looks_ahead, self.next_barrier(decided, n))
        ahead = [samples[:0]]
        while known < wanted:
            number += 1
            size = int(min(self._last(number, n), wanted)) - known
            ahead.append(random.at(number).indices(n, size))
            known += size
        return network.dominated_updates(state, self.rule, samples, np.concatenate(ahead))

    def check_run(self, spec: RunSpec) -> None:
        """Processes keep no memory of blocks between rounds."""
        if spec.backend == "processes" and self.rule.step is not None:
            raise FedatlasError(
                f"{self.title} moves blocks by '{self.rule.step.move.__name__}', a function of its "
                "own, which parties that are processes do not run: remove 'backend: processes'"
            )

    def next_barrier(self, decided: int, samples: int) -> float:
        """After how many dominated updates, more than `decided`, no dominator goes on at once."""
        return inf

    def _last(self, number: int, samples: int) -> int:
        """Dominated updates by the end of a round: rounds_per_epoch rounds make n, exactly."""
        return samples * (number + 1) // self.rounds_per_epoch
