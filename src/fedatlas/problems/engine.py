"""The arithmetic behind the horizontal oracle: what every engine shares and must offer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.objectives import Loss, Objective
from fedatlas.problems.kernels import draw_minibatches
from fedatlas.randomness import RoundRandom
from fedatlas.shards import ClientSamples


@dataclass(frozen=True)
class Minibatches:
    """Which samples each of S clients uses at each of `steps` steps.

    starts, sizes: (S,) the client's first row and its minibatch size.
    rows: (S, steps, size) row numbers, or (0, 0, 0) for the whole local data set at every step.
    """

    starts: np.ndarray
    sizes: np.ndarray
    rows: np.ndarray
    steps: int

    @property
    def gradient_evaluations(self) -> int:
        """Per-sample gradients of one pass over all clients and steps."""
        return int(self.sizes.sum()) * self.steps

    def at(self, step: int) -> "Minibatches":
        """The minibatches of one step."""
        rows = self.rows[:, step : step + 1] if self.rows.size else self.rows
        return replace(self, rows=rows, steps=1)


class Engine(ABC):
    """Batched arithmetic of a linear model over the rows of all clients.

    Points x, y are (d,) or (S, d) in the engine's own array type; so are results (S, d).
    """

    def __init__(self, data: ClientSamples, objective: Objective) -> None:
        """Keep the layout of the rows, which are ordered by client."""
        labels = data.samples.label
        self.has_classes = bool(np.isin(labels, (-1.0, 1.0)).all())  # else accuracy has no meaning
        if objective.loss is Loss.LOGISTIC and not self.has_classes:
            raise FedatlasError(
                f"objective '{objective.name}' needs labels ±1, but data set "
                f"'{data.metadata.get('dataset')}' has {np.unique(labels)[:5]}"
            )
        self.clients = data.clients
        self.dimension = data.samples.features.shape[1]
        self.samples = len(data.samples)
        self.objective = objective
        self._offsets = data.offsets
        sizes = np.diff(data.offsets)
        self._row_weights = np.repeat(1.0 / (self.clients * np.maximum(sizes, 1)), sizes)
        row_norms = np.sqrt((data.samples.features**2).sum(axis=1))
        self.smoothness = objective.smoothness(float(row_norms.max(initial=0.0)))

    def minibatches(
        self, random: RoundRandom, clients: np.ndarray, size: int | None, steps: int
    ) -> Minibatches:
        """Draw on the CPU whatever the device, so that devices see the same samples."""
        starts = self._offsets[clients]
        local = self._offsets[clients + 1] - starts
        if size is None or size >= local.max():
            return Minibatches(starts, local, np.empty((0, 0, 0), np.int64), steps)
        sizes = np.minimum(local, size)
        uniform = random.uniform(len(clients), steps, size)
        return Minibatches(starts, sizes, draw_minibatches(uniform, starts, local, sizes), steps)

    @abstractmethod
    def zeros(self, *shape: int) -> Any:
        """Zeros in the engine's own array type."""

    @abstractmethod
    def array(self, values: np.ndarray) -> Any:
        """The values in the engine's own array type."""

    @abstractmethod
    def numpy(self, array: Any) -> np.ndarray:
        """The values as numpy."""

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

    @abstractmethod
    def measure(self, x: Any) -> dict[str, float]:
        """Objective, gradient norm and accuracy over all training samples at x (d,)."""


def build_engine(data: ClientSamples, objective: Objective, device: str) -> Engine:
    """Compiled loops on "cpu"; torch, imported only here, on any other device."""
    if device == "cpu":
        from fedatlas.problems.on_cpu import CompiledEngine

        return CompiledEngine(data, objective)
    from fedatlas.problems.on_torch import TorchEngine

    return TorchEngine(data, objective, device)
