"""Theorems 4 to 6 of VFB² (arXiv:2103.00958), on objectives that may be nonconvex.

The mean of ‖∇f(w)‖² over dominated updates, the epochs v' = T. Statements of Theorems 5 and 6 have
an unknown σ; "constants of its proof" have Γ_* of (153) and (190) for it, with the largest c_t that
their recurrences give. Given γ, all their conditions on m0 and n^α are on γ L_* = m0/n^α, and
weakest for α → 0, n^α → 1.
"""

from dataclasses import dataclass
from math import expm1, log1p, sqrt

from fedatlas.algorithms.vfb2_saga import Vfb2Saga
from fedatlas.algorithms.vfb2_sgd import Vfb2Sgd
from fedatlas.algorithms.vfb2_svrg import Vfb2Svrg
from fedatlas.evaluation.bounds import GRADIENT, SQUARED_GRADIENT, Bound
from fedatlas.federations.algorithm import StepBound
from fedatlas.theory.constants import PartyConstants
from fedatlas.theory.theorems import (
    AS_PRINTED,
    OF_PROOF,
    Analysis,
    Course,
    Theorem,
    largest_step,
    theorem,
)

_UPDATES = "dominated updates"
_NOTES = {
    "Theorem 4": "step and updates for the level reached; at this step 8 L_* γ q G of (119) is 8 "
    "ε, of which ε/2 is allowed; the proof is of the mean of ‖∇f‖² ≤ ε, with τ ∝ 1/ε",
    "Theorem 5": "σ is not given; c_t runs over global iterations, q in every epoch: N stands for "
    "q N",
    "Theorem 6": "σ is not given; T is bounded, so that no less than 16 L_* (f(w⁰) − f*) is ever "
    "promised, and ‖∇f(w⁰)‖² ≤ 2 L (f(w⁰) − f*); c_t runs over global iterations, q in every epoch",
}


@dataclass(frozen=True)
class _Sgd(Analysis):
    """(116) under (117)."""

    constants: PartyConstants
    delay: float

    def allows(self, step: float) -> bool:
        return 6 * (self.constants.largest_smoothness * step) ** 2 * self.delay < 1

    def bound(self, step: float) -> Bound:
        c = self.constants
        rate = c.largest_smoothness * step
        spread = 4 * c.parties * c.gradient_bound / (1 - 6 * rate**2 * self.delay)
        return Bound(
            SQUARED_GRADIENT,
            _UPDATES,
            constant=4 * c.gap / step,
            floor=(22 * rate**2 * self.delay + 2 * rate) * spread,
        )


def theorem_4(method: Vfb2Sgd, constants: PartyConstants, course: Course) -> list[Theorem]:
    """VFB²-SGD: as printed for the ε that the run reached, and by its proof."""
    assert course.delays is not None
    delay, updates = course.delays.nonconvex, course.dominated_updates
    scale = constants.largest_smoothness * constants.parties * constants.gradient_bound  # L_* q G
    # No run needs more than what holds at the start.
    aim = min(course.level(GRADIENT), sqrt(2 * constants.largest_smoothness * constants.gap))
    longest = 512 * constants.parties * constants.gradient_bound / aim**2
    needed = constants.gap * scale / aim**2
    lacks = [f"τ ≤ {longest:.2g}"] if delay > longest else []
    lacks += [f"T ≥ {needed:.2g}"] if updates < needed else []
    printed = Theorem(
        "Theorem 4",
        AS_PRINTED,
        constants.largest_smoothness,
        (StepBound("γ", method.step_size, aim / scale, "Theorem 4"),),
        ", ".join(lacks),
        Bound(
            GRADIENT,
            _UPDATES,
            floor=max(method.step_size * scale, sqrt(constants.gap * scale / updates)),
        ),
        updates,
        _NOTES["Theorem 4"],
    )
    proved = theorem(
        "Theorem 4",
        _Sgd(constants, delay),
        method.step_size,
        updates,
        constants.largest_smoothness,
        version=OF_PROOF,
    )
    return [printed, proved]


@dataclass(frozen=True)
class _Reduced(Analysis):
    """Theorems 5 and 6, by x = γ L_*.

    limit: x < limit, 1/8 or 1/20. epochs: that ⌊1/(growth x)⌋ must allow: N of an outer loop, or
    all T. stale: λ_γ = 2/(1 − stale · x² τ). slope: c_t = slope · γ L_*² ((1 + growth x)^N − 1)/
    (growth x). gamma: whether Γ_* must be positive, too.
    """

    constants: PartyConstants
    delay: float
    epochs: float
    limit: float
    growth: float
    stale: float
    slope: float
    gamma: bool

    def allows(self, step: float) -> bool:
        x = step * self.constants.largest_smoothness
        small = x < self.limit and self.epochs * self.growth * x <= 1
        near = 40 * x**2 * self.delay < 1 - x / self.limit
        return small and near and (not self.gamma or self._gamma(x) > 0)

    def _gamma(self, x: float) -> float:
        """Γ_*/γ of (153) and (190)."""
        rest = 1 - self.stale * x**2 * self.delay
        if rest <= 0:
            return -1.0
        largest = self.slope * x * expm1(self.epochs * log1p(self.growth * x)) / self.growth
        lost = 2 / rest * (10 * x**2 * self.delay + x + 2 * largest)
        smoothness = self.constants.largest_smoothness
        return (0.5 - lost) / (2 + 4 * 2 / rest * (smoothness * x) ** 2 * self.delay)

    def bound(self, step: float) -> Bound:
        gamma = self._gamma(step * self.constants.largest_smoothness)
        return Bound(SQUARED_GRADIENT, _UPDATES, constant=self.constants.gap / (step * gamma))


def theorem_5(method: Vfb2Svrg, constants: PartyConstants, course: Course) -> list[Theorem]:
    """VFB²-SVRG."""
    epochs = method.inner_passes * constants.samples
    shape = {"limit": 1 / 8, "growth": 2.0, "stale": 20.0, "slope": 1 / 2}
    return _reduced("Theorem 5", method.step_size, constants, course, epochs, shape)


def theorem_6(method: Vfb2Saga, constants: PartyConstants, course: Course) -> list[Theorem]:
    """VFB²-SAGA."""
    shape = {"limit": 1 / 20, "growth": 4.0, "stale": 180.0, "slope": 5 / 2}
    updates = course.dominated_updates
    return _reduced("Theorem 6", method.step_size, constants, course, updates, shape)


def _reduced(
    name: str,
    step: float,
    constants: PartyConstants,
    course: Course,
    epochs: float,
    shape: dict[str, float],
) -> list[Theorem]:
    assert course.delays is not None
    smoothness, delay = constants.largest_smoothness, course.delays.nonconvex
    printed, proved = (
        _Reduced(constants, delay, epochs, **shape, gamma=gamma) for gamma in (False, True)
    )
    steps = (StepBound("γ", step, largest_step(printed.allows), name),)
    lacks = "" if smoothness >= 1 else "L_* ≥ 1"
    return [
        Theorem(
            name, AS_PRINTED, smoothness, steps, epochs=course.dominated_updates, note=_NOTES[name]
        ),
        theorem(
            name,
            proved,
            step,
            course.dominated_updates,
            smoothness,
            version=OF_PROOF,
            lacks=lacks,
        ),
    ]
