"""FedAvgM: federated averaging whose server has momentum."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x and its momentum m, (d,)."""

    x: Any
    m: Any


class FedAvgM(LocalWorkAlgorithm):
    """FedAvgM (Hsu, Qi, Brown 2019, arXiv:1909.06335, section 3.3).

    A round is FedAvg's; with the mean Δ of the clients' y − x the server steps m ← β m + Δ,
    x ← x + η_g m, from m = 0. With β = 0 it is FedAvg, bit for bit. In the long run a round moves x
    by η_g/(1 − β) times Δ; the effective step is K η_g η_l nevertheless.

    momentum: β.
    """

    title: ClassVar[str] = "FedAvgM"
    source: ClassVar[str] = (
        "Hsu, Qi, Brown 2019, section 3.3, quoted from memory: plain heavy-ball momentum, where "
        "their code has Nesterov's as an option. η_g = 1 is the paper's; clients are sampled "
        "uniformly, our choice"
    )

    momentum: float = Field(ge=0, lt=1)

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰, m = 0."""
        return State(x0, problem.zeros())

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """FedAvg's local steps; the server's step is along its momentum."""
        load = self.local_load(problem)
        clients = network.participants(random, self.clients_per_round, load)
        if len(clients) == 0:
            return state
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        y = problem.local_sgd(x, batch, self.local_step_at(random.round))
        (delta,) = network.gather(y - x)
        m = self.momentum * state.m + problem.mean(delta, clients)
        return State(state.x + self.server_step_size * m, m)
