"""MIFA: the server steps along the mean of every client's last update."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x and g = Σ_i p_i g_i, (d,); the clients' last updates g_i, (N, d)."""

    x: Any
    g: Any
    client_g: ClientRows


class Mifa(LocalWorkAlgorithm):
    """MIFA, memory-augmented impatient federated averaging (Gu et al. 2021, arXiv:2106.04159).

    A client that takes part takes K steps y ← y − η_l ∇f_i,B(y) from y = x, and replaces
    g_i ← (x − y_i)/η_l by what it did; the others keep theirs. The server steps along all,
    x ← x − η_g η_l g with g = 1/N Σ_i g_i, η_l being that of this round. At first g_i = 0. Clients
    are chosen first, then samples. A client sends how g_i changes, d numbers, as in the paper's
    efficient form. Where clients have weights, p_i stands for 1/N. If all take part it is FedAvg.
    A round that nobody answers steps along g as it is.
    """

    title: ClassVar[str] = "MIFA"
    source: ClassVar[str] = (
        "Gu et al. 2021, Algorithm 1, quoted from memory, where η_g = 1. There, who takes part is "
        "arbitrary, and all do in the first round; ours are sampled uniformly in every round, and "
        "count as 0 until they first take part"
    )

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰, g_i = 0."""
        return State(x0, problem.zeros(), problem.client_zeros())

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Renew the updates of the sampled clients, and step along those of all."""
        step_size, g, client_g = self.local_step_at(random.round), state.g, state.client_g
        clients = network.participants(random, self.clients_per_round, self.local_load(problem))
        if len(clients):
            (x,) = network.broadcast(state.x, to=clients)
            batch = self.local_batches(problem, random, clients)
            g_i = (x - problem.local_sgd(x, batch, step_size)) / step_size
            (change,) = network.gather(g_i - client_g[clients])
            g = g + problem.part_of_mean(change, clients)
            client_g = client_g.replace(clients, g_i)
        return State(state.x - self.server_step_size * step_size * g, g, client_g)
