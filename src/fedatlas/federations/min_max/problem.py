"""Federated min–max problems over networks: the oracle that min–max algorithms ask.

min over θ, max over w of F(θ, w) = 1/N Σ_i F_i(θ, w) (FMGDA eq. 6), all N workers taking part. For
AUC maximisation θ = (m, a, b), the network's parameters and two numbers, and w is one number.
Points are θ (d,) and w (1,) or, one per worker, (N, d) and (N, 1).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedatlas.arithmetic.minibatches import Minibatches, loop_for
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.parts import ClientEngine, Counters

if TYPE_CHECKING:  # the workflow imports algorithms when it is parsed: keep libraries out of that
    import torch

    from fedatlas.federations.shards import ClientSamples


class PrimalDual(NamedTuple):
    """A point, or a gradient: θ and w."""

    theta: Any
    w: Any


class MinMaxProblem(ClientEngine):
    """The counting oracle; a subclass computes."""

    def __init__(self, data: ClientSamples, rounds: int) -> None:
        """rounds: how many there will be, of all seeds."""
        super().__init__(data, Counters(), loop_for(rounds * data.clients))
        self.workers = np.arange(data.clients)

    def copies(self, array: torch.Tensor) -> torch.Tensor:
        """A row for each worker, (N, …), of an array that all share."""
        rows: torch.Tensor = self.repeated(array, self.clients)
        return rows

    def worker_zeros(self, like: torch.Tensor) -> torch.Tensor:
        """Zeros for each worker, shaped as `like`, (N, …)."""
        return self.copies(like).clone().zero_()

    def minibatches(self, random: RoundRandom, size: int | None, steps: int = 1) -> Minibatches:
        """Draw, for each worker and step, `size` distinct samples, or all; see `ClientEngine`."""
        return self._drawn(random, self.workers, size, steps)

    def gradients(self, theta: torch.Tensor, w: torch.Tensor, batch: Minibatches) -> PrimalDual:
        """∇_θ f_i (N, d) and ∇_w f_i (N, 1) over each worker's minibatch of one step."""
        batch.require_one_step("problem.gradients")
        self._counters.count_gradients(batch)
        return self._gradients(theta, w, batch)

    @abstractmethod
    def _gradients(
        self, theta: torch.Tensor, w: torch.Tensor, batch: Minibatches
    ) -> PrimalDual: ...

    def step_done(self) -> None:
        """Count one sequential step, whatever gradients it took."""
        self._counters.iteration += 1

    @abstractmethod
    def class_means(
        self, theta: torch.Tensor, batch: Minibatches
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean scores of the negatives and of the positives of each worker's minibatch, (N, 1).

        Forward passes only; NaN where a worker's minibatch, of one step, lacks the class.
        """
