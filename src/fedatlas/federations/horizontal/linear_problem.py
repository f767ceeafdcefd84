"""What problems of linear models have besides: constants of theorems, measurements of margins."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from fedatlas.arithmetic.nonsmooth import nonsmooth_value, prox
from fedatlas.arithmetic.objectives import (
    average_smoothness,
    has_two_classes,
    norm,
    products,
    quality,
)
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal.problem import HorizontalProblem, Rows, no_rows
from fedatlas.federations.parts import Predicted
from fedatlas.federations.shards import ClientSamples, row_weights
from fedatlas.schema.losses import Nonsmooth
from fedatlas.schema.objectives import LinearObjective

if TYPE_CHECKING:
    from fedatlas.arithmetic.kernels.formulas import LinearModel


class LinearProblem(HorizontalProblem):
    """The oracle of a linear objective.

    smoothness: L of every sample's gradient. has_classes: whether all labels are ±1.
    """

    def __init__(self, data: ClientSamples, objective: LinearObjective) -> None:
        """FedatlasError if labels do not suit the loss."""
        super().__init__(data, objective.client_weights)
        self.has_classes = has_two_classes(objective, data.metadata, data.samples, data.test)
        self.dimension = data.samples.features.shape[1]
        self.objective, self._data = objective, data
        self._test = data.test
        self._row_weights = row_weights(np.diff(data.offsets), objective.client_weights)
        row_norms = np.sqrt((data.samples.features**2).sum(axis=1))
        self.smoothness = objective.smoothness(float(row_norms.max(initial=0.0)))
        self._rows_on_host, self._labels_on_host = data.samples.features, data.samples.label

    @cached_property
    def average_smoothness(self) -> float:
        """That of Assumption 2.2 of FedPAGE; found when asked for."""
        return average_smoothness(self._rows_on_host, self._offsets, self.objective)

    def start(self, seed: int) -> Any:
        """Zeros, (d,)."""
        return self.zeros()

    def prox(self, v: Any, step: float) -> Any:
        term = self.objective.nonsmooth
        return v if term is None else prox(term, v, step)

    def measure(self, x: Any) -> dict[str, float]:
        measured = self._measure_training(x)
        if self.objective.nonsmooth is not None:
            measured |= self._measure_composite(self.numpy(x), self.objective.nonsmooth)
        return measured | self.test_quality(x)

    def _measure_composite(self, x: np.ndarray, term: Nonsmooth) -> dict[str, float]:
        """f + ψ, and the norm of (x − prox(x − ∇f(x)/L))·L; without a known L, of a step of 1."""
        value, gradient = self._model.value_and_gradient(x)
        steepness = self.smoothness if 0 < self.smoothness < inf else 1.0
        moved = x - prox(term, x - gradient / steepness, 1 / steepness)
        return {
            "objective": value + nonsmooth_value(term, x),
            "gradient_norm": steepness * norm(moved),
        }

    @cached_property
    def _model(self) -> LinearModel:
        """f over all rows."""
        from fedatlas.arithmetic.kernels.formulas import LinearModel

        rows = self._rows_on_host, self._labels_on_host
        return LinearModel(*rows, self.objective, self._row_weights)

    def predicted(self, x: Any, rows: Rows = "train") -> Predicted:
        data = self._data
        samples, offsets = {
            "train": (data.samples, data.offsets),
            "test": (data.test, np.array([0, 0 if data.test is None else len(data.test)])),
            "validation": (data.validation, data.validation_offsets),
        }[rows]
        if samples is None:
            raise FedatlasError(no_rows(rows))
        margins = products(samples.features, self.numpy(x))
        right = ((margins > 0) == (samples.label > 0)) & self.has_classes
        return Predicted(margins, samples.label, right, offsets)

    @abstractmethod
    def _measure_training(self, x: Any) -> dict[str, float]: ...

    def test_quality(self, x: Any) -> dict[str, float]:
        """Accuracy or error on the test samples at x (d,), if there are any."""
        if self._test is None:
            return {}
        margins = products(self._test.features, self.numpy(x))
        loss = self.objective.loss
        return quality("test", margins, self._test.label, self.has_classes, loss)
