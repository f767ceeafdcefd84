"""Weighted directed graphs: who sends to whom without a server, as typed specifications.

Notation of Chen, Wang, Zhang, "Differentially Private Gradient-Tracking-Based Distributed
Stochastic Optimization over Directed Graphs" (DP-GT), section 2.1: an entry [i, j] > 0 of a weight
matrix means that agent i receives from agent j. Agents are numbered from 0.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, field_validator

from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

_LONGEST = 80  # characters of a list of agents in an error
_ROUNDING = 1e-12  # of sums of weights that should be 1


class EdgeList(Model):
    """A graph given edge by edge.

    edges: (sender, receiver, weight), where the receiver applies the weight; kept sorted.
    """

    kind: Literal["edges"]
    edges: tuple[tuple[NonNegativeInt, NonNegativeInt, PositiveFloat], ...]

    @field_validator("edges")
    @classmethod
    def _simple(
        cls, edges: tuple[tuple[int, int, float], ...]
    ) -> tuple[tuple[int, int, float], ...]:
        if not edges:
            raise ValueError("lists no edge; state [sender, receiver, weight] of each")
        declared: set[tuple[int, int]] = set()
        for sender, receiver, _ in edges:
            if sender == receiver:
                raise ValueError(f"agent {sender} sends to itself; remove that edge")
            if (sender, receiver) in declared:
                raise ValueError(f"the edge from {sender} to {receiver} stands twice; keep one")
            declared.add((sender, receiver))
        return tuple(sorted(edges))


class DirectedFamily(Model):
    """A named graph whose edges have one direction.

    kind:
        `directed_ring`: i sends to i + 1, the last agent to 0.
        `directed_path`: the same without the last edge; 0 receives nothing.
        `exponential`: i receives from i − 1, i − 2, i − 4, … modulo the number of agents.
    weights: equal weights. With `received`, the weights of all that an agent receives sum to 1;
        with `sent`, those of all that it sends. An agent that receives (sends) nothing has sum 0.
    """

    kind: Literal["directed_ring", "directed_path", "exponential"]
    weights: Literal["received", "sent"]


class UndirectedFamily(Model):
    """A named graph whose edges have both directions.

    kind: `ring`; `star`, with agent 0 in the middle; `complete`.
    weights: `received` or `sent`, as of `DirectedFamily`; or `metropolis`, the symmetric
        w_ij = 1/(1 + max(deg_i, deg_j)), which with 1 − Σ_j w_ij on the diagonal is doubly
        stochastic (Xiao, Boyd, Lall 2005).
    """

    kind: Literal["ring", "star", "complete"]
    weights: Literal["received", "sent", "metropolis"]


_AnyGraph: TypeAlias = EdgeList | DirectedFamily | UndirectedFamily
Graph: TypeAlias = Annotated[_AnyGraph, Field(discriminator="kind")]


class Graphs(Model):
    """The graphs over which states and gradient trackers are sent.

    states: the paper's G_R, with weights R.
    trackers: the paper's G_C, with weights C; null for methods without gradient tracking.
    """

    states: Graph
    trackers: _AnyGraph | None = Field(default=None, discriminator="kind")


def weight_matrix(graph: Graph, agents: int, where: str = "graph") -> np.ndarray:
    """Weights (agents, agents) float64: [i, j] > 0 iff i receives from j; zero on the diagonal.

    where: what errors call the graph, such as "graphs.states".
    Raises FedatlasError for fewer than two agents and for edges of agents that there are not.
    """
    if agents < 2:
        raise FedatlasError(f"{where}: among {agents} agents; state 2 agents or more")
    if isinstance(graph, EdgeList):
        weights = np.zeros((agents, agents))
        for sender, receiver, weight in graph.edges:
            if max(sender, receiver) >= agents:
                raise FedatlasError(
                    f"{where}: the edge [{sender}, {receiver}, {weight:g}] is beyond the {agents} "
                    f"agents, who are numbered 0 to {agents - 1}; correct it or state more agents"
                )
            weights[receiver, sender] = weight
        return weights
    receives = _receives(graph, agents)
    degree = receives.sum(1)
    if graph.weights == "metropolis":
        return receives / (1 + np.maximum.outer(degree, degree))
    if graph.weights == "sent":
        return receives / np.maximum(receives.sum(0), 1)
    return receives / np.maximum(degree, 1)[:, None]


def _receives(graph: DirectedFamily | UndirectedFamily, agents: int) -> np.ndarray:
    """Whether i receives from j, (agents, agents) bool."""
    receiver, sender = np.indices((agents, agents))
    ahead = (receiver - sender) % agents
    receives: dict[str, np.ndarray] = {
        "directed_ring": ahead == 1,
        "directed_path": receiver == sender + 1,
        "exponential": np.isin(ahead, 2 ** np.arange(agents.bit_length())),
        "ring": (ahead == 1) | (ahead == agents - 1),
        "star": (receiver == 0) != (sender == 0),
        "complete": receiver != sender,
    }
    return receives[graph.kind]


def in_laplacian(weights: np.ndarray) -> np.ndarray:
    """diag(R1) − R, (n, n): rows sum to 0. L1 of DP-GT."""
    return np.diag(weights.sum(1)) - weights


def out_laplacian(weights: np.ndarray) -> np.ndarray:
    """diag(1ᵀC) − C, (n, n): columns sum to 0. L2 of DP-GT."""
    return np.diag(weights.sum(0)) - weights


def roots(weights: np.ndarray) -> tuple[int, ...]:
    """Agents, ascending, from whom every agent is reached: the roots of spanning trees."""
    return tuple(np.flatnonzero(_reached(weights).all(0)).tolist())


def check_common_root(states: np.ndarray, trackers: np.ndarray) -> None:
    """Assumption 1 of DP-GT: one agent's state reaches all, and all agents' trackers reach it.

    states, trackers: R and C, (n, n). Raises FedatlasError with the reason when the assumption
    fails.
    """
    of_states, of_trackers = roots(states), roots(trackers.T)
    if not of_states:
        raise FedatlasError(
            "graphs.states: no agent's state reaches all others (DP-GT, Assumption 1): there is "
            f"no way into {_listed(_closed_groups(states))} from outside; {_REMEDY}"
        )
    if not of_trackers:
        raise FedatlasError(
            "graphs.trackers: no agent is reached by the trackers of all others (DP-GT, Assumption "
            f"1): there is no way out of {_listed(_closed_groups(trackers.T))}; {_REMEDY}"
        )
    if not set(of_states) & set(of_trackers):
        raise FedatlasError(
            f"graphs: only the states of {_listed([of_states])} reach all others, and only "
            f"{_listed([of_trackers])} are reached by all trackers; DP-GT's Assumption 1 needs an "
            "agent who is both: add to either graph an edge from one of the latter to one of the "
            "former"
        )


def check_connected_and_balanced(weights: np.ndarray) -> None:
    """What methods over one undirected graph need: symmetric weights that connect all agents.

    weights: W (n, n), without self-weights; 1 − Σ_j W_ij ≥ 0 on the diagonal make it doubly
    stochastic. Raises FedatlasError with the reason when W is not such a matrix.
    """
    unequal = np.argwhere(weights != weights.T)
    if len(unequal):
        i, j = sorted(unequal[0].tolist())
        raise FedatlasError(
            f"graphs.states: agent {i} receives from {j} with the weight {weights[i, j]:g}, but "
            f"{j} from {i} with {weights[j, i]:g}; this method needs symmetric weights: state both "
            "edges with one weight, or take an undirected graph (ring, star, complete) with "
            "weights 'metropolis'"
        )
    received = weights.sum(1)
    if received.max() > 1 + _ROUNDING:
        agent = int(received.argmax())
        raise FedatlasError(
            f"graphs.states: the weights that agent {agent} receives sum to {received[agent]:g}; "
            "this method needs sums of at most 1, the rest being the agent's own: lower them"
        )
    if not roots(weights):
        raise FedatlasError(
            f"graphs.states: there is no way between {_listed(_closed_groups(weights))}; this "
            f"method needs a connected graph: {_REMEDY}"
        )


_REMEDY = "add edges"


def _reached(weights: np.ndarray) -> np.ndarray:
    """Whether there is a way from j to i, (n, n) bool; true on the diagonal."""
    reached = (weights > 0) | np.eye(len(weights), dtype=bool)
    for via in range(len(weights)):  # Warshall's algorithm
        reached |= reached[:, [via]] & reached[via]
    return reached


def _closed_groups(weights: np.ndarray) -> list[tuple[int, ...]]:
    """Groups of agents who reach each other and whom nobody else reaches.

    A spanning tree exists iff there is one such group: it holds the roots.
    """
    reached = _reached(weights)
    groups = {
        tuple(np.flatnonzero(reached[agent]).tolist())
        for agent in range(len(weights))
        if (reached[agent] <= reached[:, agent]).all()  # all who reach it are reached by it
    }
    return sorted(groups)


def _listed(groups: Iterable[Iterable[int]]) -> str:
    listed = ", ".join(f"{{{', '.join(map(str, agents))}}}" for agents in groups)
    return listed if len(listed) <= _LONGEST else f"{listed[:_LONGEST]}…"
