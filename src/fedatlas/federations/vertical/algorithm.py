"""Shared by all methods over parties with columns."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.vertical import Vertical
from fedatlas.federations.vertical.problem import PartyProblem, UpdateRule
from fedatlas.schema.federation import Federation
from fedatlas.schema.runs import RunSpec

if TYPE_CHECKING:  # the workflow imports algorithms when it is parsed: keep compilers out of that
    from fedatlas.federations.vertical.network import PartyNetwork, PartyState


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
        return math.inf

    def _last(self, number: int, samples: int) -> int:
        """Dominated updates by the end of a round: rounds_per_epoch rounds make n, exactly."""
        return samples * (number + 1) // self.rounds_per_epoch


def full_pass(
    state: PartyState, rule: UpdateRule, problem: PartyProblem, network: PartyNetwork
) -> PartyState:
    """ϑ of all samples at the present model, given to all parties, who form 1/n Σ_i ϑ_i x_{i,ℓ}.

    Behind a barrier: the parties need one common model (our reading; the paper shows none).
    """
    return network.full_pass(state, rule, problem)
