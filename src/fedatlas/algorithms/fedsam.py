"""FedSAM: federated averaging with sharpness-aware local steps."""

from typing import Any, ClassVar

from pydantic import PositiveFloat

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.client_rows import lengthened
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


class FedSam(LocalWorkAlgorithm):
    """FedSAM (Qu et al. 2022, arXiv:2206.02618, Algorithm 1).

    Clients take K steps from y = x, each with two gradients over one minibatch B: g = ∇f_i,B(y),
    then y ← y − η_l ∇f_i,B(y + ρ g/‖g‖), ‖·‖ being l2 over all of the model; where g = 0, the
    second gradient is at y. The server averages, x ← x + η_g/S Σ_{i∈S} (y_i − x). Clients are
    chosen first, then samples. Where clients have weights, N p_i/S stands for 1/S. Both gradients
    are counted, and each is a step, as one follows the other.

    radius: ρ, above 0; with ρ near 0 it is FedAvg at twice the cost.
    """

    title: ClassVar[str] = "FedSAM"
    source: ClassVar[str] = (
        "Qu et al. 2022, Algorithm 1 without MoFedSAM's momentum, quoted from memory. Clients are "
        "sampled uniformly and η_g = 1 where an experiment does not choose: our choices"
    )

    radius: PositiveFloat

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def load_of_steps(self) -> tuple[int | None, int]:
        """Two gradients a step."""
        size, steps = super().load_of_steps()
        return size, 2 * steps

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Average the progress of steps along gradients at the point that a step up leads to."""
        clients = network.participants(random, self.clients_per_round, self.local_load(problem))
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        y, step_size = x, self.local_step_at(random.round)
        for step in range(batch.steps):
            now = batch.at(step)
            up = y + lengthened(problem.gradient(y, now), self.radius)
            y = problem.moved(y, y - step_size * problem.gradient(up, now), now)
        (delta,) = network.gather(y - x)
        return State(state.x + self.server_step_size * problem.mean(delta, clients))
