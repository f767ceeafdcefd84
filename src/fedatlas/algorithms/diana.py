"""DIANA: clients send compressed differences between gradients and learnt shifts."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import PositiveFloat, PositiveInt, model_validator

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import Compressor
from fedatlas.federations.horizontal import HorizontalAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x and h = Σ_i p_i h_i, (d,); the clients' h_i, (N, d)."""

    x: Any
    h: Any
    client_h: ClientRows


class Diana(HorizontalAlgorithm):
    """DIANA (Mishchenko, Gorbunov, Takáč, Richtárik 2019, arXiv:1901.09269, Algorithm 1).

    Δ_i = C(∇f_i,B(x) − h_i), x ← x − γ (h + Σ_i p_i Δ_i), h_i ← h_i + α Δ_i, h ← h + α Σ_i p_i Δ_i,
    with an unbiased C. What the server sends is not compressed.

    compressor: C. step_size: γ. memory_step: α, by default 1/(1 + ω). batch_size: None for full
    local gradients.
    """

    title: ClassVar[str] = "DIANA"
    source: ClassVar[str] = (
        "Mishchenko et al. 2019, Algorithm 1 without momentum and regulariser, h_i⁰ = 0; any "
        "unbiased compressor as in Horváth et al. 2019 (arXiv:1904.05115), α = 1/(1 + ω). With "
        "some clients in a round it is PP2 of Philippenko, Dieuleveut 2020 (arXiv:2006.14591)"
    )

    compressor: Compressor
    step_size: PositiveFloat
    memory_step: PositiveFloat | None = None
    batch_size: PositiveInt | None = None

    @model_validator(mode="after")
    def _compressor_is_unbiased(self) -> Self:
        self.compressor.require_unbiased(self.title)
        return self

    @property
    def effective_step_size(self) -> float:
        """γ."""
        return self.step_size

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """h_i = 0."""
        return State(x0, problem.zeros(), problem.client_zeros())

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        up = self.compressor.part_sent(problem.dimension, problem.itemsize)
        load = problem.load((self.batch_size, 1), up=up)
        clients = network.participants(random, self.clients_per_round, load)
        (x,) = network.broadcast(state.x, to=clients)
        gradients = problem.gradient(x, problem.minibatches(random, clients, self.batch_size))
        h_i = state.client_h[clients]
        delta, bits = self.compressor(gradients - h_i, random)
        (sent,) = network.gather(delta, bits=bits)
        alpha = self.memory_step or 1 / (1 + self.compressor.variance(problem.dimension))
        return State(
            x=state.x - self.step_size * (state.h + problem.mean(sent, clients)),
            h=state.h + alpha * problem.part_of_mean(sent, clients),
            client_h=state.client_h.replace(clients, h_i + alpha * delta),
        )
