"""The arithmetic behind agents on a graph: the base class of engines."""

from abc import abstractmethod
from typing import Any

import numpy as np

from fedatlas.arithmetic.clipping import Clipping
from fedatlas.arithmetic.drawing import Drawing
from fedatlas.arithmetic.draws import Draws
from fedatlas.arithmetic.minibatches import Minibatches, draw
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.client_shards import ClientSamples
from fedatlas.federations.engine import FederatedEngine


class AgentEngine(FederatedEngine):
    """Gradients of every agent's samples at its own point; points are (n, d).

    draws: random numbers for the engine's own array type.
    """

    draws: Draws
    dimension: int

    def __init__(self, data: ClientSamples, drawing: Drawing) -> None:
        """Keep the layout of the rows, ordered by agent, and how minibatches are drawn."""
        self.agents = data.clients
        self.samples = len(data.samples)
        self.fewest_samples = int(np.diff(data.offsets).min())
        self._offsets = data.offsets
        self._everyone = np.arange(data.clients)
        self._drawing = drawing

    def minibatches(self, random: RoundRandom, size: int) -> Minibatches:
        """Drawn on the CPU, so that devices see the same samples."""
        return draw(self._drawing, random, self._offsets, self._everyone, size, 1)

    def first_samples(self, size: int) -> Minibatches:
        """Each agent's first `size` samples, or all that it has."""
        sizes = np.minimum(np.diff(self._offsets), size)
        return Minibatches.of_first_rows(self._offsets[:-1], sizes)

    @abstractmethod
    def start(self, seed: int) -> Any:
        """Where all agents start, one point for all of them, (n, d)."""

    @abstractmethod
    def gradients(self, points: Any, batch: Minibatches, clipping: Clipping | None) -> Any:
        """Of each agent's minibatch at its own point, (n, d); clipped sample by sample."""
