"""Federated mirror descent for objectives with a term that has no gradient, such as ‖x‖₁."""

from typing import Any, ClassVar

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalStepsAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


class FedMiD(LocalStepsAlgorithm):
    """FedMiD (Yuan, Zaheer, Reddi 2021, arXiv:2011.08474, Algorithm 2) in Euclid's geometry.

    Local steps are proximal: y ← prox_{η_l ψ}(y − η_l ∇f_i(y)). So is the server's, along the mean
    of y − x, with the length η̃ = K η_g η_l in the prox. Without ψ it is FedAvg.
    """

    title: ClassVar[str] = "FedMiD"
    source: ClassVar[str] = (
        "Yuan, Zaheer, Reddi 2021, Algorithm 2, quoted from memory: so is the length K η_g η_l of "
        "the server's prox, which a later paper's public code has as η_g η_l. The mirror map is "
        "½ ‖x‖², clients are sampled uniformly, η_g = 1 where an experiment does not choose, and a "
        "round without an answer moves nothing: our choices"
    )
    composite: ClassVar[bool] = True

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Average the progress of proximal local steps, and take a proximal step along it."""
        load = self.local_load(problem)
        clients = network.participants(random, self.clients_per_round, load)
        if len(clients) == 0:
            return state
        (x,) = network.broadcast(state.x, to=clients)
        batch = problem.minibatches(random, clients, self.batch_size, self.local_steps)
        y = x
        for k in range(self.local_steps):
            g = problem.gradient(y, batch.at(k))
            y = problem.prox(y - self.local_step_size * g, self.local_step_size)
        (delta,) = network.gather(y - x)
        moved = state.x + self.server_step_size * problem.mean(delta, clients)
        return State(problem.prox(moved, self.effective_step_size))
