"""Federated averaging with a server step size."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x, (d,)."""

    x: Any


class FedAvg(LocalWorkAlgorithm):
    """FedAvg (McMahan et al. 2017) with the two step sizes of Karimireddy et al. (2020)."""

    title: ClassVar[str] = "FedAvg"
    source: ClassVar[str] = (
        "McMahan et al. 2017; two step sizes as in Karimireddy et al. 2020. The FedPAGE paper "
        "gives only the product K·η_g·η_l. Where an experiment does not choose, η_g = 1 is ours"
    )

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Average the sampled clients' local progress."""
        load = self.local_load(problem)
        clients = network.participants(random, self.clients_per_round, load)
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        y = problem.local_sgd(x, batch, self.local_step_at(random.round))
        (delta,) = network.gather(y - x)
        return State(state.x + self.server_step_size * problem.mean(delta, clients))
