"""VFB²-SGD: asynchronous stochastic gradients over parties, with backward updating."""

from typing import ClassVar

from fedatlas.federations.vertical import VerticalAlgorithm
from fedatlas.federations.vertical.problem import UpdateRule


class Vfb2Sgd(VerticalAlgorithm):
    """VFB²-SGD (Zhang et al. 2021, arXiv:2103.00958, Algorithms 2 and 3); VFB-SGD if synchronous.

    Every dominator, again and again: draw i, get ŵ·x_i by Algorithm 1, send ϑ = ∂L/∂z and i to all
    other parties. Every party ℓ: w_ℓ ← w_ℓ − γ(ϑ x_{i,ℓ} + λ∇g(w_ℓ)).
    """

    title: ClassVar[str] = "VFB²-SGD"
    source: ClassVar[str] = (
        "Zhang, Gu, Deng, Huang 2021, Algorithms 2 and 3; the start is w⁰ = 0, our choice. The "
        "regulariser is taken where an update is applied, also by dominators"
    )

    @property
    def rule(self) -> UpdateRule:
        """v_ℓ = ϑ x_{i,ℓ} + λ∇g(w_ℓ)."""
        return UpdateRule(self.step_size, synchronous=self.synchronous)
