"""Federated finite sums; every party holds some columns of the samples.

f(w) = 1/n Σ_i L(Σ_ℓ w_ℓ·x_{i,ℓ}, y_i) + weight · regulariser(w): samples count equally. Points are
(d,), the parties' blocks w_ℓ side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedatlas.arithmetic.objectives import has_two_classes, quality
from fedatlas.schema.objectives import LinearObjective

if TYPE_CHECKING:  # the workflow imports algorithms when it is parsed: keep compilers out of that
    from fedatlas.federations.vertical.shards import PartySamples


@dataclass(frozen=True)
class BlockStep:
    """How a block moves along v_ℓ, in place of w_ℓ ← w_ℓ − γ v_ℓ: momentum, clipping, Adam, …

    move: a plain function move(w, v, memory, applied, numbers) of the method's file, which numba
        compiles. It changes w and memory in place and returns nothing. w, v (d_ℓ,): the block and
        its v_ℓ. memory (rows, d_ℓ): what the block remembers, zeros at first. applied: how many
        updates the block has had. numbers: those that are declared here, as an array.
    rows: of memory. numbers: hyper-parameters, such as (step_size, momentum).
    """

    move: Callable[..., None]
    rows: int = 0
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True)
class UpdateRule:
    """w_ℓ ← w_ℓ − γ((ϑ − ϑ_ref) x_{i,ℓ} + mean_ℓ + ∇g(w_ℓ)), by one estimator for all methods.

    step_size: γ.
    reference: what ϑ_ref and mean are. `none`: both 0 (SGD). `snapshot`: ϑ of sample i at the last
        snapshot, and mean = 1/n Σ_j ϑ_j x_{j,ℓ} there (SVRG; its λ∇g terms at the snapshot cancel).
        `table`: ϑ of sample i when this party last used it, and the same mean over the party's
        table, which every update renews (SAGA).
    backward: whether ϑ goes to all parties; otherwise only the dominator updates its block.
    synchronous: whether the next samples are drawn only when every party has applied its updates.
    step: how a block moves along what stands in brackets; None: as written, w_ℓ − γ(…).
    """

    step_size: float
    reference: Literal["none", "snapshot", "table"] = "none"
    backward: bool = True
    synchronous: bool = False
    step: BlockStep | None = None


class PartyProblem:
    """The oracle that vertical algorithms ask; what it costs is counted by the network."""

    def __init__(self, data: PartySamples, objective: LinearObjective) -> None:
        """FedatlasError if labels do not suit the loss."""
        from fedatlas.arithmetic.kernels.formulas import LinearModel

        self.rows = data.train
        self._model = LinearModel(data.train.features, data.train.label, objective)
        self._test = data.test
        self.dimension = self._model.dimension
        self.samples = len(data.train)
        self._has_classes = has_two_classes(objective, data.metadata, data.train, data.test)

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient of every sample."""
        return self._model.smoothness

    def derivatives(self, margins: np.ndarray) -> np.ndarray:
        """ϑ_i = ∂L/∂z at the margins z_i of all samples, (n,); NaN where a margin is."""
        slopes = self._model.losses(margins)[1]
        # The compiled logistic loss bounds its exponent, and would take NaN for the bound.
        return np.where(np.isnan(margins), np.nan, slopes)

    def data_gradient(self, derivatives: np.ndarray) -> np.ndarray:
        """1/n Σ_i ϑ_i x_i, (d,): every party forms its own block of it."""
        return self._model.data_gradient(derivatives)

    def measure(self, x: np.ndarray) -> dict[str, float]:
        """Every measurement, over all training and test samples; never counted."""
        margins = self._model.margins(x)
        value, gradient = self._model.value_and_gradient(x, margins)
        measured = {"objective": value, "gradient_norm": float((gradient**2).sum() ** 0.5)}
        measured |= quality("train", margins, self.rows.label, self._has_classes)
        if self._test is not None:
            predicted = self._test.features @ x
            measured |= quality("test", predicted, self._test.label, self._has_classes)
        return measured
