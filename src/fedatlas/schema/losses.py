"""Parts of objectives of linear models: losses, regularisers, terms without a gradient.

Sources: those of `schema.objectives`. The terms are those of composite optimisation, as in Yuan,
Zaheer, Reddi 2021 (arXiv:2011.08474).
"""

from dataclasses import dataclass
from enum import Enum
from math import inf, sqrt
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field, PositiveFloat

from fedatlas.objectives import Functions, checked_functions, own_losses
from fedatlas.schema.models import Model


class Loss(Enum):
    """Loss of a margin z = aᵀx against a label b.

    curvature, steepest: its largest absolute second and first derivative. labels: `signs` if they
    must be ±1, `numbers` if any number is allowed. convex: whether the loss is. formula: in z and
    y.
    """

    ROBUST = (1.0, sqrt(0.5), "numbers", False, "log(1 + (z − y)²/2)")
    LOGISTIC = (0.25, 1.0, "signs", True, "log(1 + exp(−yz))")
    SQUARE = (2.0, inf, "numbers", True, "(z − y)²")

    def __init__(
        self, curvature: float, steepest: float, labels: str, convex: bool, formula: str
    ) -> None:
        self.curvature, self.steepest, self.labels = curvature, steepest, labels
        self.convex, self.formula = convex, formula


@dataclass(frozen=True)
class OwnLinearLoss:
    """A loss of a file of `fedatlas.objectives` with its parameters; otherwise like `Loss`."""

    name: str
    parameters: tuple[tuple[str, float], ...]

    @property
    def labels(self) -> str:
        """What labels must be."""
        return own_losses()[self.name].labels

    @property
    def convex(self) -> bool:
        """Whether the file declares it."""
        return own_losses()[self.name].convex

    @property
    def functions(self) -> Functions:
        """Value and derivative; FedatlasError if one is not what the file says."""
        return checked_functions(self.name, self.parameters)

    def predictions(self, margins: np.ndarray) -> np.ndarray:
        """What margins (n,) predict beside labels that are not ±1, (n,)."""
        function, numbers = self.functions.prediction, self.functions.numbers
        if function is None:
            return margins
        return np.array([function(margin, *numbers) for margin in margins.tolist()])

    @property
    def curvature(self) -> float:
        """As of `Loss`; infinite where none is declared."""
        return self.functions.curvature

    @property
    def steepest(self) -> float:
        """As of `Loss`; infinite where none is declared."""
        return self.functions.steepest


#: What a linear objective has.
MarginLoss: TypeAlias = Loss | OwnLinearLoss


class Regulariser(Enum):
    """Penalty on the parameters, multiplied by the objective's weight.

    curvature, steepest: largest absolute second and first derivative in one coordinate.
    formula: without the weight.
    """

    NONE = (0.0, 0.0, "")
    # Steepest at x_j² = 1/3.
    NONCONVEX = (2.0, 3 * sqrt(3) / 8, "Σ_j x_j² / (1 + x_j²)")
    L2 = (1.0, inf, "½ ‖x‖²")

    def __init__(self, curvature: float, steepest: float, formula: str) -> None:
        self.curvature, self.steepest, self.formula = curvature, steepest, formula


class L1(Model):
    """λ ‖x‖₁, the lasso's term; with an l2 regulariser, the elastic net's. weight: λ."""

    formula: ClassVar[str] = "λ ‖x‖₁"

    name: Literal["l1"]
    weight: PositiveFloat


class GroupLasso(Model):
    """λ Σ_g ‖x_g‖ over groups g of consecutive columns. weight: λ. size: columns of a group."""

    formula: ClassVar[str] = "λ Σ_g ‖x_g‖"

    name: Literal["group_lasso"]
    weight: PositiveFloat
    size: int = Field(ge=2)


class Box(Model):
    """0 where l ≤ x_j ≤ u for all j, and infinite elsewhere.

    lower: l, at most 0, since runs start at 0. upper: u, at least 0.
    """

    formula: ClassVar[str] = "0 if l ≤ x_j ≤ u for all j, else ∞"

    name: Literal["box"]
    lower: float = Field(le=0)
    upper: float = Field(ge=0)


#: What a composite objective has besides f: a convex ψ without a gradient, by its proximal map.
Nonsmooth: TypeAlias = Annotated[L1 | GroupLasso | Box, Field(discriminator="name")]
