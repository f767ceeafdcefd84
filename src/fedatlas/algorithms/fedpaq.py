"""FedPAQ: federated averaging whose clients send compressed updates."""

from typing import Any, ClassVar

from fedatlas.algorithms.fedavg import State
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import Compressor
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


class FedPaq(LocalWorkAlgorithm):
    """FedPAQ (Reisizadeh et al. 2020, arXiv:1909.13014, Algorithm 1).

    Clients take K steps y ← y − η_l ∇f_i,B(y) from y = x and send Δ_i = C(y_i − x); the server
    steps x ← x + η_g/S Σ_{i∈S} Δ_i. Where clients have weights, N p_i/S stands for 1/S. Drawn are
    first the participants, then minibatches, then what C draws. Nothing is remembered between
    rounds. What the server sends is not compressed. With C(v) = v it is FedAvg.

    compressor: C, as it is: not scaled, unbiased or not. With `quantised` it is QSGD after local
        steps. A biased one, such as `sign` or `top_k`, is taken, too, but theorems do not cover it:
        what it leaves out is lost, so that x may converge elsewhere, or not at all.
    """

    title: ClassVar[str] = "FedPAQ"
    source: ClassVar[str] = (
        "Reisizadeh et al. 2020, Algorithm 1, quoted from memory, where η_g = 1 and C is unbiased. "
        "Biased compressors and a server's step are ours"
    )

    compressor: Compressor

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰."""
        return State(x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Average the sampled clients' compressed progress."""
        up = self.compressor.part_sent(problem.dimension, problem.itemsize)
        clients = network.participants(
            random, self.clients_per_round, self.local_load(problem, up=up)
        )
        if len(clients) == 0:
            return state
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        y = problem.local_sgd(x, batch, self.local_step_at(random.round))
        delta, bits = self.compressor(y - x, random)
        (sent,) = network.gather(delta, bits=bits)
        return State(state.x + self.server_step_size * problem.mean(sent, clients))
