"""FedProx: federated averaging with a proximal term towards the server's model."""

from typing import Any, ClassVar

from pydantic import NonNegativeFloat

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


class FedProx(LocalWorkAlgorithm):
    """FedProx (Li et al. 2020, arXiv:1812.06127, Algorithm 2); μ = proximal_weight.

    Clients minimise f_i(y) + μ/2 ‖y − x‖² inexactly. With μ = 0 it is FedAvg, bit for bit.
    """

    title: ClassVar[str] = "FedProx"
    source: ClassVar[str] = (
        "Li et al. 2020, Algorithm 2. The inexact solver is K steps of SGD, clients are sampled "
        "uniformly and η_g = 1 where an experiment does not choose: our choices"
    )

    proximal_weight: NonNegativeFloat

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Average the progress of local steps along ∇f_i(y) + μ(y − x)."""
        load = self.local_load(problem)
        clients = network.participants(random, self.clients_per_round, load)
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        y = problem.local_sgd(
            x, batch, self.local_step_at(random.round), proximal_weight=self.proximal_weight
        )
        (delta,) = network.gather(y - x)
        return State(state.x + self.server_step_size * problem.mean(delta, clients))
