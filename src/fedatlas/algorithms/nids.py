"""NIDS: agents on a graph mix corrected steps; its largest step does not depend on the graph."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import PositiveFloat

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised import Iterate
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.federations.decentralised.mixing import MixingAlgorithm
from fedatlas.schema.graphs import in_laplacian


@dataclass(frozen=True)
class State(Iterate):
    """Besides k and x, the step of the round before, ψ = xᵏ⁻¹ − α ∇f(xᵏ⁻¹), (n, d)."""

    psi: Any


class Nids(MixingAlgorithm):
    """NIDS (Li, Shi, Yan 2019, arXiv:1704.07807, Algorithm 1), without a nonsmooth term.

    x¹ = W̃ (x⁰ − α ∇f(x⁰)), xᵏ⁺² = W̃ (2xᵏ⁺¹ − xᵏ − α ∇f(xᵏ⁺¹) + α ∇f(xᵏ)), by rows of agents,
    with W̃ = W of κ, which is I − cα (I − W) in the paper, κ = cα. With κ = 1/2 and the graph's
    weights it is Exact Diffusion (Yuan, Ying, Zhao, Sayed 2017, arXiv:1702.05122). What is in
    brackets travels, once in a round. With minibatches ∇f(xᵏ) is the gradient that was drawn in
    round k, in both of the steps that it enters.

    α = step_size, below 2/L whatever the graph. coupling: κ, at most 1/(1 − λ), λ the smallest
    eigenvalue of the graph's own W.
    """

    title: ClassVar[str] = "NIDS"
    source: ClassVar[str] = (
        "Li, Shi, Yan 2019, Algorithm 1 with one step size for all agents and r = 0. Round 0 "
        "mixes, as Exact Diffusion does, where the paper has x¹ = x⁰ − α ∇f(x⁰). Both have full "
        "gradients; minibatches are ours. Quoted from memory"
    )
    needs_every_message: ClassVar[str] = (
        "a step takes off what the one before mixed, which is proved for the same W in all rounds"
    )

    coupling: PositiveFloat = 0.5

    def check_graphs(self, states: np.ndarray, trackers: np.ndarray | None) -> None:
        """W̃ must have no negative eigenvalue."""
        super().check_graphs(states, trackers)
        largest = 1 / float(np.linalg.eigvalsh(in_laplacian(states)).max())
        if self.coupling > largest * (1 + 1e-12):
            raise FedatlasError(
                f"key 'coupling', value {self.coupling:g}: exceeds 1/(1 − λ) = {largest:.4g} of "
                "this graph, up to which NIDS converges: lower it; 0.5 suits every graph"
            )

    def start(self, problem: GraphProblem, network: GraphNetwork, x0: Any) -> State:
        """ψ = x⁰, with which round 0 is a step and a mixing."""
        return State(0, x0, x0)

    def round(
        self, state: State, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> State:
        psi = state.x - self.step_size * self._gradients(state.x, problem, random)
        return State(state.k + 1, self._mixed(psi + state.x - state.psi, network), psi)
