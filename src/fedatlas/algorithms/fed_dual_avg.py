"""Federated dual averaging for objectives with a term that has no gradient, such as ‖x‖₁."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalStepsAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's dual z and its model x, (d,), and how many rounds have moved them."""

    z: Any
    x: Any
    moves: int


class FedDualAvg(LocalStepsAlgorithm):
    """FedDualAvg (Yuan, Zaheer, Reddi 2021, arXiv:2011.08474, Algorithm 3) in Euclid's geometry.

    Clients add up gradients in the dual, z ← z − η_l ∇f_i(prox_{ηψ}(z)), and the server averages
    duals, so that no mean is taken of models, which would not be sparse. η is the length of all
    steps so far: η̃ = K η_g η_l of every round, and η_l of a local step. A round in which nobody
    answers moves nothing and adds no length.
    """

    title: ClassVar[str] = "FedDualAvg"
    source: ClassVar[str] = (
        "Yuan, Zaheer, Reddi 2021, Algorithm 3, quoted from memory and compared with the authors' "
        "code, which it follows also in rounds without an answer. The mirror map is ½ ‖x‖², "
        "clients are sampled uniformly and η_g = 1 where an experiment does not choose: our choices"
    )
    composite: ClassVar[bool] = True

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """z = x = x⁰."""
        return State(x0, x0, 0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Average the duals that sampled clients reach."""
        load = self.local_load(problem)
        clients = network.participants(random, self.clients_per_round, load)
        if len(clients) == 0:
            return state
        (begin,) = network.broadcast(state.z, to=clients)
        batch = problem.minibatches(random, clients, self.batch_size, self.local_steps)
        z, passed = begin, self.effective_step_size * state.moves
        for k in range(self.local_steps):
            y = problem.prox(z, passed + self.local_step_size * k)
            z = z - self.local_step_size * problem.gradient(y, batch.at(k))
        (delta,) = network.gather(z - begin)
        mean = state.z + self.server_step_size * problem.mean(delta, clients)
        x = problem.prox(mean, passed + self.effective_step_size)
        return State(mean, x, state.moves + 1)
