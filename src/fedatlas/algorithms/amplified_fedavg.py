"""Amplified FedAvg: federated averaging that extrapolates its path every P rounds."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x, and the one with which these P rounds began, (d,)."""

    x: Any
    anchor: Any


class AmplifiedFedAvg(LocalWorkAlgorithm):
    """FedAvg with amplified updates (Wang, Ji 2022, arXiv:2205.13648, Algorithm 1).

    Every round is FedAvg's: K local steps y ← y − η_l (∇f_i,B(y) + μ (y − x)) from y = x, then
    x ← x + η_g/S Σ_{i∈S} (y_i − x). At the end of round r, counted from 0, where P divides r + 1,
    the server goes on by x ← a + γ (x − a), and then a ← x; at first a = x⁰. Clients are chosen
    first, then samples. Where clients have weights, N p_i/S stands for 1/S. With γ = 1 it is
    FedAvg, or FedProx.

    period: P. amplification: γ; the paper's η. proximal_weight: μ, by default 0; more is Amplified
        FedProx.
    """

    title: ClassVar[str] = "Amplified FedAvg"
    source: ClassVar[str] = (
        "Wang, Ji 2022, Algorithm 1, quoted from memory, where η_g = 1. There, who takes part is "
        "arbitrary; ours are sampled uniformly. μ is FedProx's, as in the comparison of Crawshaw, "
        "Liu 2024 (arXiv:2410.23131)"
    )

    period: PositiveInt
    amplification: PositiveFloat
    proximal_weight: NonNegativeFloat = 0.0

    @property
    def effective_step_size(self) -> float:
        """γ K η_g η_l."""
        return self.amplification * super().effective_step_size

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = a = x⁰."""
        return State(x0, x0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Average the sampled clients' local progress; at the end of a period amplify it."""
        clients = network.participants(random, self.clients_per_round, self.local_load(problem))
        (x,) = network.broadcast(state.x, to=clients)
        batch = self.local_batches(problem, random, clients)
        y = problem.local_sgd(
            x, batch, self.local_step_at(random.round), proximal_weight=self.proximal_weight
        )
        (delta,) = network.gather(y - x)
        moved = state.x + self.server_step_size * problem.mean(delta, clients)
        if (random.round + 1) % self.period:
            return State(moved, state.anchor)
        amplified = state.anchor + self.amplification * (moved - state.anchor)
        return State(amplified, amplified)
