"""SGP: agents on a directed graph push shares of models, and divide by the pushed weights."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import PositiveFloat

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised import Iterate
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.federations.decentralised.mixing import MixingAlgorithm, beside
from fedatlas.schema.graphs import roots


@dataclass(frozen=True)
class State(Iterate):
    """Besides k and the pushed sums x, (n, d), the push-sum weights w, (n, 1)."""

    w: Any


class Sgp(MixingAlgorithm):
    """Stochastic gradient push (Assran et al. 2019, arXiv:1811.10792, Algorithm 1).

    An agent's model is z_i = x_i/w_i, w_i = 1 at first. A round: x_i ← x_i − γ ∇f_i,B(z_i), then
    x_i ← Σ_j P_ij x_j and w_i ← Σ_j P_ij w_j. The row x and the number w travel in one message.
    The graph is directed, weight c_ij being that with which i receives from j, and
    P = I − κ diag(Σ_i c_ij) + κ (c_ij): columns sum to 1. An agent j keeps 1 − κ Σ_i c_ij of its
    own, which must be above 0. Of a graph with weights `sent`, all of m receivers get κ/m.

    γ = step_size. κ = coupling; the paper has κ = m/(m + 1).
    """

    title: ClassVar[str] = "SGP"
    source: ClassVar[str] = (
        "Assran, Loizou, Ballas, Rabbat 2019, Algorithm 1 without momentum, on one graph for all "
        "rounds where the paper's alternate. Quoted from memory"
    )

    coupling: PositiveFloat

    def check_graphs(self, states: np.ndarray, trackers: np.ndarray | None) -> None:
        """Everyone reaches everyone, and keeps a part."""
        self._check_single(trackers)
        if len(roots(states)) < len(states):
            raise FedatlasError(
                "graphs.states: SGP needs ways from every agent to every other (a strongly "
                "connected graph), but there are none from some: add edges"
            )
        sent = self.coupling * states.sum(0)
        if sent.max() >= 1:
            raise FedatlasError(
                f"key 'coupling', value {self.coupling:g}: agent {int(sent.argmax())} sends "
                f"{sent.max():.4g} of what it has, and must keep a part: lower it, such as to 0.5 "
                "with weights 'sent'"
            )

    def point(self, state: State, network: GraphNetwork) -> Any:
        """z, (n, d)."""
        return state.x / state.w

    def start(self, problem: GraphProblem, network: GraphNetwork, x0: Any) -> State:
        """w = 1."""
        return State(0, x0, 0 * x0[:, :1] + 1)

    def round(
        self, state: State, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> State:
        gradients = self._gradients(state.x / state.w, problem, random)
        rows = beside(state.x - self.step_size * gradients, state.w)
        sent = network.states.send(rows)
        pushed = rows - self.coupling * (network.states.out_laplacian @ sent)
        return State(state.k + 1, pushed[:, :-1], pushed[:, -1:])
