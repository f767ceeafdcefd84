"""Finite sums over agents: the oracle that methods on graphs ask.

F(x) = 1/n Σ_i f_i(x), f_i the mean over agent i's samples (DP-GT eq. 2). Every agent has a point of
its own: points, and gradients, are (n, d), a row for each agent.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from fedatlas.arithmetic.minibatches import Minibatches, draw
from fedatlas.arithmetic.randomness import Draws, MinibatchSampler, RoundRandom
from fedatlas.arithmetic.samples import Clipping
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised.network import GraphCounters
from fedatlas.federations.engine import FederatedEngine

if TYPE_CHECKING:  # the workflow imports algorithms when it is parsed: keep libraries out of that
    from fedatlas.federations.client_shards import ClientSamples


class GraphProblem(FederatedEngine):
    """The counting oracle; a subclass computes.

    agents: n. dimension: d. fewest_samples: D, of the agent that has the fewest.
    draws: random numbers for its array type.
    """

    draws: Draws
    dimension: int

    def __init__(self, data: ClientSamples, drawing: MinibatchSampler) -> None:
        """Keep the layout of the rows, ordered by agent, and how minibatches are drawn."""
        self._counters = GraphCounters()
        self.agents, self.samples = data.clients, len(data.samples)
        self.fewest_samples = int(np.diff(data.offsets).min())
        self._offsets, self._drawing = data.offsets, drawing
        self._everyone = np.arange(data.clients)

    def minibatches(self, random: RoundRandom, size: int) -> Minibatches:
        """Draw, for each agent, `size` of its samples uniformly without replacement.

        On the CPU, so that devices see the same samples.
        """
        if size > self.fewest_samples:
            raise FedatlasError(
                f"{size} distinct samples cannot be drawn at every iteration: an agent has only "
                f"{self.fewest_samples}; lower the number of samples, or the number of agents"
            )
        return draw(self._drawing, random, self._offsets, self._everyone, size, 1)

    def first_samples(self, size: int) -> Minibatches:
        """Each agent's first `size` samples, or all that it has: those that arrived so far."""
        sizes = np.minimum(np.diff(self._offsets), size)
        return Minibatches.of_first_rows(self._offsets[:-1], sizes)

    def gradients(self, points: Any, batch: Minibatches, clipping: Clipping | None) -> Any:
        """∇f_i over each agent's minibatch at its own point, (n, d); clipped sample by sample."""
        self._counters.count_gradients(batch)
        self._counters.iteration += batch.steps
        return self._gradients(points, batch, clipping)

    @abstractmethod
    def _gradients(self, points: Any, batch: Minibatches, clipping: Clipping | None) -> Any: ...

    @abstractmethod
    def start(self, seed: int) -> Any:
        """Where all agents start, one point for all of them, (n, d)."""
