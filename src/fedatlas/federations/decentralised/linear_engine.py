"""Agents that train a linear model: gradients over rows, clipped row by row where asked."""

from typing import Any

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.kernels import formulas
from fedatlas.arithmetic.kernels.compilation import frozen
from fedatlas.arithmetic.kernels.drawing import COMPILED
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.randomness import Draws
from fedatlas.arithmetic.samples import Clipping
from fedatlas.federations.client_shards import ClientSamples
from fedatlas.federations.decentralised.problem import GraphProblem
from fedatlas.federations.engine import NumpyArrays
from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.schema.objectives import LinearObjective

_ORDER = {"l1": 1, "l2": 2}


class LinearAgents(NumpyArrays, GraphProblem):
    """The engine of linear models; its arrays are numpy float64.

    Only gradients of losses are clipped: the regulariser's does not depend on samples.
    """

    def __init__(self, data: ClientSamples, objective: LinearObjective) -> None:
        super().__init__(data, COMPILED)
        self._engine = CompiledEngine(data, objective)
        self.draws = Draws()
        self.dimension = self._engine.dimension
        self._rows = sparse.csr_array(data.samples.features)
        self._label = data.samples.label
        self._loss = formulas.LOSS_CODES[objective.loss]
        self._penalty = (
            formulas.REGULARISER_CODES[objective.regulariser],
            objective.regularisation_weight,
        )
        self._norms: dict[str, np.ndarray] = {}  # of rows, found when they are first clipped

    def start(self, seed: int) -> np.ndarray:
        """Zeros."""
        return np.zeros((self.agents, self.dimension))

    def _gradients(
        self, points: np.ndarray, batch: Minibatches, clipping: Clipping | None
    ) -> np.ndarray:
        if clipping is None:
            return self._engine.client_gradients(points, batch)
        if clipping.norm not in self._norms:
            order = _ORDER[clipping.norm]
            self._norms[clipping.norm] = sparse.linalg.norm(self._rows, ord=order, axis=1)
        gradients = np.empty_like(points)
        rows, share = batch.padded()
        for agent, point in enumerate(points):
            drawn = share[agent] > 0
            taken, weights = rows[agent, drawn], share[agent, drawn]
            features = self._rows[taken]
            label = frozen(self._label[taken])
            _, slopes = formulas.losses(self._loss, features @ point, label)
            norms = np.abs(slopes) * self._norms[clipping.norm][taken]
            kept = clipping.bound / np.maximum(norms, clipping.bound)
            _, penalty = formulas.penalties(*self._penalty, point)
            gradients[agent] = features.T @ (weights * kept * slopes) + penalty
        return gradients

    def measure(self, points: np.ndarray) -> dict[str, float]:
        mean = points.mean(0)
        apart = np.linalg.norm(points - mean, axis=1)
        measured: dict[str, Any] = dict(self._engine.measure(mean))
        if "test_accuracy" in measured:
            own = [self._engine.test_quality(point)["test_accuracy"] for point in points]
            measured["test_accuracy_of_agents"] = float(np.mean(own))
            measured["test_accuracy_of_worst_agent"] = min(own)
        return measured | {"disagreement": float(np.sqrt(np.mean(apart**2)))}
