"""Descent on quantised gradients with binomial noise, after Yan et al."""

from math import ceil
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, PositiveFloat, field_validator

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.decentralised import Iterate, UndirectedAlgorithm, on_lattice
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.privacy.accountants import Budget, PrivacyContext, basic_composition, binomial_step


class BinomialGradientDescent(UndirectedAlgorithm):
    """Reconstructed: Yan, Li, Wu, Song 2024 (arXiv:2304.13545), [40] of DP-GT, on a graph.

    x_i ← x_i + κ Σ_j w_ij (x_j − x_i) − γ g̃_i; coordinates of g_i are cut to [−C∞, C∞], rounded at
    random, without bias, to a lattice of L levels with the spacing s = 2 C∞/(L − 1), and g̃_i adds
    s (Bin(n_b, ½) − n_b/2). The original has a server; a graph is our adaptation.

    noise: the standard deviation, s √(n_b/4) with n_b = ⌈4 (noise/s)²⌉. coordinate_bound: C∞;
    levels: L; both our choice. delta_per_step: δ_0 that each of the iterations spends; ours, too.
    """

    title: ClassVar[str] = "Binomial gradients [40]"
    source: ClassVar[str] = (
        "Yan, Li, Wu, Song 2024, reconstructed from its abstract and the literature and moved from "
        "a server to a graph, with the steps, samples and noise of DP-GT's scheme S2; the lattice "
        "is our choice"
    )

    noise: PositiveFloat
    coordinate_bound: PositiveFloat = 1.0
    levels: int = Field(default=257, ge=3)
    delta_per_step: float = Field(default=1e-5, gt=0, lt=1)

    @field_validator("levels")
    @classmethod
    def _zero_is_a_level(cls, levels: int) -> int:
        if levels % 2 == 0:
            raise ValueError("must be odd, so that 0 is a level")
        return levels

    @property
    def spacing(self) -> float:
        """s."""
        return 2 * self.coordinate_bound / (self.levels - 1)

    @property
    def trials(self) -> int:
        """n_b, the coins of one number's noise."""
        return ceil(4 * (self.noise / self.spacing) ** 2)

    @property
    def _points_are_released(self) -> bool:
        return True

    def budgets(self, context: PrivacyContext, iterations: int) -> dict[str, Budget]:
        """See DecentralisedAlgorithm.

        Rounding, which moves a number by up to s more, is left out, as in [40]. Where the binomial
        mechanism's theorem does not hold, ε is infinite.
        """
        moved = self.gradient_bound / self.samples
        l1 = self._l1_bound(context.dimension) / self.samples
        epsilon = binomial_step(
            l1,
            moved,
            moved,
            spacing=self.spacing,
            trials=self.trials,
            dimension=context.dimension,
            delta=self.delta_per_step,
        )
        return {
            "basic composition, rounding left out": basic_composition(
                np.full(iterations, epsilon), self.delta_per_step
            )
        }

    def round(
        self, state: Iterate, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> Iterate:
        x = state.x
        # Models are sent exactly: they follow from gradients, which are noisy and quantised.
        x_sent = network.states.send(x)
        g = self._noisy(self._gradients(x, problem, random), network, random)
        x = x - self.coupling * (network.states.in_laplacian @ x_sent) - self.step_size * g
        return Iterate(state.k + 1, x)

    def _noisy(self, g: Any, network: GraphNetwork, random: RoundRandom) -> Any:
        """g̃, (n, d)."""
        cut = g.clip(-self.coordinate_bound, self.coordinate_bound)
        rounded = on_lattice(cut, self.spacing, network.draws.uniform(random, g))
        heads = network.draws.binomial(random, self.trials, g)
        return rounded + self.spacing * (heads - self.trials / 2)
