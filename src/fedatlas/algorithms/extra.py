"""EXTRA: agents on a graph correct each step by the previous one, which makes it exact."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.decentralised import Iterate
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.federations.decentralised.mixing import MixingAlgorithm


@dataclass(frozen=True)
class State(Iterate):
    """Besides k and x, s = W̃ xᵏ⁻¹ − α ∇f(xᵏ⁻¹), (n, d), what the next step takes off."""

    s: Any


class Extra(MixingAlgorithm):
    """EXTRA (Shi, Ling, Wu, Yin 2015, arXiv:1404.6264, Algorithm 1).

    x¹ = W x⁰ − α ∇f(x⁰), then xᵏ⁺² = (I + W) xᵏ⁺¹ − W̃ xᵏ − α (∇f(xᵏ⁺¹) − ∇f(xᵏ)) with
    W̃ = (I + W)/2, by rows of agents. Rows x travel, once in a round. With minibatches ∇f(xᵏ) is
    the gradient that was drawn in round k, in both of the steps that it enters.

    α = step_size, below (1 + λ)/L by Theorem 3.3, λ the smallest eigenvalue of W.
    """

    title: ClassVar[str] = "EXTRA"
    source: ClassVar[str] = (
        "Shi, Ling, Wu, Yin 2015, Algorithm 1 with W̃ = (I + W)/2. It has full gradients; "
        "minibatches are ours. Quoted from memory"
    )
    needs_every_message: ClassVar[str] = (
        "a step takes off what the one before mixed, which is proved for the same W in all rounds"
    )

    def start(self, problem: GraphProblem, network: GraphNetwork, x0: Any) -> State:
        """s = x⁰, with which the second line gives the first."""
        return State(0, x0, x0)

    def round(
        self, state: State, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> State:
        x, step = state.x, self.step_size * self._gradients(state.x, problem, random)
        both = x + self._mixed(x, network)  # (I + W) x
        return State(state.k + 1, both - step - state.s, both / 2 - step)
