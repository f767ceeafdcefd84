"""FedDANE: local steps on a proximal subproblem with the mean gradient as linear term."""

from typing import Any, ClassVar

from pydantic import NonNegativeFloat

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import HorizontalAlgorithm, LocalWork
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


class FedDane(LocalWork, HorizontalAlgorithm):
    """FedDANE (Li et al. 2020, arXiv:2001.01920, Algorithm 2); μ = proximal_weight.

    S clients get x and send ∇f_i(x) over all local samples; g is their mean. Then S clients are
    drawn anew, get x and g, and minimise f_i(y) + ⟨g − ∇f_i(x), y⟩ + μ/2 ‖y − x‖² inexactly, by K
    steps y ← y − η_l (∇f_i,B(y) + g − ∇f_i(x) + μ (y − x)) from y = x. The server averages,
    x ← 1/S Σ_i y_i. Drawn are the first clients, the second ones, and the minibatches
    of these. With one step on all samples of all clients it is gradient descent; with all clients
    and exact minimisers it is DANE.

    A round is two exchanges. Clients keep nothing: who is in both samples is sent x and takes
    ∇f_i(x) in both.
    """

    title: ClassVar[str] = "FedDANE"
    source: ClassVar[str] = (
        "Li et al. 2020, Algorithm 2, quoted from memory and compared with the authors' code, "
        "which seeds both draws alike, so that its two samples are one. The inexact solver is K "
        "steps of SGD, and clients are sampled uniformly, our choices"
    )

    proximal_weight: NonNegativeFloat

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """A mean of gradients at x, then local steps along it, corrected by the client's own."""
        first = network.participants(random, self.clients_per_round, problem.load((None, 1)))
        if len(first) == 0:
            return state
        (x,) = network.broadcast(state.x, to=first)
        (sent,) = network.gather(problem.gradient(x, problem.minibatches(random, first, None)))
        g = problem.mean(sent, first)
        load = self.local_load(problem, (None, 1), down=2)
        clients = network.participants(random, self.clients_per_round, load)
        x, g = network.broadcast(state.x, g, to=clients)
        batch = self.local_batches(problem, random, clients)
        correction = g - problem.gradient(x, problem.minibatches(random, clients, None))
        y = problem.local_sgd(
            x, batch, self.local_step_at(random.round), correction, self.proximal_weight
        )
        (delta,) = network.gather(y - x)
        return State(state.x + problem.mean(delta, clients))
