"""Linear models over pooled rows, and their formulas: losses, regularisers, rows.

Everything is float64, added in a fixed order. Sparse rows are CSR (indptr, indices, values).
"""

from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic
from scipy import sparse

from fedatlas.arithmetic.kernels.compilation import compiled, frozen
from fedatlas.arithmetic.kernels.elementary import exp, log1p
from fedatlas.arithmetic.kernels.own_losses import DERIVATIVE, VALUE, address_of, own_loss
from fedatlas.arithmetic.objectives import products
from fedatlas.schema.losses import Loss, MarginLoss, Regulariser
from fedatlas.schema.objectives import LinearObjective

# Compiled code knows losses and regularisers by numbers.
_LOSS_CODES = {loss: code for code, loss in enumerate(Loss)}
REGULARISER_CODES = {regulariser: code for code, regulariser in enumerate(Regulariser)}
ROBUST, LOGISTIC, SQUARE = (_LOSS_CODES[x] for x in (Loss.ROBUST, Loss.LOGISTIC, Loss.SQUARE))
NONE, NONCONVEX, L2 = (
    REGULARISER_CODES[x] for x in (Regulariser.NONE, Regulariser.NONCONVEX, Regulariser.L2)
)


def loss_code(loss: MarginLoss) -> int:
    """The number of a loss; of one of users' own, where its functions are in this process."""
    return _LOSS_CODES[loss] if isinstance(loss, Loss) else address_of(loss)


@compiled(inline="always")
def loss_value(loss, margin, label):
    """Loss of one margin."""
    if loss == ROBUST:
        residual = margin - label
        return log1p(0.5 * residual * residual)
    if loss == LOGISTIC:
        t = -label * margin
        return max(t, 0.0) + log1p(exp(-abs(t)))
    if loss == SQUARE:
        return (margin - label) ** 2
    return own_loss(loss, VALUE, margin, label)


@compiled(inline="always")
def loss_derivative(loss, margin, label):
    """Derivative of the loss with respect to the margin."""
    if loss == ROBUST:
        residual = margin - label
        return residual / (1.0 + 0.5 * residual * residual)
    if loss == LOGISTIC:
        return -label / (1.0 + exp(min(label * margin, 700.0)))
    if loss == SQUARE:
        return 2.0 * (margin - label)
    return own_loss(loss, DERIVATIVE, margin, label)


@compiled(inline="always")
def regulariser_value(regulariser, weight, coordinate):
    """One coordinate's share of the weighted regulariser."""
    square = coordinate * coordinate
    if regulariser == NONCONVEX:
        return weight * square / (1.0 + square)
    if regulariser == L2:
        return weight * 0.5 * square
    return 0.0


@compiled(inline="always")
def regulariser_derivative(regulariser, weight, coordinate):
    """Derivative of the weighted regulariser in one coordinate."""
    if regulariser == NONCONVEX:
        denominator = 1.0 + coordinate * coordinate
        return weight * 2.0 * coordinate / (denominator * denominator)
    if regulariser == L2:
        return weight * coordinate
    return 0.0


# Unsigned indices cannot be negative, which numba checks at every access otherwise: the loops of
# clients take a third less time.


@compiled(inline="always")
def dot(indptr, indices, values, row, x):
    """The scalar product of a row and x."""
    total = 0.0
    for position in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        total += values[position] * x[np.uint32(indices[position])]
    return total


@compiled(inline="always")
def add_row(indptr, indices, values, row, scale, out):
    """Add the row, times `scale`, to `out`."""
    for position in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        out[np.uint32(indices[position])] += scale * values[position]


@intrinsic
def _prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Ask for array[place] ahead of its use; a place that is not there does no harm."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # To be read, soon and again, as data.
        builder.call(function, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), code


@compiled(inline="always")
def prefetch_row(indptr, indices, values, row):
    """Ask for the row's first 16 entries; the processor guesses that what follows is next."""
    first = np.uint64(indptr[row])
    _prefetch(indices, first)
    _prefetch(values, first)
    _prefetch(values, first + np.uint64(8))


# The same for torch's tensors, which bring their own operations along.


def torch_loss(loss: MarginLoss, margins: Any, labels: Any) -> Any:
    """Loss of each margin."""
    if loss is Loss.ROBUST:
        return (0.5 * (margins - labels) ** 2).log1p()
    if loss is Loss.LOGISTIC:
        t = -labels * margins
        return t.clamp(min=0) + (-t.abs()).exp().log1p()
    assert loss is Loss.SQUARE
    return (margins - labels) ** 2


def torch_slope(loss: MarginLoss, margins: Any, labels: Any) -> Any:
    """Derivative of the loss with respect to each margin."""
    if loss is Loss.ROBUST:
        residuals = margins - labels
        return residuals / (1 + 0.5 * residuals**2)
    if loss is Loss.LOGISTIC:
        return -labels * (-labels * margins).sigmoid()
    assert loss is Loss.SQUARE
    return 2 * (margins - labels)


def torch_penalty(regulariser: Regulariser, x: Any) -> Any:
    """The unweighted regulariser of x (…, d)."""
    if regulariser is Regulariser.NONCONVEX:
        return (x**2 / (1 + x**2)).sum(-1)
    return (0.5 if regulariser is Regulariser.L2 else 0.0) * (x**2).sum(-1)


def torch_penalty_gradient(regulariser: Regulariser, x: Any) -> Any:
    """Gradient of the unweighted regulariser, (…, d)."""
    if regulariser is Regulariser.NONCONVEX:
        return 2 * x / (1 + x**2) ** 2
    return (1.0 if regulariser is Regulariser.L2 else 0.0) * x


@compiled
def losses(loss, margins, labels):
    """Sum of the losses and their derivatives (n,)."""
    total = 0.0
    slopes = np.empty(len(margins))
    for row in range(len(margins)):
        total += loss_value(loss, margins[row], labels[row])
        slopes[row] = loss_derivative(loss, margins[row], labels[row])
    return total, slopes


@compiled
def weighted_losses(loss, margins, labels, weights):
    """Weighted sum of the losses and their derivatives times their weights, (n,)."""
    total = 0.0
    slopes = np.empty(len(margins))
    for row in range(len(margins)):
        total += weights[row] * loss_value(loss, margins[row], labels[row])
        slopes[row] = weights[row] * loss_derivative(loss, margins[row], labels[row])
    return total, slopes


@compiled
def penalties(regulariser, weight, x):
    """The weighted regulariser and its gradient (d,)."""
    value = 0.0
    gradient = np.empty(len(x))
    for j in range(len(x)):
        value += regulariser_value(regulariser, weight, x[j])
        gradient[j] = regulariser_derivative(regulariser, weight, x[j])
    return value, gradient


@compiled
def weighted_rows(features, weights):
    """Σ_i weights_i x_i of dense rows, (d,): like BLAS's, but the same on every machine."""
    total = np.zeros(features.shape[1])
    for row in range(len(features)):
        for j in range(len(total)):
            total[j] += weights[row] * features[row, j]
    return total


class LinearModel:
    """f(w) = 1/n Σ_i L(w·x_i, y_i) + weight · regulariser(w) over dense or CSR rows (n, d)."""

    def __init__(
        self,
        features: np.ndarray | sparse.csr_array,
        label: np.ndarray,
        objective: LinearObjective,
        weights: np.ndarray | None = None,
    ) -> None:
        """Hold the rows; label is (n,). weights: (n,) of rows in place of 1/n, of sum 1."""
        self._weights = None if weights is None else len(weights) * weights
        self.samples, self.dimension = features.shape
        self._features = (
            frozen(np.ascontiguousarray(features)) if isinstance(features, np.ndarray) else features
        )
        self._label = frozen(label)
        self._loss = loss_code(objective.loss)
        self._penalty = (
            REGULARISER_CODES[objective.regulariser],
            objective.regularisation_weight,
        )
        self._objective = objective

    @cached_property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient of every sample; found when asked for."""
        squares = (self._features**2).sum(axis=1)
        return self._objective.smoothness(sqrt(squares.max(initial=0.0)))

    def margins(self, w: np.ndarray) -> np.ndarray:
        """w·x_i of every sample, (n,)."""
        return products(self._features, w)

    def losses(self, margins: np.ndarray) -> tuple[float, np.ndarray]:
        """Sum of the losses and their derivatives (n,)."""
        if self._weights is None:
            return losses(self._loss, margins, self._label)
        return weighted_losses(self._loss, margins, self._label, self._weights)

    def data_gradient(self, slopes: np.ndarray) -> np.ndarray:
        """1/n Σ_i slope_i x_i, (d,)."""
        if isinstance(self._features, np.ndarray):
            return weighted_rows(self._features, slopes) / self.samples
        return (self._features.T @ slopes) / self.samples

    def value_and_gradient(
        self, w: np.ndarray, margins: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        """f(w) and ∇f(w), (d,); margins: those of w, if they are known."""
        total, slopes = self.losses(self.margins(w) if margins is None else margins)
        penalty, gradient = penalties(*self._penalty, w)
        return total / self.samples + penalty, self.data_gradient(slopes) + gradient
