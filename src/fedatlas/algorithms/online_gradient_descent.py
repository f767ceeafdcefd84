"""Distributed online learning with Laplace noise on models, after Chen and Wang."""

from typing import ClassVar

import numpy as np
from pydantic import PositiveFloat

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.decentralised import (
    Iterate,
    UndirectedAlgorithm,
    output_perturbation,
)
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.privacy.accountants import Budget, PrivacyContext


class OnlineGradientDescent(UndirectedAlgorithm):
    """Reconstructed: Chen, Wang 2025 (arXiv:2306.14094), [42] of DP-GT.

    At iteration t every agent receives m new samples and takes the gradient of ALL that it has by
    then: d_i = mean of ∇ℓ(x_i, ξ) over its first m (t + 1) samples;
    x_i ← x_i + κ Σ_j w_ij (x_j + ζ_j − x_i − ζ_i) − γ d_i, ζ ~ Lap(ν), ν = noise. There is no set
    to project on. Decaying sequences are the constants of DP-GT's scheme S2. Samples arrive in the
    order of the agent's shard; when all have, all are used.
    """

    title: ClassVar[str] = "Online learning [42]"
    source: ClassVar[str] = (
        "Chen, Wang 2025, reconstructed from its abstract and the literature, with the steps and "
        "noise of DP-GT's scheme S2 in place of decaying sequences"
    )

    noise: PositiveFloat

    def budgets(self, context: PrivacyContext, iterations: int) -> dict[str, Budget]:
        """In iteration t a sample weighs 1/(m (t + 1))."""
        arrived = np.minimum(self.samples * np.arange(1, iterations + 1), context.samples)
        releases = output_perturbation(self.noise), context, arrived, iterations
        return {
            "own value as sent": self._releases(*releases, own_broadcast=True),
            "own value exact": self._releases(*releases),
        }

    def round(
        self, state: Iterate, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> Iterate:
        x = state.x
        x_sent = network.states.release(x, self.noise, random)
        arrived = problem.first_samples(self.samples * (state.k + 1))
        d = problem.gradients(x, arrived, self.clipping_rule)
        x = x - self.coupling * (network.states.in_laplacian @ x_sent) - self.step_size * d
        return Iterate(state.k + 1, x)
