"""A linear model over pooled rows: objective, gradient, smoothness."""

from functools import cached_property

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.kernels import formulas
from fedatlas.arithmetic.kernels.compilation import frozen
from fedatlas.schema.objectives import LinearObjective


class LinearModel:
    """f(w) = 1/n Σ_i L(w·x_i, y_i) + weight · regulariser(w) over dense or CSR rows (n, d)."""

    def __init__(
        self, features: np.ndarray | sparse.csr_array, label: np.ndarray, objective: LinearObjective
    ) -> None:
        """Hold the rows; label is (n,)."""
        self.samples, self.dimension = features.shape
        self._features = (
            frozen(np.ascontiguousarray(features)) if isinstance(features, np.ndarray) else features
        )
        self._label = frozen(label)
        self._loss = formulas.LOSS_CODES[objective.loss]
        self._penalty = (
            formulas.REGULARISER_CODES[objective.regulariser],
            objective.regularisation_weight,
        )
        self._objective = objective

    @cached_property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient of every sample; found when asked for."""
        squares = (self._features**2).sum(axis=1)
        return self._objective.smoothness(float(squares.max(initial=0.0)) ** 0.5)

    def margins(self, w: np.ndarray) -> np.ndarray:
        """w·x_i of every sample, (n,)."""
        return self._features @ w

    def losses(self, margins: np.ndarray) -> tuple[float, np.ndarray]:
        """Sum of the losses and their derivatives (n,)."""
        return formulas.losses(self._loss, margins, self._label)

    def data_gradient(self, slopes: np.ndarray) -> np.ndarray:
        """1/n Σ_i slope_i x_i, (d,)."""
        if isinstance(self._features, np.ndarray):
            return formulas.weighted_rows(self._features, slopes) / self.samples
        return (self._features.T @ slopes) / self.samples

    def value_and_gradient(
        self, w: np.ndarray, margins: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        """f(w) and ∇f(w), (d,); margins: those of w, if they are known."""
        total, slopes = self.losses(self.margins(w) if margins is None else margins)
        penalty, gradient = formulas.penalties(*self._penalty, w)
        return total / self.samples + penalty, self.data_gradient(slopes) + gradient
