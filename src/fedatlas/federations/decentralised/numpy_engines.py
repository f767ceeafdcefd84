"""Agents that train a linear model, or minimise a function whose samples are noise."""

from typing import Any

import numpy as np

from fedatlas.arithmetic import objectives
from fedatlas.arithmetic.kernels.drawing import COMPILED
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.randomness import Draws
from fedatlas.arithmetic.samples import Clipping
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised.graph import GraphProblem
from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import LinearObjective, PolyakObjective


class LinearAgents(GraphProblem):
    """The engine of linear models; its arrays are numpy float64.

    Only gradients of losses are clipped: the regulariser's does not depend on samples.
    """

    def __init__(self, data: ClientSamples, objective: LinearObjective) -> None:
        super().__init__(data, COMPILED)
        self._engine = CompiledEngine(data, objective)
        self.draws = Draws()
        self.dimension = self._engine.dimension

    def start(self, seed: int) -> np.ndarray:
        """Zeros."""
        return np.zeros((self.agents, self.dimension))

    def _gradients(
        self, points: np.ndarray, batch: Minibatches, clipping: Clipping | None
    ) -> np.ndarray:
        if clipping is None:
            return self._engine.client_gradients(points, batch)
        return self._engine.clipped_gradients(points, batch, clipping)

    def measure(self, points: np.ndarray) -> dict[str, float]:
        mean = points.mean(0)
        apart = np.linalg.norm(points - mean, axis=1)
        measured: dict[str, Any] = dict(self._engine.measure(mean))
        if "test_accuracy" in measured:
            own = [self._engine.test_quality(point)["test_accuracy"] for point in points]
            measured["test_accuracy_of_agents"] = float(np.mean(own))
            measured["test_accuracy_of_worst_agent"] = min(own)
        return measured | {"disagreement": float(np.sqrt(np.mean(apart**2)))}


class FunctionAgents(GraphProblem):
    """The engine of such functions; its arrays are numpy float64.

    Functions are affine in the noise, so that a minibatch enters by its mean noise.
    """

    def __init__(self, data: ClientSamples, objective: PolyakObjective) -> None:
        """FedatlasError if the noise of all samples does not have the mean 0, by agents."""
        super().__init__(data, COMPILED)
        self.draws = Draws()
        self.dimension = objective.dimension
        self._objective = objective
        self._noise = np.asarray(data.samples.features, dtype=np.float64).ravel()
        balance = float(data.row_weights @ self._noise)
        if abs(balance) > 1e-9:
            raise FedatlasError(
                f"the noise has the mean {balance:.2g}, which changes the objective; use all rows, "
                "with as many for every agent"
            )

    def start(self, seed: int) -> np.ndarray:
        """The objective's start, the same for all seeds."""
        return np.full((self.agents, self.dimension), self._objective.start)

    def _gradients(
        self, points: np.ndarray, batch: Minibatches, clipping: Clipping | None
    ) -> np.ndarray:
        if clipping is not None:
            raise FedatlasError(f"{self._objective.name} is not clipped: say 'clipping: none'")
        rows, share = batch.padded()
        mean = (share * self._noise[rows]).sum(axis=1)
        return objectives.polyak_gradients(self._objective, points, mean)

    def measure(self, points: np.ndarray) -> dict[str, float]:
        mean, none = points.mean(0), np.zeros(len(points))
        norms = np.linalg.norm(objectives.polyak_gradients(self._objective, points, none), axis=1)
        apart = np.linalg.norm(points - mean, axis=1)
        value = objectives.polyak_values(self._objective, mean[None], np.zeros(1))
        return {
            "objective": float(value[0]),
            "gradient_norm": float(norms.max()),
            "disagreement": float(np.sqrt(np.mean(apart**2))),
        }
