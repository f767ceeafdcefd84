"""Output perturbation, then quantisation, with subsampled gradients, after Chen, Wang and Zhang."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import PositiveFloat

from fedatlas.algorithms._decentralised import UndirectedAlgorithm, on_lattice, packed_bytes
from fedatlas.privacy.accountants import Budget, basic_composition, noise_ratio
from fedatlas.privacy.exposure import Exposure
from fedatlas.privacy.sensitivity import single_release
from fedatlas.problems.decentralised import DecentralisedProblem
from fedatlas.randomness import RoundRandom

if TYPE_CHECKING:
    from fedatlas.simulation.graph_network import GraphNetwork


@dataclass(frozen=True)
class State:
    """Iteration k and each agent's model x, (n, d)."""

    k: int
    x: Any


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

    def budgets(self, exposure: Exposure, iterations: int) -> dict[str, Budget]:
        """See Algorithm."""
        bound = self._l1_bound(exposure.dimension)
        samples = self.samples
        budget = self._worst_agent(
            exposure,
            lambda weight: basic_composition(
                noise_ratio(
                    bound
                    * single_release(
                        self.coupling, self.step_size, samples, iterations - 1, weight
                    ),
                    self.noise,
                )
            ),
        )
        return {"output perturbation": budget}

    def start(self, problem: DecentralisedProblem, network: GraphNetwork, x0: Any) -> State:
        """One model for all agents."""
        return State(0, x0)

    def round(
        self,
        state: State,
        problem: DecentralisedProblem,
        network: GraphNetwork,
        random: RoundRandom,
    ) -> State:
        """Iteration k."""
        x = state.x
        noisy = x + self.noise * network.draws.laplace(random, x)
        z = on_lattice(noisy, self.spacing, network.draws.uniform(random, x))
        levels = float(z.max() - z.min()) / self.spacing + 1
        z_sent = network.states.send(z, packed_bytes(problem.dimension, levels))
        g = self._gradients(x, problem, random)
        x = x + self.coupling * network.states.towards(x, z_sent) - self.step_size * g
        return State(state.k + 1, x)
