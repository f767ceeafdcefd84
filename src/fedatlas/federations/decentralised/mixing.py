"""Methods whose agents mix rows with their neighbours, over full gradients or minibatches."""

from typing import Any

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import functions_of
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised import DecentralisedAlgorithm
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.schema.graphs import check_connected_and_balanced

_ROUNDING = 1e-12


class MixingAlgorithm(DecentralisedAlgorithm):
    """Agents on one undirected graph with symmetric weights w_ij, and on its diagonal what is left.

    W = I − κ diag(Σ_j w_ij) + κ (w_ij), which is symmetric with rows that sum to 1. All agents
    start from one model.

    κ = coupling; with 1 the graph's weights are W's. step_size: of gradients. samples: of an
    agent's minibatch, drawn without replacement; None for full local gradients.
    """

    coupling: PositiveFloat = 1.0
    step_size: PositiveFloat
    samples: PositiveInt | None = None

    @property
    def effective_step_size(self) -> float:
        """The step of gradients."""
        return self.step_size

    def check_graphs(self, states: np.ndarray, trackers: np.ndarray | None) -> None:
        """Connected, symmetric weights, no second graph, and a W without negative weights."""
        self._check_single(trackers)
        check_connected_and_balanced(states)
        if (given := self.coupling * float(states.sum(1).max())) > 1 + _ROUNDING:
            raise FedatlasError(
                f"key 'coupling', value {self.coupling:g}: an agent gives its neighbours the "
                f"weight {given:.4g} together, and keeps less than nothing: lower it"
            )

    def _check_single(self, trackers: np.ndarray | None) -> None:
        if trackers is not None:
            raise FedatlasError(f"{self.title} uses one graph: remove 'graphs.trackers'")

    def _gradients(self, x: Any, problem: GraphProblem, random: RoundRandom) -> Any:
        """∇f_i at each agent's own point, over fresh samples or all that it has, (n, d)."""
        if self.samples is None:
            batch = problem.first_samples(problem.samples)
        else:
            batch = problem.minibatches(random, self.samples)
        return problem.gradients(x, batch, self.clipping_rule)

    def _mixed(self, x: Any, network: GraphNetwork) -> Any:
        """W x of rows that are sent for it."""
        return x + self.coupling * network.states.towards(x, network.states.send(x))


def beside(left: Any, right: Any) -> Any:
    """Rows (n, a) and (n, b) as rows (n, a + b), which travel as one message."""
    return functions_of(left).hstack((left, right))
