"""EF21: clients send compressed differences between gradients and the server's estimates."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

from pydantic import PositiveFloat, PositiveInt

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import Compressor
from fedatlas.federations.algorithm import StepBound
from fedatlas.federations.horizontal import HorizontalAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x and g = Σ_i p_i g_i, (d,); the clients' g_i, (N, d)."""

    x: Any
    g: Any
    client_g: ClientRows


class EF21(HorizontalAlgorithm):
    """EF21 (Richtárik, Sokolov, Fatkhullin 2021, arXiv:2106.05203, Algorithm 2).

    c_i = C(∇f_i(x) − g_i), g_i ← g_i + c_i, g ← g + Σ_i p_i c_i, x ← x − γ g. C is contractive; an
    unbiased one is scaled by 1/(1 + ω). What the server sends is not compressed.

    compressor: C. step_size: γ. batch_size: None for full local gradients, as in Algorithm 2.
    """

    title: ClassVar[str] = "EF21"
    source: ClassVar[str] = (
        "Richtárik, Sokolov, Fatkhullin 2021, Algorithm 2, from g_i⁰ = C(∇f_i(x⁰)). Minibatches, "
        "and rounds in which others keep their g_i, are those of Fatkhullin et al. 2021 "
        "(arXiv:2110.03294)"
    )

    compressor: Compressor
    step_size: PositiveFloat
    batch_size: PositiveInt | None = None

    @property
    def effective_step_size(self) -> float:
        """γ."""
        return self.step_size

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """g_i = 0: after the first round it is C(∇f_i(x⁰))."""
        return State(x0, problem.zeros(), problem.client_zeros())

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        up = self.compressor.part_sent(problem.dimension, problem.itemsize)
        load = problem.load((self.batch_size, 1), up=up)
        clients = network.participants(random, self.clients_per_round, load)
        (x,) = network.broadcast(state.x, to=clients)
        gradients = problem.gradient(x, problem.minibatches(random, clients, self.batch_size))
        g_i = state.client_g[clients]
        c, bits = self.compressor.contracted(gradients - g_i, random)
        (sent,) = network.gather(c, bits=bits)
        g = state.g + problem.part_of_mean(sent, clients)
        client_g = state.client_g.replace(clients, g_i + c)
        return State(state.x - self.step_size * g, g, client_g)

    def step_bounds(self, problem: Any) -> list[StepBound]:
        """Theorem 1: γ ≤ 1/(L + L̃ √(β/θ)), with L̃ for L, of full gradients of all clients."""
        if self.batch_size is not None or self.clients_per_round < problem.clients:
            return []
        left = sqrt(1 - self.compressor.contraction(problem.dimension))
        bound = 1 / (problem.average_smoothness * (1 + left / (1 - left)))
        return [StepBound("γ", self.step_size, bound, "Theorem 1 of EF21")]
