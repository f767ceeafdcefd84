"""Scaffnew: local steps with control variates; a coin decides when clients communicate."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, PositiveFloat, PositiveInt

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import StepBound
from fedatlas.federations.horizontal import ServerAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork
from fedatlas.schema.runs import RunSpec


@dataclass(frozen=True)
class State:
    """The server's model x, (d,); the clients' control variates h_i, (N, d)."""

    x: Any
    client_h: ClientRows


class Scaffnew(ServerAlgorithm):
    """Scaffnew (Mishchenko, Malinovsky, Stich, Richtárik 2022, arXiv:2202.09357, Algorithm 2).

    ProxSkip over clients. A round begins after a communication and ends with the next: K local
    steps y ← y − γ (∇f_i,B(y) − h_i) of every client, from y = x, then x ← Σ_i p_i y_i and
    h_i ← h_i + p/γ (x − y_i). K is how many coins are tossed until one shows heads, which each does
    with the probability p: the same for all clients, tossed before minibatches are drawn. At first
    h_i = 0.
    With p = 1 and full gradients it is gradient descent.

    step_size: γ. communication_probability: p. batch_size: None for full local gradients.
    """

    title: ClassVar[str] = "Scaffnew"
    source: ClassVar[str] = (
        "Mishchenko et al. 2022, Algorithm 2 (with minibatches, SProxSkip's), from h_i⁰ = 0, "
        "quoted from memory. Rounds are counted by communications, clients count as in f"
    )

    step_size: PositiveFloat
    communication_probability: float = Field(gt=0, le=1)
    batch_size: PositiveInt | None = None

    @property
    def effective_step_size(self) -> float:
        """γ."""
        return self.step_size

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰, h_i = 0."""
        return State(x0, problem.client_zeros())

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Local steps of all clients until a coin shows heads, then their mean."""
        steps = 1
        while not random.bernoulli(self.communication_probability):
            steps += 1
        load = problem.load((self.batch_size, steps))
        clients = network.participants(random, problem.clients, load)
        h_i = state.client_h[clients]
        batch = problem.minibatches(random, clients, self.batch_size, steps)
        # All know x: it is what the last round ended with.
        y = problem.local_sgd(state.x, batch, self.step_size, -h_i)
        (sent,) = network.gather(y)
        (x,) = network.broadcast(problem.mean(sent, clients), to=clients)
        h_i = h_i + self.communication_probability / self.step_size * (x - y)
        return State(x, state.client_h.replace(clients, h_i))

    def check_run(self, spec: RunSpec) -> None:
        """All clients must answer: the sum of control variates would not stay 0."""
        if getattr(spec.network, "misses", False):
            raise FedatlasError(
                f"key 'network': all clients take part in every round of {self.title}: remove "
                "'availability', 'loss' and 'deadline'"
            )

    def step_bounds(self, problem: Any) -> list[StepBound]:
        """Theorem 3.6: γ ≤ 1/L of strongly convex f_i, with full gradients."""
        if self.batch_size is not None:
            return []
        theorem = "Theorem 3.6 of Scaffnew's paper (quoted from memory)"
        return [StepBound("γ", self.step_size, 1 / problem.smoothness, theorem)]
