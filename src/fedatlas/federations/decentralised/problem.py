"""Finite sums over agents: the oracle that methods on graphs ask.

F(x) = 1/n Σ_i f_i(x), f_i the mean over agent i's samples (DP-GT eq. 2). Every agent has a point of
its own: points, and gradients, are (n, d), a row for each agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedatlas.arithmetic.clipping import Clipping
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised.network import GraphCounters

if TYPE_CHECKING:  # the workflow imports algorithms when it is parsed: keep compilers out of that
    from fedatlas.arithmetic.minibatches import Minibatches
    from fedatlas.federations.decentralised.engine import AgentEngine


class GraphProblem:
    """The counting oracle.

    agents: n. dimension: d. samples: D, of the agent that has the fewest.
    """

    def __init__(self, engine: AgentEngine, counters: GraphCounters) -> None:
        self._engine = engine
        self._counters = counters
        self.agents = engine.agents
        self.dimension = engine.dimension
        self.samples = engine.fewest_samples

    def minibatches(self, random: RoundRandom, size: int) -> Minibatches:
        """Draw, for each agent, `size` of its samples uniformly without replacement."""
        if size > self.samples:
            raise FedatlasError(
                f"{size} distinct samples cannot be drawn at every iteration: an agent has only "
                f"{self.samples}; lower the number of samples, or the number of agents"
            )
        return self._engine.minibatches(random, size)

    def first_samples(self, size: int) -> Minibatches:
        """Each agent's first `size` samples, or all that it has: those that arrived so far."""
        return self._engine.first_samples(size)

    def gradients(self, points: Any, batch: Minibatches, clipping: Clipping | None) -> Any:
        """∇f_i over each agent's minibatch at its own point, (n, d); clipped sample by sample."""
        self._counters.count_gradients(batch)
        self._counters.iteration += batch.steps
        return self._engine.gradients(points, batch, clipping)

    def measure(self, points: Any) -> dict[str, float]:
        """Every measurement, over all training and test samples; never counted."""
        return self._engine.measure(points)
