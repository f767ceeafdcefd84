"""FedLin: local steps corrected by gradients of this round; clients may take unequal numbers."""

from typing import Any, ClassVar

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.algorithm import StepBound
from fedatlas.federations.horizontal import HorizontalAlgorithm, LocalWork
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


class FedLin(LocalWork, HorizontalAlgorithm):
    """FedLin (Mitra, Jaafar, Pappas, Hassani 2021, arXiv:2102.07053, Algorithm 1).

    Clients get x, send ∇f_i(x) over all local samples, and get its mean g. Client i takes τ_i steps
    y ← y − η̄/τ_i (∇f_i,B(y) − ∇f_i(x) + g) from y = x, and the server averages, x ← 1/S Σ_i y_i.
    With one step and full gradients it is gradient descent.

    local_step_size: η̄, the length of all of a client's local steps together, so that those who take
        more take shorter ones. τ_i differ by `local_unit: epochs`.
    """

    title: ClassVar[str] = "FedLin"
    source: ClassVar[str] = (
        "Mitra et al. 2021, Algorithm 1 without sparsification, quoted from memory. The paper has "
        "full local gradients and all clients in every round (batch_size: null and "
        "clients_per_round: N)"
    )

    @property
    def effective_step_size(self) -> float:
        """η̄."""
        return self.local_step_size

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """The gradient at x, then local steps that begin along it, and their mean."""
        load = self.local_load(problem, (None, 1), down=2, up=2, trips=2)
        clients = network.participants(random, self.clients_per_round, load)
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        own = problem.gradient(x, problem.minibatches(random, clients, size=None))
        (sent,) = network.gather(own)
        (g,) = network.broadcast(problem.mean(sent, clients), to=clients)
        correction, y = g - own, x
        step_size = self.local_step_at(random.round) / problem.steps_taken(batch)
        for k in range(batch.steps):
            now = batch.at(k)
            direction = problem.gradient(y, now) + correction
            y = problem.moved(y, y - step_size * direction, now)
        (delta,) = network.gather(y - x)
        return State(state.x + problem.mean(delta, clients))

    def step_bounds(self, problem: Any) -> list[StepBound]:
        """Nonconvex theory: η̄ ≤ 1/(26 L), of full gradients of all clients."""
        whole = self.batch_size is None and self.clients_per_round == problem.clients
        if not whole or self.step_factors:
            return []
        bound = 1 / (26 * problem.smoothness)
        theorem = "FedLin's nonconvex theorem (quoted from memory)"
        return [StepBound("η̄", self.local_step_size, bound, theorem)]
