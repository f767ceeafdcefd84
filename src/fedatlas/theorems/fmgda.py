"""FMGDA's Theorem 1 and Corollary 1 on AUC maximisation with a linear scorer.

L_f is Assumption 2's, κ = L_f/μ and L = L_f (1 + κ). With h̄ = N^(2/3)/L the corollary's
η_t = h̄/max(t + 3/2, E)^(1/3) stays at 1/(12 L q) for E = 1728 q³N² iterations. Remark 1's
q = (T/N²)^(1/3) makes that 1728 T: its steps never fall within the T iterations.

The proof needs more than the theorem states: 30κ²L_f²ĉ²/(c²μ²) ≤ 17/480, so ĉ ≤ 0.034 c/κ², and
9 c L_f²/(2μ) ≥ 211/480, so c ≥ 0.098 μ/L_f². The latter contradicts c < μ/(6L) wherever μ ≤ 1/2.
"""

from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt

from fedatlas.algorithms.fmgda import Fmgda
from fedatlas.evaluation.bounds import SQUARED_PRIMAL_GRADIENT, Bound
from fedatlas.federations.algorithm import StepBound
from fedatlas.theory.auc import MinMaxConstants
from fedatlas.theory.theorems import Course, Theorem

#: How close a run's momenta must be to those of the theorem, as a share.
_CLOSE = 0.01


def theorems(method: Fmgda, constants: MinMaxConstants, course: Course) -> list[Theorem]:
    """Corollary 1 as printed, and with the constants of its proof."""
    setting = _Setting(method, constants, course.rounds * method.local_steps)
    return [setting.theorem(printed=printed) for printed in (True, False)]


@dataclass(frozen=True)
class _Setting:
    """A run in the theorem's terms. iterations: T."""

    method: Fmgda
    of: MinMaxConstants
    iterations: int

    @cached_property
    def first_rate(self) -> float:
        """η_0 = 1/(12 L q)."""
        return 1 / (12 * self.of.outer_smoothness * self.method.local_steps)

    def theorem(self, *, printed: bool) -> Theorem:
        """The corollary's conditions and, where T ≤ N²q³, its bound."""
        of, method = self.of, self.method
        most = min(1 / 6, 1 / (6 * of.outer_smoothness), of.concavity / (6 * of.outer_smoothness))
        share = sqrt(11 / 2880 if printed else 17 / 14400) / of.condition**2
        dual = min(method.dual_step_size / self.first_rate, most)  # c
        primal = min(share * dual, most)  # the largest ĉ
        steps = tuple(
            StepBound(name, value, largest * self.first_rate, "Corollary 1")
            for name, value, largest in (
                ("ĉη", method.primal_step_size, primal),
                ("cη", method.dual_step_size, most),
            )
        )
        step = min(method.primal_step_size / self.first_rate, primal)
        return Theorem(
            "Corollary 1",
            "as printed" if printed else "constants of its proof",
            of.smoothness,
            steps,
            ", ".join(self._lacks(most, printed)),
            self._bound(step, dual),
            self.iterations,
            "σ and ζ are those at the start: without bounded scores they have no bound",
        )

    def _lacks(self, most: float, printed: bool) -> list[str]:
        of, method, lacks = self.of, self.method, []
        batch, q = method.batch_size, method.local_steps
        if batch is None:
            return ["minibatches"]
        # c₁η_0² with c₁ = L²/(20 q N²) + 60 L²/(b N).
        weight = (1 / (20 * q * of.workers**2) + 60 / (batch * of.workers)) / (12 * q) ** 2
        for symbol, value in (("α", method.primal_momentum), ("β", method.dual_momentum)):
            if abs(value / weight - 1) > _CLOSE:
                lacks.append(f"{symbol} = {weight:.2g}")
        falls = 1728 * q**3 * of.workers**2
        constant = method.constant_iterations
        if constant != falls and min(falls, constant or falls) < self.iterations:
            lacks.append(f"steps that fall after {falls:.3g} iterations")
        if batch > 600 * q * of.workers:
            lacks.append("b ≤ 600 q N")
        if method.initial_batch_size not in (None, batch * q):
            lacks.append("B = b q")
        least = 422 / 4320 * of.concavity / of.smoothness**2
        if not printed and least >= most:
            lacks.append(f"c ≥ {least:.2g}, which no c < {most:.2g} is")
        return lacks

    def _bound(self, primal: float, dual: float) -> Bound | None:
        """(11), with (NT)^(−2/3) ≤ q/T and the logarithm at the end, so that it is constant/T.

        primal, dual: ĉ and c.
        """
        of, q, batch = self.of, self.method.local_steps, self.method.batch_size
        if batch is None or self.iterations > of.workers**2 * q**3:
            return None
        variance = of.deviation**2
        start = 2 * of.gap / primal + 12 * of.smoothness**2 * of.distance**2 / (dual * of.concavity)
        noise = variance * (1 + 50 * of.condition**2)
        later = (
            5 * variance / of.concavity**2
            + variance / 20
            + variance / (10 * batch)
            + of.heterogeneity**2 / 4
        )
        constant = (
            21 * of.outer_smoothness * q * start
            + 40 * q * noise
            + 2 * log(self.iterations + 1) * (144 * 2000 + 14400) / batch**2 * q * later
        )
        return Bound(SQUARED_PRIMAL_GRADIENT, "iterations", constant=constant)
