"""Weights of answers that are τ rounds old: the functions s of FedAsync, also for FedBuff."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat

from fedatlas.schema.models import Model


class ConstantStaleness(Model):
    """s = 1: what is old counts as what is new."""

    kind: Literal["constant"] = "constant"

    def factor(self, staleness: np.ndarray) -> np.ndarray:
        """s(τ)."""
        return np.ones(len(staleness))


class Polynomial(Model):
    """s = (τ + 1)^−a.

    power: a.
    """

    kind: Literal["polynomial"]
    power: PositiveFloat

    def factor(self, staleness: np.ndarray) -> np.ndarray:
        """s(τ)."""
        from fedatlas.arithmetic.kernels.elementary import powers

        found: np.ndarray = powers(staleness + 1.0, -self.power)
        return found


class Hinge(Model):
    """s = 1 up to τ = b, then 1/(a(τ − b) + 1).

    slope: a. grace: b.
    """

    kind: Literal["hinge"]
    slope: PositiveFloat
    grace: NonNegativeFloat

    def factor(self, staleness: np.ndarray) -> np.ndarray:
        """s(τ)."""
        found: np.ndarray = 1 / (self.slope * np.maximum(staleness - self.grace, 0) + 1)
        return found


#: s, of one of these kinds.
Staleness = Annotated[ConstantStaleness | Polynomial | Hinge, Field(discriminator="kind")]
