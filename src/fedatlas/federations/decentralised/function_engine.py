"""Agents that minimise a function whose samples are noise: DP-GT, Remark 4."""

import numpy as np

from fedatlas.arithmetic import objectives
from fedatlas.arithmetic.kernels.drawing import COMPILED
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.randomness import Draws
from fedatlas.arithmetic.samples import Clipping
from fedatlas.errors import FedatlasError
from fedatlas.federations.client_shards import ClientSamples
from fedatlas.federations.decentralised.problem import GraphProblem
from fedatlas.federations.engine import NumpyArrays
from fedatlas.schema.objectives import PolyakObjective


class FunctionAgents(NumpyArrays, GraphProblem):
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
