"""Gradient perturbation by Gaussian noise, after the weighted distributed DP-ERM of Kang et al."""

from typing import ClassVar

import numpy as np
from pydantic import Field, PositiveFloat

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.decentralised import Iterate, UndirectedAlgorithm
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.privacy.accountants import (
    Budget,
    PrivacyContext,
    gaussian_basic,
    gaussian_tight,
    gaussian_zcdp,
)


class GaussianGradientDescent(UndirectedAlgorithm):
    """Reconstructed: Kang, Liu, Wang 2021 (arXiv:1910.10308), [36] of DP-GT, on a graph.

    x_i ← x_i + κ Σ_j w_ij (x_j − x_i) − γ (g_i + b_i), b_i ~ N(0, s² I), s = noise. The original
    has a server and weighs clients by their samples; a graph without weights is our adaptation.
    Models are sent exactly: they follow from noisy gradients.

    delta_per_step: δ_0 that each of the iterations spends, our choice.
    """

    title: ClassVar[str] = "Gaussian gradients [36]"
    source: ClassVar[str] = (
        "Kang, Liu, Wang 2021, reconstructed from its abstract and the literature and moved from a "
        "server to a graph, with the steps, samples and noise of DP-GT's scheme S2"
    )

    noise: PositiveFloat
    delta_per_step: float = Field(default=1e-5, gt=0, lt=1)

    @property
    def _points_are_released(self) -> bool:
        return True

    def budgets(self, context: PrivacyContext, iterations: int) -> dict[str, Budget]:
        """Gradients are sent with l2 sensitivity C/m."""
        ratios = np.full(iterations, self.gradient_bound / self.samples / self.noise)
        return {
            "basic composition": gaussian_basic(ratios, self.delta_per_step),
            f"zCDP, δ = {self.delta_per_step:g}": gaussian_zcdp(ratios, self.delta_per_step),
            f"exact, δ = {self.delta_per_step:g}": gaussian_tight(ratios, self.delta_per_step),
        }

    def round(
        self, state: Iterate, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> Iterate:
        x = state.x
        x_sent = network.states.send(x)
        b = self.noise * network.draws.normal(random, x)
        g = self._gradients(x, problem, random)
        x = x - self.coupling * (network.states.in_laplacian @ x_sent) - self.step_size * (g + b)
        return Iterate(state.k + 1, x)
