"""EF14: clients send compressed steps, and add the compression error to the next step."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import PositiveFloat, PositiveInt

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import Compressor
from fedatlas.federations.horizontal import HorizontalAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x, (d,), and what clients still owe, e_i, (N, d)."""

    x: Any
    client_e: ClientRows


class EF14(HorizontalAlgorithm):
    """Error feedback (Seide et al. 2014; Karimireddy et al. 2019, arXiv:1901.09847, Algorithm 2).

    p_i = γ ∇f_i,B(x) + e_i, Δ_i = C(p_i), e_i ← p_i − Δ_i, x ← x − mean of Δ_i over the
    participants; e_i = 0 at first, and clients that take no part keep theirs. Drawn are first the
    participants, then minibatches, then what C draws. C is contractive; an unbiased one is scaled
    by 1/(1 + ω). What the server sends is not compressed.

    compressor: C. step_size: γ. batch_size: None for full local gradients.
    """

    title: ClassVar[str] = "EF14"
    source: ClassVar[str] = (
        "Karimireddy et al. 2019, Algorithm 2 with the step inside of C, at each of N clients with "
        "the mean at the server, as Seide et al. 2014 (1-bit SGD) distribute it. Rounds of some "
        "clients are ours. Quoted from memory"
    )

    compressor: Compressor
    step_size: PositiveFloat
    batch_size: PositiveInt | None = None

    @property
    def effective_step_size(self) -> float:
        """γ."""
        return self.step_size

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """e_i = 0."""
        return State(x0, problem.client_zeros())

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        up = self.compressor.part_sent(problem.dimension, problem.itemsize)
        load = problem.load((self.batch_size, 1), up=up)
        clients = network.participants(random, self.clients_per_round, load)
        (x,) = network.broadcast(state.x, to=clients)
        gradients = problem.gradient(x, problem.minibatches(random, clients, self.batch_size))
        p = self.step_size * gradients + state.client_e[clients]
        delta, bits = self.compressor.contracted(p, random)
        (sent,) = network.gather(delta, bits=bits)
        e = state.client_e.replace(clients, p - delta)
        return State(state.x - problem.mean(sent, clients), e)
