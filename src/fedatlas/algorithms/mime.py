"""Mime: local steps with centralised momentum, which is fixed within a round."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x and momentum m, (d,)."""

    x: Any
    m: Any


class Mime(LocalWorkAlgorithm):
    """Mime, MimeLite (Karimireddy et al. 2020, arXiv:2008.03606, Algorithm 1), SGD with momentum.

    Clients get x and m and send c_i = ∇f_i(x), over all local samples; in Mime they are then sent
    the mean c of the c_i. They take K steps y ← y − η_l ((1 − β) g + β m) from y = x, with
    g = ∇f_i,B(y) − ∇f_i,B(x) + c over one minibatch B in Mime, and g = ∇f_i,B(y) in MimeLite. The
    server averages, x ← x + η_g/S Σ_{i∈S} (y_i − x), and renews m ← (1 − β) c + β m, from m = 0.
    Clients are chosen first, then minibatches. MimeLite with β = 0 is FedAvg.

    momentum: β. lite: MimeLite, which needs no second exchange and half the local gradients.
    """

    title: ClassVar[str] = "Mime"
    source: ClassVar[str] = (
        "Karimireddy et al. 2020, Algorithm 1 with its SGDm, quoted from memory. η_g = 1 is the "
        "paper's. Clients send ∇f_i(x) once, before their local steps"
    )

    momentum: float = Field(ge=0, lt=1)
    lite: bool = False

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰, m = 0."""
        return State(x0, problem.zeros())

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Whole gradients at x, local steps with the server's momentum, and means of both."""
        beta, step_size = self.momentum, self.local_step_at(random.round)
        clients = network.participants(random, self.clients_per_round, self._load(problem))
        if len(clients) == 0:
            return state
        x, m = network.broadcast(state.x, state.m, to=clients)
        batch = self.local_batches(problem, random, clients)
        c_i = problem.gradient(x, problem.minibatches(random, clients, size=None))
        if not self.lite:
            (c_i,) = network.gather(c_i)
            (c,) = network.broadcast(problem.mean(c_i, clients), to=clients)
        y = x
        for k in range(batch.steps):
            now = batch.at(k)
            g = (
                problem.gradient(y, now)
                if self.lite
                else problem.gradient_difference(y, x, now) + c
            )
            y = problem.moved(y, y - step_size * ((1 - beta) * g + beta * m), now)
        if self.lite:
            delta, c_i = network.gather(y - x, c_i)
            c = problem.mean(c_i, clients)
        else:
            (delta,) = network.gather(y - x)
        return State(
            x=state.x + self.server_step_size * problem.mean(delta, clients),
            m=(1 - beta) * c + beta * state.m,
        )

    def _load(self, problem: HorizontalProblem) -> Any:
        if self.lite:
            return self.local_load(problem, (None, 1), down=2, up=2)
        local = self.load_of_steps()
        return self.local_load(problem, local, (None, 1), down=3, up=2, trips=2)
