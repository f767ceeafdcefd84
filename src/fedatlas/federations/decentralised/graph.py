"""Agents on directed graphs, without a server: links that carry and count, and the oracle.

F(x) = 1/n Σ_i f_i(x), f_i the mean over agent i's samples (DP-GT eq. 2). Every agent has a point of
its own: points, and gradients, are (n, d), a row for each agent.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.randomness import Draws, MinibatchSampler, RoundRandom
from fedatlas.arithmetic.samples import Clipping
from fedatlas.errors import FedatlasError
from fedatlas.federations.parts import ClientEngine, SequentialCounters
from fedatlas.schema.graphs import in_laplacian, out_laplacian

if TYPE_CHECKING:  # the workflow imports federations when it is parsed: keep libraries out of that
    from fedatlas.federations.shards import ClientSamples


@dataclass
class GraphCounters(SequentialCounters):
    """Running totals since round 0, of agents on a graph."""

    bytes_sent: float = 0.0  # over all edges; quantised numbers have fractions of a byte
    messages: int = 0  # one per edge and send


@dataclass
class TimedAgents(GraphCounters):
    """The same of runs that state a network.

    _times: of agents, in nanoseconds, by the end of their last exchange. _gradients: of agents
    since then, per sample. _beside: bytes of agents that travel with their next messages.
    """

    simulated_time: float = 0.0  # s, of the agent that has come furthest
    wasted_bytes: float = 0.0  # of messages that were lost or late
    _times: list[float] = field(default_factory=list)
    _gradients: list[float] = field(default_factory=list)
    _beside: list[float] = field(default_factory=list)

    def count_gradients(self, batch: Minibatches, points: int = 1) -> None:
        super().count_gradients(batch, points)
        own = points * batch.gradients_of_clients
        self._gradients = (np.asarray(self._gradients or 0.0) + own).tolist()


class _Weights(np.ndarray):
    """Weights (n, n) whose `@` adds in one order: BLAS's, which numpy takes, has others.

    So has a row of them (n,); rows are (n,) or (…, n, d), as numpy has it.
    """

    def __matmul__(self, rows: Any) -> Any:
        kept = "i" * (self.ndim - 1)
        own = self.view(np.ndarray)
        if rows.ndim == 1:
            return np.einsum(f"{kept}j,j->{kept}", own, rows)
        return np.einsum(f"{kept}j,...jd->...{kept}d", own, rows)


class Links:
    """One graph: agent i receives with weight weights[i, j] > 0 what agent j sends.

    weights: (n, n); in_laplacian: diag(W1) − W; out_laplacian: diag(1ᵀW) − W; all three as arrays
    that multiply rows of agents, (n, d).
    """

    def __init__(
        self,
        weights: np.ndarray,
        array: Any,
        draws: Draws,
        counters: GraphCounters,
        takes_time: bool = True,
    ) -> None:
        """array: turns numpy's arrays into those that are sent.

        takes_time: false where rows travel together with the messages of another graph.
        """
        self._array = array
        self._weigh(weights)
        self._edges = int(np.count_nonzero(weights))
        self._linked = linked = weights > 0
        self._busiest = int((linked.sum(axis=0) + linked.sum(axis=1)).max())  # messages of an agent
        self._takes_time = takes_time
        self._draws, self._counters = draws, counters

    def send(self, values: Any, *, bits: Any = None) -> Any:
        """Send each agent's row to its receivers; returns what they get, (n, d).

        bits: of a row, one number or one for each agent, if it travels in fewer than it is stored
        in.
        """
        row = self._bytes_of_row(values, bits)
        if np.ndim(row) == 0:
            sent, busiest = self._edges * float(row), self._busiest * float(row)
        else:
            leaving = self._linked.sum(axis=0) * row
            sent, busiest = float(leaving.sum()), float((leaving + self._linked @ row).max())
        self._count(sent, self._edges, busiest)
        return values

    def _count(self, sent: float, messages: int, busiest: float) -> None:
        self._counters.bytes_sent += sent
        self._counters.messages += messages
        self._counters.sequential_messages += self._takes_time
        self._counters.sequential_bytes += busiest

    @staticmethod
    def _bytes_of_row(values: Any, bits: Any) -> Any:
        """One number, or one for each agent."""
        return float(values[0].nbytes) if bits is None else np.asarray(bits) / 8

    def _weigh(self, weights: np.ndarray) -> None:
        self.weights, self.in_laplacian, self.out_laplacian = (
            own.view(_Weights) if isinstance(own := self._array(table), np.ndarray) else own
            for table in (weights, in_laplacian(weights), out_laplacian(weights))
        )
        self._received_weights = self._array(weights.sum(axis=1, keepdims=True))

    def towards(self, own: Any, sent: Any) -> Any:
        """Σ_j W_ij (sent_j − own_i), (n, d): an agent counts its own value as it is."""
        return self.weights @ sent - self._received_weights * own

    def release(self, values: Any, scale: float, random: RoundRandom) -> Any:
        """Send each agent's row with independent Laplace noise of this scale on every number."""
        if scale == 0:
            return self.send(values)
        return self.send(values + scale * self._draws.laplace(random, values))


class GraphNetwork:
    """The graphs of a run: `states` and, of methods that track gradients, `trackers`."""

    def __init__(
        self,
        states: np.ndarray,
        trackers: np.ndarray | None,
        array: Any,
        draws: Draws,
        counters: GraphCounters,
    ) -> None:
        """states, trackers: weights, (n, n)."""
        self.states = Links(states, array, draws, counters)
        self.trackers = None
        if trackers is not None:  # sent at the same time as states
            self.trackers = Links(trackers, array, draws, counters, takes_time=False)
        self.draws = draws


class GraphProblem(ClientEngine):
    """The counting oracle; a subclass computes.

    agents: n. dimension: d. fewest_samples: D, of the agent that has the fewest.
    draws: random numbers for its array type.
    """

    draws: Draws
    dimension: int

    def __init__(self, data: ClientSamples, drawing: MinibatchSampler) -> None:
        """See `ClientEngine`."""
        super().__init__(data, GraphCounters(), drawing)
        self.agents = data.clients
        self.fewest_samples = int(np.diff(data.offsets).min())
        self._everyone = np.arange(data.clients)

    def minibatches(self, random: RoundRandom, size: int) -> Minibatches:
        """Draw, for each agent, `size` of its samples uniformly without replacement."""
        if size > self.fewest_samples:
            raise FedatlasError(
                f"{size} distinct samples cannot be drawn at every iteration: an agent has only "
                f"{self.fewest_samples}; lower the number of samples, or the number of agents"
            )
        return self._drawn(random, self._everyone, size)

    def first_samples(self, size: int) -> Minibatches:
        """Each agent's first `size` samples, or all that it has: those that arrived so far."""
        sizes = np.minimum(np.diff(self._offsets), size)
        return Minibatches.of_first_rows(self._offsets[:-1], sizes)

    def gradients(self, points: Any, batch: Minibatches, clipping: Clipping | None) -> Any:
        """∇f_i over each agent's minibatch at its own point, (n, d); clipped sample by sample."""
        self._count(batch)
        return self._gradients(points, batch, clipping)

    @abstractmethod
    def _gradients(self, points: Any, batch: Minibatches, clipping: Clipping | None) -> Any: ...
