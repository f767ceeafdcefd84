"""CHOCO-SGD: agents on a graph send compressed differences to neighbours' copies of models."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import Compressor
from fedatlas.federations.decentralised import Iterate, UndirectedAlgorithm
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem


@dataclass(frozen=True)
class State(Iterate):
    """Besides k and x, what neighbours know of each agent's model, x̂, (n, d)."""

    x_hat: Any


class ChocoSgd(UndirectedAlgorithm):
    """CHOCO-SGD (Koloskova, Stich, Jaggi 2019, arXiv:1902.00340, Algorithm 2).

    x_i ← x_i − η g_i, q_i = C(x_i − x̂_i), x̂_j ← x̂_j + q_j, x_i ← x_i + γ Σ_j w_ij (x̂_j − x̂_i). C is
    contractive; an unbiased one is scaled by 1/(1 + ω). η = step_size, γ = coupling.

    compressor: C.
    """

    title: ClassVar[str] = "CHOCO-SGD"
    source: ClassVar[str] = "Koloskova, Stich, Jaggi 2019, Algorithm 2"
    needs_every_message: ClassVar[str] = (
        "neighbours add up differences, and after one that is lost their x̂ is not its sender's"
    )

    compressor: Compressor

    def start(self, problem: GraphProblem, network: GraphNetwork, x0: Any) -> State:
        """x̂ = 0."""
        return State(0, x0, 0 * x0)

    def round(
        self, state: Any, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> State:
        x = state.x - self.step_size * self._gradients(state.x, problem, random)
        q, bits = self.compressor.contracted(x - state.x_hat, random)
        own, known = state.x_hat + q, state.x_hat + network.states.send(q, bits=bits)
        return State(state.k + 1, x + self.coupling * network.states.towards(own, known), known)
