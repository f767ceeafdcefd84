"""FedNova: federated averaging of clients that take unequal numbers of local steps."""

from typing import Any, ClassVar

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


class FedNova(LocalWorkAlgorithm):
    """FedNova (Wang et al. 2020, arXiv:2007.07481, section 4), whose clients take plain SGD steps.

    Client i takes τ_i steps of η_l from y = x and sends (y_i − x)/τ_i and τ_i. The server steps
    x ← x + η_g τ_eff/S Σ_{i∈S} (y_i − x)/τ_i with τ_eff = 1/S Σ_{i∈S} τ_i, so that clients which
    take more steps count no more. τ_i differ by `local_unit: epochs`; where they are equal it is
    FedAvg. Where clients have weights, N p_i/S stands for the first 1/S, p_i/Σ_{j∈S} p_j for the
    second.
    """

    title: ClassVar[str] = "FedNova"
    source: ClassVar[str] = (
        "Wang et al. 2020, with a_i = (1, …, 1), ‖a_i‖₁ = τ_i, and "
        "τ_eff = Σ_i p_i τ_i, quoted from memory. Clients are sampled uniformly and η_g = 1 where "
        "an experiment does not choose: our choices"
    )

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Average the clients' progress by step, and go on by the mean number of steps."""
        load = self.local_load(problem, up=1 + 1 / problem.dimension)
        clients = network.participants(random, self.clients_per_round, load)
        if len(clients) == 0:
            return state
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        y = problem.local_sgd(x, batch, self.local_step_at(random.round))
        steps = problem.array(batch.steps_of_clients.astype(float))[:, None]
        each, steps = network.gather((y - x) / steps, steps)
        ones = problem.zeros(len(clients), 1) + 1
        effective = problem.mean(steps, clients) / problem.mean(ones, clients)
        return State(state.x + self.server_step_size * effective * problem.mean(each, clients))
