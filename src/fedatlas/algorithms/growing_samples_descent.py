"""Output perturbation with sample sizes that grow over time, after Wang and Zhang."""

from math import floor
from typing import ClassVar

import numpy as np
from pydantic import Field, PositiveFloat

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.decentralised import (
    Iterate,
    UndirectedAlgorithm,
    output_perturbation,
)
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.privacy.accountants import Budget, PrivacyContext


class GrowingSamplesDescent(UndirectedAlgorithm):
    """Reconstructed: Wang, Zhang 2024 (arXiv:2310.11892), [43] of DP-GT, its output perturbation.

    x_i ← x_i + κ Σ_j w_ij (x̆_j − x_i) − γ g_i, g_i over m_k samples, x̆_j = x_j + Lap(σ), σ = noise.
    m_k = ⌊(m − 1) growth^k⌋ + 1 in place of the original's polynomial: with m = 2 and 1.002 the
    number that S2 has at horizon k, with growth 1 (as in DP-GT's comparison) m throughout.
    Decaying steps are the constants of DP-GT's scheme S2.

    growth: by which m_k − 1 rises in each iteration.
    """

    title: ClassVar[str] = "Varying samples [43]"
    source: ClassVar[str] = (
        "Wang, Zhang 2024, output perturbation, reconstructed from its abstract and the "
        "literature, with the steps, samples and noise of DP-GT's scheme S2 in place of polynomial "
        "sequences"
    )

    noise: PositiveFloat
    growth: float = Field(default=1.0, ge=1)

    def samples_at(self, k: int) -> int:
        """m_k."""
        return floor((self.samples - 1) * self.growth**k) + 1

    def budgets(self, context: PrivacyContext, iterations: int) -> dict[str, Budget]:
        samples = np.array([self.samples_at(k) for k in range(iterations)])
        releases = output_perturbation(self.noise), context, samples, iterations
        return {"output perturbation": self._releases(*releases)}

    def round(
        self, state: Iterate, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> Iterate:
        x = state.x
        x_sent = network.states.release(x, self.noise, random)
        g = self._gradients(x, problem, random, self.samples_at(state.k))
        x = x + self.coupling * network.states.towards(x, x_sent) - self.step_size * g
        return Iterate(state.k + 1, x)
