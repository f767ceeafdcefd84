"""Distributed online learning with Laplace noise on models, after Chen and Wang."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import PositiveFloat

from fedatlas.algorithms._decentralised import UndirectedAlgorithm
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

    def budgets(self, exposure: Exposure, iterations: int) -> dict[str, Budget]:
        """See Algorithm; a sample weighs 1/(m (t + 1)) in the gradient of iteration t."""
        bound = self._l1_bound(exposure.dimension)
        arrived = np.minimum(self.samples * np.arange(1, iterations + 1), exposure.samples)

        def by(own_broadcast: bool) -> Budget:
            return self._worst_agent(
                exposure,
                lambda weight: basic_composition(
                    noise_ratio(
                        bound
                        * single_release(
                            self.coupling,
                            self.step_size,
                            arrived,
                            iterations - 1,
                            weight,
                            own_broadcast=own_broadcast,
                        ),
                        self.noise,
                    )
                ),
            )

        return {"own value as sent": by(True), "own value exact": by(False)}

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
        x_sent = network.states.release(x, self.noise, random)
        arrived = problem.first_samples(self.samples * (state.k + 1))
        d = problem.gradients(x, arrived, self.clipping_rule)
        x = x - self.coupling * (network.states.in_laplacian @ x_sent) - self.step_size * d
        return State(state.k + 1, x)
