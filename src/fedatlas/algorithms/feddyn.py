"""FedDyn: local steps with a proximal and a linear term that make clients agree."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import PositiveFloat

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import HorizontalAlgorithm, LocalWork
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x and h = Σ_i p_i g_i, (d,); the clients' g_i, (N, d)."""

    x: Any
    h: Any
    client_g: ClientRows


class FedDyn(LocalWork, HorizontalAlgorithm):
    """FedDyn (Acar et al. 2021, arXiv:2111.04263, Algorithm 1).

    A client that takes part takes K steps of SGD on f_i(y) − ⟨g_i, y⟩ + α/2 ‖y − x‖² from y = x,
    y ← y − η_l (∇f_i,B(y) − g_i + α (y − x)), and keeps g_i ← g_i − α (y_i − x). The server steps
    h ← h − α/N Σ_{i∈S} (y_i − x), then x ← x + 1/S Σ_{i∈S} (y_i − x) − h/α. At first g_i = 0 and
    h = 0. Clients are chosen first, then samples. Where clients have weights, p_i stands for 1/N.

    regularisation: α; the server's step along h is 1/α.
    """

    title: ClassVar[str] = "FedDyn"
    source: ClassVar[str] = (
        "Acar et al. 2021, Algorithm 1, quoted from memory. Clients minimise inexactly, by K steps "
        "of SGD, as in the paper's experiments; its theorems take exact minimisers, so no step "
        "bound is declared. Clients are sampled uniformly, and count as in f: our choices"
    )

    regularisation: PositiveFloat

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰, h = 0, g_i = 0."""
        return State(x0, problem.zeros(), problem.client_zeros())

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Minimise the clients' regularised losses, and average what they found."""
        alpha = self.regularisation
        clients = network.participants(random, self.clients_per_round, self.local_load(problem))
        if len(clients) == 0:
            return state
        (x,) = network.broadcast(state.x, to=clients)
        g_i = state.client_g[clients]
        batch = self.local_batches(problem, random, clients)
        y = problem.local_sgd(x, batch, self.local_step_at(random.round), -g_i, alpha)
        (delta,) = network.gather(y - x)
        h = state.h - alpha * problem.part_of_mean(delta, clients)
        return State(
            x=state.x + problem.mean(delta, clients) - h / alpha,
            h=h,
            client_g=state.client_g.replace(clients, g_i - alpha * (y - x)),
        )
