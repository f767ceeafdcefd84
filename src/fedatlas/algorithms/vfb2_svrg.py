"""VFB²-SVRG: variance reduced by snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.vertical import VerticalAlgorithm
from fedatlas.federations.vertical.problem import PartyProblem, UpdateRule

if TYPE_CHECKING:
    from fedatlas.federations.vertical.network import PartyNetwork, PartyState


class Vfb2Svrg(VerticalAlgorithm):
    """VFB²-SVRG (Zhang et al. 2021, arXiv:2103.00958, Algorithms 4 and 5); VFB-SVRG if synchronous.

    Outer loop s: the snapshot wˢ, ϑ₀ᵢ of all samples there, and ∇f(wˢ). Inner loop, as VFB²-SGD
    with v_ℓ = [ϑ₁ x_{i,ℓ} + λ∇g(w_ℓ)] − [ϑ₀ᵢ x_{i,ℓ} + λ∇g(wˢ_ℓ)] + ∇_ℓ f(wˢ).

    inner_passes: the inner loop has inner_passes · n dominated updates.
    """

    title: ClassVar[str] = "VFB²-SVRG"
    source: ClassVar[str] = (
        "Zhang, Gu, Deng, Huang 2021, Algorithms 4 and 5, with λ∇g throughout (Algorithm 5 is "
        "printed without λ) and one snapshot per outer loop, behind a barrier (printed: one by "
        "every dominator). The inner length is not given: n dominated updates, our choice, as is "
        "w⁰ = 0. The regulariser is taken where an update is applied, also by dominators"
    )

    inner_passes: PositiveInt = 1

    @property
    def rule(self) -> UpdateRule:
        """v_ℓ = (ϑ₁ − ϑ₀ᵢ) x_{i,ℓ} + 1/n Σ_j ϑ₀ⱼ x_{j,ℓ} + λ∇g(w_ℓ): λ∇g(wˢ_ℓ) cancels."""
        return UpdateRule(self.step_size, reference="snapshot", synchronous=self.synchronous)

    def round(
        self, state: PartyState, problem: PartyProblem, network: PartyNetwork, random: RoundRandom
    ) -> PartyState:
        """A part of an inner loop, at its beginning with the snapshot."""
        if state.dominated_updates % (self.inner_passes * problem.samples) == 0:
            state = network.full_pass(state, self.rule, problem)
        return super().round(state, problem, network, random)

    def next_barrier(self, decided: int, samples: int) -> float:
        """The end of the inner loop."""
        inner = self.inner_passes * samples
        return inner * (decided // inner + 1)
