"""The arithmetic behind the horizontal oracle: the base class of engines."""

from abc import abstractmethod
from typing import Any

import numpy as np

from fedatlas.arithmetic.compiled_drawing import COMPILED
from fedatlas.arithmetic.minibatches import Minibatches, draw
from fedatlas.arithmetic.quality import has_two_classes, quality
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.client_shards import ClientSamples
from fedatlas.federations.engine import FederatedEngine
from fedatlas.schema.objectives import LinearObjective


class Engine(FederatedEngine):
    """Batched arithmetic of a linear model over the rows of all clients.

    Points x, y are (d,) or (S, d) in the engine's own array type; so are results (S, d).
    numbers_at_once: the largest (S, d) that is computed as a whole. FedPAGE's round holds up to ten
    of them.
    """

    numbers_at_once: int = 2**23  # 64 MiB: less gives a GPU too little to do at once

    def __init__(self, data: ClientSamples, objective: LinearObjective) -> None:
        self.has_classes = has_two_classes(objective, data.metadata, data.samples, data.test)
        self.clients = data.clients
        self.dimension = data.samples.features.shape[1]
        self.samples = len(data.samples)
        self.objective = objective
        self._offsets = data.offsets
        self._test = data.test
        self._row_weights = data.row_weights
        row_norms = np.sqrt((data.samples.features**2).sum(axis=1))
        self.smoothness = objective.smoothness(float(row_norms.max(initial=0.0)))

    def minibatches(
        self, random: RoundRandom, clients: np.ndarray, size: int | None, steps: int
    ) -> Minibatches:
        """Draw on the CPU whatever the device, so that devices see the same samples."""
        return draw(COMPILED, random, self._offsets, clients, size, steps)

    @abstractmethod
    def zeros(self, *shape: int) -> Any:
        """Zeros in the engine's own array type."""

    @abstractmethod
    def client_gradients(self, x: Any, batch: Minibatches) -> Any:
        """Minibatch gradients."""

    @abstractmethod
    def local_sgd(self, x: Any, batch: Minibatches, step_size: float, correction: Any) -> Any:
        """Final points of local SGD with a constant correction (S, d) or None."""

    @abstractmethod
    def local_recursive_steps(
        self, y: Any, previous: Any, estimate: Any, batch: Minibatches, step_size: float
    ) -> Any:
        """Final points of local steps with the recursive estimator."""

    def test_quality(self, x: Any) -> dict[str, float]:
        """Accuracy or error on the test samples at x (d,), if there are any."""
        if self._test is None:
            return {}
        margins = self._test.features @ self.numpy(x)
        return quality("test", margins, self._test.label, self.has_classes)
