"""Federated averaging with a server step size."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import PositiveFloat, PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal.algorithm import HorizontalAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.star_network import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x, (d,)."""

    x: Any


class FedAvg(HorizontalAlgorithm):
    """FedAvg (McMahan et al. 2017) with two step sizes (Karimireddy et al. 2020, arXiv:1910.06378).

    S = clients_per_round, K = local_steps, b = batch_size (None: full local gradients),
    η_l = local_step_size, η_g = global_step_size.
    """

    title: ClassVar[str] = "FedAvg"
    source: ClassVar[str] = (
        "McMahan et al. 2017; two step sizes as in Karimireddy et al. 2020. The FedPAGE paper "
        "gives only the product K·η_g·η_l: η_g = 1 is our choice"
    )

    local_steps: PositiveInt
    local_step_size: PositiveFloat
    global_step_size: PositiveFloat = 1.0
    batch_size: PositiveInt | None = None

    @property
    def effective_step_size(self) -> float:
        """η̃ = K η_g η_l."""
        return self.local_steps * self.global_step_size * self.local_step_size

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Average the sampled clients' local progress."""
        clients = random.sample(problem.clients, self.clients_per_round)
        (x,) = network.broadcast(state.x, to=clients)
        batch = problem.minibatches(random, clients, self.batch_size, self.local_steps)
        y = problem.local_sgd(x, batch, self.local_step_size)
        (delta,) = network.gather(y - x)
        return State(state.x + self.global_step_size * delta.mean(0))
