"""FedOpt with adaptive servers: the round that FedAdagrad, FedAdam and FedYogi share."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, PositiveFloat

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import HorizontalAlgorithm, LocalWork
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x, and its first and second moments m and v, (d,)."""

    x: Any
    m: Any
    v: Any


class AdaptiveServer(LocalWork, HorizontalAlgorithm):
    """FedOpt (Reddi et al. 2021, arXiv:2003.00295, Algorithm 2); subclasses say how v changes.

    global_step_size: η. momentum: β₁. adaptivity: τ, in the units of Δ.
    """

    global_step_size: PositiveFloat
    momentum: float = Field(default=0.9, ge=0, lt=1)
    adaptivity: PositiveFloat = 1e-3

    source: ClassVar[str] = (
        "Reddi et al. 2021, Algorithm 2, quoted from memory: no bias correction, m₋₁ = 0, v₋₁ = τ² "
        "(the paper asks for τ² at least). Clients are sampled uniformly and count as in f"
    )

    @property
    def effective_step_size(self) -> float:
        """η, which is about how far a round moves each entry of x."""
        return self.global_step_size

    @abstractmethod
    def second_moment(self, v: Any, square: Any) -> Any:
        """The next v, (d,); square: Δ²."""

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰, m = 0, v = τ²."""
        return State(x0, problem.zeros(), problem.zeros() + self.adaptivity**2)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """FedAvg's local steps; the server's step is along m over √v."""
        load = self.local_load(problem)
        clients = network.participants(random, self.clients_per_round, load)
        if len(clients) == 0:
            return state
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        y = problem.local_sgd(x, batch, self.local_step_at(random.round))
        (rows,) = network.gather(y - x)
        delta = problem.mean(rows, clients)
        m = self.momentum * state.m + (1 - self.momentum) * delta
        v = self.second_moment(state.v, delta**2)
        step = self.global_step_size / (v**0.5 + self.adaptivity)
        return State(state.x + step * m, m, v)
