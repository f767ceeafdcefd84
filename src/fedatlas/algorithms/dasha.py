"""DASHA: clients send compressed changes of estimates, and correct for what compression lost."""

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors import Compressor
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import StepBound
from fedatlas.federations.horizontal import HorizontalAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork
from fedatlas.schema.runs import RunSpec


@dataclass(frozen=True)
class State:
    """The server's xᵗ, xᵗ⁻¹ and g = Σ_i p_i g_i, (d,), None before round 0.

    known: xᵗ⁻¹ where all clients were sent it, else None. client_h, client_g: h_i and g_i, (N, d).
    """

    x: Any
    x_previous: Any
    g: Any
    known: Any
    client_h: ClientRows
    client_g: ClientRows


class Dasha(HorizontalAlgorithm):
    """DASHA and DASHA-PAGE (Tyurin, Richtárik 2022, arXiv:2202.01268, Algorithm 1).

    Round 0: all clients send h_i = g_i = ∇f_i(x⁰) uncompressed. Round t: with probability p (one
    coin for all clients) h_i⁺ = ∇f_i(xᵗ), otherwise h_i⁺ = h_i + ∇f_i,B(xᵗ) − ∇f_i,B(xᵗ⁻¹), both
    over one minibatch; m_i = C(h_i⁺ − h_i − a (g_i − h_i)), g_i ← g_i + m_i, g ← g + Σ_i p_i m_i.
    Every round ends with xᵗ⁺¹ = xᵗ − γ g. Drawn are first the coin, then minibatches, then what C
    draws. C is unbiased. All clients take part.

    compressor: C. step_size: γ. memory_step: a, by default 1/(2ω + 1).
    full_gradient_probability: p; 1 is DASHA. batch_size: of B, where p < 1.
    """

    title: ClassVar[str] = "DASHA"
    source: ClassVar[str] = (
        "Tyurin, Richtárik 2022, Algorithm 1, DASHA and DASHA-PAGE, from g_i⁰ = h_i⁰ = ∇f_i(x⁰). "
        "Clients that are late or lost keep h_i and g_i, which is ours. Quoted from memory; the "
        "authors' public code agrees in the rounds of DASHA"
    )

    compressor: Compressor
    step_size: PositiveFloat
    memory_step: PositiveFloat | None = None
    full_gradient_probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    batch_size: PositiveInt | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.compressor.require_unbiased(self.title)
        if (self.batch_size is None) != (self.full_gradient_probability == 1):
            raise ValueError(
                "batch_size and full_gradient_probability: minibatches are for rounds without "
                "full gradients: declare both, with a probability below 1, or neither"
            )
        return self

    def check_run(self, spec: RunSpec) -> None:
        """All clients take part."""
        super().check_run(spec)
        if self.clients_per_round < (clients := sum(spec.partition.clients_by_silo)):
            raise FedatlasError(
                f"key 'clients_per_round', value {self.clients_per_round}: in every round of DASHA "
                f"all clients take part: state {clients}"
            )

    @property
    def effective_step_size(self) -> float:
        """γ."""
        return self.step_size

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x⁰; h_i⁰ and g_i⁰ are found in round 0."""
        return State(x0, x0, None, None, problem.client_zeros(), problem.client_zeros())

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        first = state.g is None
        full = random.bernoulli(self.full_gradient_probability) or first
        apart = not full and state.known is None
        up = 1.0 if first else self.compressor.part_sent(problem.dimension, problem.itemsize)
        work = (None, 1) if full else (self.batch_size, 2)
        load = problem.load(work, down=1 + apart, up=up)
        clients = network.participants(random, self.clients_per_round, load)
        models = (state.x, state.x_previous) if apart else (state.x,)
        x, *older = network.broadcast(*models, to=clients)
        batch = problem.minibatches(random, clients, work[0])
        h, g_i = state.client_h[clients], state.client_g[clients]
        if full:
            h_next = problem.gradient(x, batch)
        else:
            previous = older[0] if apart else state.known
            h_next = h + problem.gradient_difference(x, previous, batch)
        m, bits = h_next, None
        if not first:
            a = self.memory_step or 1 / (2 * self.compressor.variance(problem.dimension) + 1)
            m, bits = self.compressor(h_next - h - a * (g_i - h), random)
        (sent,) = network.gather(m, bits=bits)
        g = problem.part_of_mean(sent, clients) + (problem.zeros() if first else state.g)
        known = x if len(clients) == problem.clients else None
        client_h = state.client_h.replace(clients, h_next)
        client_g = state.client_g.replace(clients, g_i + m)
        return State(state.x - self.step_size * g, state.x, g, known, client_h, client_g)

    def step_bounds(self, problem: Any) -> list[StepBound]:
        """Theorem 6.1: γ ≤ 1/(L + √(16 ω (2ω + 1)/n) L̂), with L̂ for L, of full gradients."""
        if self.batch_size is not None or self.memory_step is not None:
            return []
        omega = self.compressor.variance(problem.dimension)
        root = sqrt(16 * omega * (2 * omega + 1) / problem.clients)
        bound = 1 / (problem.average_smoothness * (1 + root))
        return [StepBound("γ", self.step_size, bound, "Theorem 6.1 of DASHA")]
