"""Output perturbation, then quantisation, with subsampled gradients, after Chen, Wang and Zhang."""

from typing import ClassVar

from pydantic import PositiveFloat

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.decentralised import (
    Iterate,
    UndirectedAlgorithm,
    on_lattice,
    output_perturbation,
    packed_bits,
)
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.privacy.accountants import Budget, PrivacyContext


class QuantisedGradientDescent(UndirectedAlgorithm):
    """Reconstructed: Chen, Wang, Zhang 2024 (arXiv:2403.18254), [44] of DP-GT, its ε-DP version.

    x_i ← x_i + κ Σ_j w_ij (z_j − x_i) − γ g_i, z_j = Q(x_j + ζ_j), ζ_j ~ Lap(σ), σ = noise; Q
    rounds at random, without bias, to multiples of Δ_q. Steps are constant, as in scheme S2.

    spacing: Δ_q, our choice.
    """

    title: ClassVar[str] = "Quantised models [44]"
    source: ClassVar[str] = (
        "Chen, Wang, Zhang 2024, reconstructed from its abstract and the literature, with the "
        "steps, samples and noise of DP-GT's scheme S2; the quantiser's step is our choice"
    )

    noise: PositiveFloat
    spacing: PositiveFloat = 0.01

    def budgets(self, context: PrivacyContext, iterations: int) -> dict[str, Budget]:
        """Quantisation comes after the noise."""
        releases = output_perturbation(self.noise), context, self.samples, iterations
        return {"output perturbation": self._releases(*releases)}

    def round(
        self, state: Iterate, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> Iterate:
        x = state.x
        noisy = x + self.noise * network.draws.laplace(random, x)
        z = on_lattice(noisy, self.spacing, network.draws.uniform(random, x))
        levels = float(z.max() - z.min()) / self.spacing + 1
        z_sent = network.states.send(z, bits=packed_bits(problem.dimension, levels))
        g = self._gradients(x, problem, random)
        x = x + self.coupling * network.states.towards(x, z_sent) - self.step_size * g
        return Iterate(state.k + 1, x)
