"""Local DSGD: agents on a graph take several local steps, then average with neighbours."""

from typing import Any, ClassVar

from pydantic import PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.decentralised import Iterate
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.federations.decentralised.mixing import MixingAlgorithm


class LocalDsgd(MixingAlgorithm):
    """Decentralised SGD with local steps (Koloskova et al. 2020, arXiv:2003.10422, Algorithm 1).

    K times x_i ← x_i − η ∇f_i,B(x_i), with a fresh minibatch each time, then x_i ← Σ_j W_ij x_j: a
    round. K = 1 is DSGD. With a constant step and unequal agents it stays apart from the optimum.

    K = local_steps. η = step_size.
    """

    title: ClassVar[str] = "Local DSGD"
    source: ClassVar[str] = (
        "Koloskova, Loizou, Boreiri, Jaggi, Stich 2020, Algorithm 1, in which W⁽ᵗ⁾ is I in "
        "K − 1 of K iterations and the graph's W in the last. Quoted from memory"
    )

    local_steps: PositiveInt

    def start(self, problem: GraphProblem, network: GraphNetwork, x0: Any) -> Iterate:
        """One model for all agents."""
        return Iterate(0, x0)

    def round(
        self, state: Iterate, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> Iterate:
        x = state.x
        for _ in range(self.local_steps):
            x = x - self.step_size * self._gradients(x, problem, random)
        return Iterate(state.k + 1, self._mixed(x, network))
