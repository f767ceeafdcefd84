"""MARINA: clients send compressed changes of gradients, and at random times whole gradients."""

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import Compressor
from fedatlas.federations.algorithm import StepBound
from fedatlas.federations.horizontal import HorizontalAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's xᵏ, xᵏ⁻¹ and gᵏ⁻¹, (d,); g is None before round 0, which is a full round.

    known: xᵏ⁻¹ as clients hold it where all were sent it, else None. It decides what they are sent
        next, and enters no update.
    """

    x: Any
    x_previous: Any
    g: Any
    known: Any


class Marina(HorizontalAlgorithm):
    """MARINA (Gorbunov, Burlachenko, Li, Richtárik 2021, arXiv:2102.07845, Algorithm 1).

    Round k: with probability p a full round, in which all N clients send ∇f_i(xᵏ) over all their
    samples, uncompressed, and gᵏ is their mean. Otherwise S clients send
    c_i = C(∇f_i,B(xᵏ) − ∇f_i,B(xᵏ⁻¹)), both gradients over one minibatch, and gᵏ = gᵏ⁻¹ + mean of
    c_i over them. Then xᵏ⁺¹ = xᵏ − γ gᵏ. Round 0 is a full round, whatever its coin. Drawn are
    first the coin, which is True for a full round, then the participants, their minibatches (in a
    full round all samples), and what C draws. C is unbiased.

    S = clients_per_round, of rounds that are not full. compressor: C. step_size: γ.
    full_round_probability: p. batch_size: of B; None for full local gradients.
    """

    title: ClassVar[str] = "MARINA"
    source: ClassVar[str] = (
        "Gorbunov et al. 2021, Algorithm 1; with minibatches VR-MARINA (Algorithm 2), with S < N "
        "PP-MARINA (Algorithm 4), whose clients we draw without replacement. Clients keep x of "
        "the last round, and are sent it again where that did not reach all of them. Algorithms "
        "and bounds are quoted from memory"
    )

    compressor: Compressor
    step_size: PositiveFloat
    full_round_probability: Annotated[float, Field(gt=0, le=1)]
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
        """x⁰; g⁰ = ∇f(x⁰) is found in round 0."""
        return State(x0, x0, None, None)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        full = random.bernoulli(self.full_round_probability) or state.g is None
        if full:
            clients = network.participants(random, problem.clients, problem.load((None, 1)))
            (x,) = network.broadcast(state.x, to=clients)
            batch = problem.minibatches(random, clients, None)
            (sent,) = network.gather(problem.gradient(x, batch))
            g = problem.mean(sent, clients) if len(clients) else state.g
        else:
            size, down = self.batch_size, 1 if state.known is not None else 2
            up = self.compressor.part_sent(problem.dimension, problem.itemsize)
            load = problem.load((size, 2), down=down, up=up)
            clients = network.participants(random, self.clients_per_round, load)
            if state.known is not None:
                (x,), previous = network.broadcast(state.x, to=clients), state.known
            else:
                x, previous = network.broadcast(state.x, state.x_previous, to=clients)
            batch = problem.minibatches(random, clients, size)
            change = problem.gradient_difference(x, previous, batch)
            c, bits = self.compressor(change, random)
            (sent,) = network.gather(c, bits=bits)
            g = state.g + problem.mean(sent, clients)
        if g is None:  # nobody has answered yet
            return state
        known = x if len(clients) == problem.clients else None
        return State(state.x - self.step_size * g, state.x, g, known)

    def step_bounds(self, problem: Any) -> list[StepBound]:
        """Theorem 2.1: γ ≤ 1/(L (1 + √((1 − p) ω/(p n)))), of full gradients of all clients.

        Theorem 4.1, of S clients: the same with 1 + ω for ω and S for n.
        """
        if self.batch_size is not None:
            return []
        p, s = self.full_round_probability, self.clients_per_round
        some, omega = s < problem.clients, self.compressor.variance(problem.dimension)
        root = sqrt((1 - p) * (omega + some) / (p * s))
        bound = 1 / (problem.average_smoothness * (1 + root))
        theorem = "Theorem 4.1 of MARINA" if some else "Theorem 2.1 of MARINA"
        return [StepBound("γ", self.step_size, bound, theorem)]
