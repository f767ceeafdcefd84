"""Theorems 1 to 3 of VFB² (arXiv:2103.00958), on strongly convex objectives.

Sub-optimality after v(t) epochs, of SVRG after S outer loops. "As printed" are the statements.
Assumption 1.3, gradients bounded at all w, holds of no strongly convex function: no run meets it.
"Constants of its proof" are the inequalities that the proofs end with, (34), (54) and (88), with
the G of those w where f(w) ≤ f(w⁰). The proofs also take the sample of a collaborative update for
independent of w_t, though its dominated update has used it before.
"""

from dataclasses import dataclass, replace
from math import inf, log, log1p

import numpy as np

from fedatlas.algorithms.vfb2_saga import Vfb2Saga
from fedatlas.algorithms.vfb2_sgd import Vfb2Sgd
from fedatlas.algorithms.vfb2_svrg import Vfb2Svrg
from fedatlas.evaluation.bounds import LAST_SUBOPTIMALITY, Bound
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

_EVERYWHERE = "gradients bounded at all w (Assumption 1.3)"
_EPOCHS, _LOOPS = "epochs v(t)", "outer loops"
_NOTES = {
    "Theorem 1": "steps and epochs for the level reached; (38) has γ³ for the γ² of (37), and "
    "γ < 1/(L_* √(2τ)) is used as if from below: by (37) γ ∝ ε and 1/ε stay, with μ² for μ^(4/3)",
    "Theorem 2": "condition 4 falls with γ² only: γ ∝ √ε, and epochs grow like ε^(-1/2) log 1/ε; "
    "C lacks the τ of the proof",
    "Theorem 3": "no step meets condition 3 for an ε below f(w⁰) − f*; the 2/L of (88) is dropped "
    "in the next line",
}
_NEAR = "G where f(w) ≤ f(w⁰)"


@dataclass(frozen=True)
class _Problem:
    """The symbols of the theorems: n, L_*, μ, G, f(w⁰) − f*, τ, η1, and the run's v(t)."""

    samples: int
    smoothness: float
    convexity: float
    gradient: float
    gap: float
    delay: float
    window: float
    epochs: float

    def stale(self, step: float, factor: float) -> float:
        """1 − factor · L_*² γ² τ."""
        return 1 - factor * (self.smoothness * step) ** 2 * self.delay

    def linear(self, contraction: float, floor: float, factor: float = 1.0) -> Bound:
        """From factor · (f(w⁰) − f*) down to a floor, by epochs v(t)."""
        return Bound(
            LAST_SUBOPTIMALITY,
            _EPOCHS,
            start=factor * self.gap,
            contraction=contraction,
            floor=floor,
        )


def _problem(constants: PartyConstants, course: Course) -> _Problem:
    assert constants.convexity is not None and course.delays is not None
    return _Problem(
        constants.samples,
        constants.largest_smoothness,
        constants.convexity,
        constants.gradient_bound,
        constants.gap,
        course.delays.convex,
        course.delays.window,
        course.delays.epochs(course.global_iterations),
    )


def _joined(*conditions: str) -> str:
    return ", ".join(filter(None, conditions))


def _theorem(
    name: str,
    p: _Problem,
    analysis: Analysis,
    step: float,
    printed: bool,
    lacks: str,
    epochs: float,
) -> Theorem:
    """A theorem as printed, or by its proof."""
    version, everywhere, note = (
        (AS_PRINTED, _EVERYWHERE, _NOTES[name]) if printed else (OF_PROOF, "", _NEAR)
    )
    lacks = _joined(everywhere, lacks)
    return theorem(
        name, analysis, step, epochs, p.smoothness, version=version, lacks=lacks, note=note
    )


# ------------------------------------------------------------------------------------- Theorem 1


@dataclass(frozen=True)
class _Sgd(Analysis):
    """(34) under (35)."""

    p: _Problem

    def allows(self, step: float) -> bool:
        return self.p.stale(step, 2) > 0 and step * self.p.convexity < 2

    def bound(self, step: float) -> Bound:
        p = self.p
        rate = p.smoothness * step * p.delay**0.5  # L_* γ √τ
        error = step * (5.5 * rate**2 * p.delay**0.5 + rate / 2)
        floor = error * 2 * p.gradient / p.stale(step, 2) * 2 / (step * p.convexity)
        return p.linear(1 - step * p.convexity / 2, floor)


def theorem_1(method: Vfb2Sgd, constants: PartyConstants, course: Course) -> list[Theorem]:
    """VFB²-SGD: as printed for the ε that the run reached, and by its proof."""
    p = _problem(constants, course)
    lacks = "" if p.smoothness >= 1 else "L_* ≥ 1"
    proved = _theorem("Theorem 1", p, _Sgd(p), method.step_size, False, lacks, p.epochs)
    return [_printed_theorem_1(method.step_size, p, course), proved]


def _printed_theorem_1(step: float, p: _Problem, course: Course) -> Theorem:
    root = (p.gradient * p.smoothness**2) ** (1 / 3)
    per_level = p.convexity ** (1 / 3) / (96 ** (1 / 3) * root)

    def epochs(level: float) -> float:
        return 44 * root / (p.convexity ** (4 / 3) * level) * log(2 * p.gap / level)

    aim = min(course.level(LAST_SUBOPTIMALITY), p.gap)
    longest = min(aim ** (-4 / 3), root**2 / (aim**2 * p.convexity ** (2 / 3)))
    lacks = _joined(
        _EVERYWHERE,
        f"τ ≤ {longest:.2g}" if p.delay > longest else "",
        f"v(t) ≥ {epochs(aim):.2g}" if p.epochs < epochs(aim) else "",
    )
    # The lowest level for which so many epochs suffice, and for which the step is small enough.
    after = 1 / largest_step(
        lambda inverse: 1 / inverse >= 2 * p.gap or epochs(1 / inverse) <= p.epochs
    )
    return Theorem(
        "Theorem 1",
        AS_PRINTED,
        p.smoothness,
        (StepBound("γ", step, aim * per_level, "Theorem 1"),),
        lacks,
        p.linear(0.0, max(after, step / per_level), factor=0.0),
        p.epochs,
        _NOTES["Theorem 1"],
    )


# ------------------------------------------------------------------------------------- Theorem 2


@dataclass(frozen=True)
class _Svrg(Analysis):
    """Conditions 1 to 4, or (54); inner, loops: v(t) of an outer loop, and the run's S."""

    p: _Problem
    printed: bool
    inner: float
    loops: float

    def error(self, step: float) -> float:
        """C."""
        stale = 1.0 if self.printed else self.p.delay
        return (self.p.smoothness**2 * step * stale + self.p.smoothness) * step**2 / 2

    def rate(self, step: float) -> float:
        """ρ."""
        p = self.p
        lost = 16 * p.smoothness**2 * p.window * self.error(step) / p.convexity
        return step * p.convexity / 2 - lost

    def kept(self, step: float) -> float:
        """8 L_*² C √τ/(ρ μ), with η1 for √τ in the proof."""
        p = self.p
        window = p.delay**0.5 if self.printed else p.window
        return 8 * p.smoothness**2 * window * self.error(step) / (self.rate(step) * p.convexity)

    def allows(self, step: float) -> bool:
        return self.p.stale(step, 2) > 0 and self.rate(step) > 0 and self.kept(step) <= 0.05

    def bound(self, step: float) -> Bound:
        p, rate = self.p, self.rate(step)
        delayed = (p.smoothness * step) ** 2 * p.delay**1.5 * (28 * self.error(step) + 5 * step)
        added = delayed * 18 * p.gradient / (p.stale(step, 2) * rate)
        if self.printed:  # condition 4 has twice that at most ε/8, and ε/2 remains
            contraction, floor = 0.75, 8 * added
        else:
            contraction = float(np.exp(self.inner * log1p(-rate))) + self.kept(step)
            left = 1 - contraction
            # A geometric sum, over all loops where it has no limit.
            floor = added * (1 / left if left > 0 else self.loops * contraction**self.loops)
        return Bound(LAST_SUBOPTIMALITY, _LOOPS, start=p.gap, contraction=contraction, floor=floor)


def theorem_2(method: Vfb2Svrg, constants: PartyConstants, course: Course) -> list[Theorem]:
    """VFB²-SVRG."""
    p = _problem(constants, course)
    loops = course.dominated_updates / (method.inner_passes * p.samples)
    found = []
    for printed in (True, False):
        analysis = _Svrg(p, printed, p.epochs / loops, loops)
        rate = analysis.rate(min(method.step_size, largest_step(analysis.allows)))
        needed = log(0.25) / log1p(-rate) if rate > 0 else inf
        enough = analysis.inner >= needed
        lacks = "" if enough else f"v(t) ≥ {needed:.2g} in a loop"
        declared = _theorem("Theorem 2", p, analysis, method.step_size, printed, lacks, loops)
        # A loop shrinks the error to three quarters only if it is long enough.
        found.append(declared if enough or not printed else replace(declared, bound=None))
    return found


# ------------------------------------------------------------------------------------- Theorem 3


@dataclass(frozen=True)
class _Saga(Analysis):
    """Conditions 1 to 5, and the bound after (88)."""

    p: _Problem
    printed: bool

    def errors(self, step: float) -> tuple[float, float, float]:
        """c0, c1 and c2; τ for η1² and √τ τ for √τ η1 τ2."""
        p = self.p
        rate = p.smoothness**2 * step**3 * p.delay + p.smoothness * step**2
        first = 2 * step**3 * p.delay**1.5 + rate * 180 * step**2 * p.delay**1.5
        first += 8 * step**2 * p.delay
        first *= 18 * p.gradient * p.smoothness**2 / p.stale(step, 72)
        second = 2 * p.smoothness**2 * rate * (p.delay if self.printed else p.window)
        return first, second, 4 * rate * p.smoothness**2 * p.delay / p.samples

    def gain(self, step: float) -> float:
        """γ μ²/4 − 2 c1 − c2."""
        _, second, third = self.errors(step)
        return step * self.p.convexity**2 / 4 - 2 * second - third

    def contractions(self, step: float) -> np.ndarray:
        """ρ that satisfy conditions 4 and 5, from 1 − 1/n and 1 − γμ/4 to 1."""
        p, (_, second, third) = self.p, self.errors(step)
        slowest = min(1 / p.samples, step * p.convexity / 4)
        left = slowest * np.linspace(0.01, 0.99, 99)  # 1 − ρ
        rest = (1 - left) / (1 / p.samples - left)  # 1/(1 − (1 − 1/n)/ρ)
        gained = step * p.convexity**2 / 4
        fine = (2 * second + third * (1 + rest) <= gained) & (third + second * (2 + rest) <= gained)
        return left[fine]

    def allows(self, step: float) -> bool:
        whole = self.p.stale(step, 72) > 0 and step * self.p.convexity < 4
        return whole and len(self.contractions(step)) > 0

    def bound(self, step: float) -> Bound:
        """With the ρ that promises most at the end."""
        p, left = self.p, self.contractions(step)
        quarter = step * p.convexity / 4
        scale = (1.0 if self.printed else p.smoothness / 2) / self.gain(step)
        starts = scale * (1 + (1 - left) / (quarter - left))
        floors = scale * self.errors(step)[0] / (quarter * left)
        ends = starts * p.gap * np.exp(p.epochs * np.log1p(-left)) + floors
        best = int(np.argmin(ends))
        return p.linear(float(1 - left[best]), float(floors[best]), float(starts[best]))


def theorem_3(method: Vfb2Saga, constants: PartyConstants, course: Course) -> list[Theorem]:
    """VFB²-SAGA."""
    p = _problem(constants, course)
    return [
        _theorem("Theorem 3", p, _Saga(p, printed), method.step_size, printed, "", p.epochs)
        for printed in (True, False)
    ]
