"""Decentralised descent on ternary messages, whose quantisation is private (Wang and Başar)."""

from typing import ClassVar

from pydantic import PositiveFloat

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.decentralised import Iterate, UndirectedAlgorithm, packed_bits
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.privacy.accountants import Budget, PrivacyContext, ternary_delta


class TernaryGradientDescent(UndirectedAlgorithm):
    """Reconstructed: Wang, Başar 2023 (arXiv:2208.04845), [39] of DP-GT.

    x_i ← x_i + κ Σ_j w_ij (Q(x_j) − Q(x_i)) − γ g_i; Q(x)_l = r sign(x_l) with probability |x_l|/r,
    else 0. The two decaying sequences of the original are the constants of DP-GT's scheme S2.

    quantiser_range: r. The paper does not say it; by its own δ, which reaches 1 after 800
        iterations, it is about 14.5 at C = 1. Coordinates beyond it are sent as ±r, with a bias.
    """

    title: ClassVar[str] = "Ternary messages [39]"
    source: ClassVar[str] = (
        "Wang, Başar 2023, reconstructed from its abstract and the literature, with the steps and "
        "samples of DP-GT's scheme S2 in place of decaying sequences; its range is deduced"
    )

    quantiser_range: PositiveFloat

    def budgets(self, context: PrivacyContext, iterations: int) -> dict[str, Budget]:
        """The range was deduced with the agent's own exact value."""

        def by(own_broadcast: bool) -> Budget:
            return self._releases(
                lambda moved: ternary_delta(moved, self.quantiser_range),
                *(context, self.samples, iterations, own_broadcast),
            )

        return {"own value as sent": by(True), "own value exact": by(False)}

    def round(
        self, state: Iterate, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> Iterate:
        x, r = state.x, self.quantiser_range
        kept = network.draws.uniform(random, x) * r < abs(x)
        # Of three levels, and the range itself.
        bits = packed_bits(problem.dimension, 3) + 64
        x_sent = network.states.send(r * (kept * x / (abs(x) + (x == 0))), bits=bits)
        g = self._gradients(x, problem, random)
        x = x - self.coupling * (network.states.in_laplacian @ x_sent) - self.step_size * g
        return Iterate(state.k + 1, x)
