"""How steps, samples and noise depend on the horizon: the schemes of the DP-GT paper."""

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import floor, isfinite
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model


@dataclass(frozen=True)
class TrackingSteps:
    """Steps of gradient tracking, constant within a run: α_K, β_K, γ_K and m_K of the paper.

    state_coupling: α, of neighbours' states. tracker_coupling: β, of neighbours' trackers.
    step_size: γ, along the tracker. samples: m, that an agent draws at every iteration.
    """

    state_coupling: float
    tracker_coupling: float
    step_size: float
    samples: int


class S1(Model):
    """Scheme (S1) of DP-GT, section 3.2: everything is a power of the horizon K or the index k.

    α = alpha_factor/(K+1)^p_alpha, and so on; m = ⌊samples_factor K^p_m⌋ + 1; σ_k = (k+1)^p_zeta
    of states, (k+1)^p_eta of trackers. (Section 4.1 divides by powers of K, not of K + 1.)

    alpha_factor: coupling of states, before it is divided by a power of K + 1.
    beta_factor: coupling of trackers, likewise.
    gamma_factor: step size, likewise.
    samples_factor: of K^p_m, in the number of samples of a gradient.
    p_alpha, p_beta, p_gamma: power of K + 1 by which the factor is divided.
    p_m: power of K in the number of samples of a gradient.
    p_zeta: power of k + 1 in the scale of the noise on states.
    p_eta: power of k + 1 in the scale of the noise on trackers.
    """

    name: Literal["s1"] = "s1"
    alpha_factor: PositiveFloat
    beta_factor: PositiveFloat
    gamma_factor: PositiveFloat
    samples_factor: PositiveFloat
    p_alpha: PositiveFloat
    p_beta: PositiveFloat
    p_gamma: PositiveFloat
    p_m: NonNegativeFloat
    p_zeta: float
    p_eta: float

    def steps(self, horizon: int) -> TrackingSteps:
        """α_K, β_K, γ_K and m_K."""
        base = horizon + 1
        return TrackingSteps(
            state_coupling=self.alpha_factor / _power(base, self.p_alpha),
            tracker_coupling=self.beta_factor / _power(base, self.p_beta),
            step_size=self.gamma_factor / _power(base, self.p_gamma),
            samples=_samples(self.samples_factor, horizon, self.p_m),
        )

    def noise(self, horizon: int) -> np.ndarray:
        """(2, K + 1) scales of the noise on states, σ_k^(ζ), and on trackers, σ_k^(η)."""
        from fedatlas.arithmetic.kernels.elementary import powers

        k = np.arange(1.0, horizon + 2)
        return np.stack([powers(k, self.p_zeta), powers(k, self.p_eta)])


class S2(Model):
    """Scheme (S2) of DP-GT, section 3.2: constant steps, samples and noise exponential in K.

    m = ⌊samples_base^K⌋ + 1; σ = p_zeta^K of states, p_eta^K of trackers, the same at all k.
    Convergence and a finite budget need samples_base > 1, the definition does not.

    alpha: coupling of states. beta: coupling of trackers. gamma: step size.
    samples_base: its K-th power is the number of samples of a gradient.
    p_zeta: its K-th power is the scale of the noise on states.
    p_eta: its K-th power is the scale of the noise on trackers.
    """

    name: Literal["s2"] = "s2"
    alpha: PositiveFloat
    beta: PositiveFloat
    gamma: PositiveFloat
    samples_base: NonNegativeFloat
    p_zeta: float = Field(gt=0, lt=1)
    p_eta: float = Field(gt=0, lt=1)

    def steps(self, horizon: int) -> TrackingSteps:
        """α, β, γ and m_K."""
        samples = _samples(1.0, self.samples_base, horizon)
        return TrackingSteps(self.alpha, self.beta, self.gamma, samples)

    def noise(self, horizon: int) -> np.ndarray:
        """(2, K + 1) scales of the noise on states, σ_k^(ζ), and on trackers, σ_k^(η)."""
        scales = [[_power(self.p_zeta, horizon)], [_power(self.p_eta, horizon)]]
        return np.tile(scales, horizon + 1)


class Constant(Model):
    """The same steps, samples and noise whatever the horizon; not a scheme of the paper.

    Without noise (0) there is no privacy: ε is infinite.

    alpha: coupling of states. beta: coupling of trackers. gamma: step size.
    samples: of each gradient.
    state_noise_scale: of the noise on states. tracker_noise_scale: of that on trackers.
    """

    name: Literal["constant"] = "constant"
    alpha: PositiveFloat
    beta: PositiveFloat
    gamma: PositiveFloat
    samples: PositiveInt
    state_noise_scale: NonNegativeFloat
    tracker_noise_scale: NonNegativeFloat

    def steps(self, horizon: int) -> TrackingSteps:
        """α, β, γ and m."""
        return TrackingSteps(self.alpha, self.beta, self.gamma, self.samples)

    def noise(self, horizon: int) -> np.ndarray:
        """(2, K + 1) scales of the noise on states, σ_k^(ζ), and on trackers, σ_k^(η)."""
        return np.tile([[self.state_noise_scale], [self.tracker_noise_scale]], horizon + 1)


Scheme: TypeAlias = Annotated[S1 | S2 | Constant, Field(discriminator="name")]


@lru_cache
def _power(base: float, exponent: float) -> float:
    """base^exponent, correctly rounded: the C library's depends on the processor.

    Plans ask for it, which load no compiled code.
    """
    return float(Decimal(base) ** Decimal(exponent))


def _samples(factor: float, base: float, exponent: float) -> int:
    """⌊factor base^exponent⌋ + 1."""
    try:
        product = factor * base**exponent
    except OverflowError:
        product = float("inf")
    if not isfinite(product):
        raise FedatlasError(
            f"scheme: {factor:g} · {base:g}^{exponent:g} samples at an iteration are beyond all "
            "numbers; lower the horizon or the growth of the samples"
        )
    return floor(product) + 1
