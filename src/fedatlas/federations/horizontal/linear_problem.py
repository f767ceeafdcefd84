"""What problems of linear models have besides: constants of theorems, measurements of margins."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from fedatlas.arithmetic.objectives import average_smoothness, has_two_classes, quality
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.shards import ClientSamples, row_weights
from fedatlas.schema.objectives import LinearObjective


class LinearProblem(HorizontalProblem):
    """The oracle of a linear objective.

    smoothness: L of every sample's gradient. has_classes: whether all labels are ±1.
    """

    def __init__(self, data: ClientSamples, objective: LinearObjective) -> None:
        """FedatlasError if labels do not suit the loss."""
        super().__init__(data, objective.client_weights)
        self.has_classes = has_two_classes(objective, data.metadata, data.samples, data.test)
        self.dimension = data.samples.features.shape[1]
        self.objective = objective
        self._test = data.test
        self._row_weights = row_weights(np.diff(data.offsets), objective.client_weights)
        row_norms = np.sqrt((data.samples.features**2).sum(axis=1))
        self.smoothness = objective.smoothness(float(row_norms.max(initial=0.0)))
        self._rows_on_host = data.samples.features

    @cached_property
    def average_smoothness(self) -> float:
        """That of Assumption 2.2 of FedPAGE; found when asked for."""
        return average_smoothness(self._rows_on_host, self._offsets, self.objective)

    def start(self, seed: int) -> Any:
        """Zeros, (d,)."""
        return self.zeros()

    def measure(self, x: Any) -> dict[str, float]:
        return self._measure_training(x) | self.test_quality(x)

    @abstractmethod
    def _measure_training(self, x: Any) -> dict[str, float]: ...

    def test_quality(self, x: Any) -> dict[str, float]:
        """Accuracy or error on the test samples at x (d,), if there are any."""
        if self._test is None:
            return {}
        margins = self._test.features @ self.numpy(x)
        return quality("test", margins, self._test.label, self.has_classes)
