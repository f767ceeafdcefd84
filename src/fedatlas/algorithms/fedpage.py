"""FedPAGE: the PAGE estimator with local steps."""

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any, ClassVar

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.algorithm import StepBound
from fedatlas.federations.horizontal import HorizontalAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork

Probability = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class State:
    """The server's xʳ, xʳ⁻¹ and gʳ⁻¹, (d,); g is None before round 0, which is a full round.

    number: r.
    """

    x: Any
    x_previous: Any
    g: Any
    number: int


class FedPage(HorizontalAlgorithm):
    """FedPAGE (Zhao, Li, Richtárik 2021, arXiv:2108.04755, Algorithm 1); K = 1 is PAGE.

    S = clients_per_round, K = local_steps, η_g = global_step_size, η_l = local_step_size,
    b1, b2, b3 = full_batch_size, first_batch_size, local_batch_size (None: all M local samples),
    p_r = full_round_probability: one for all rounds (None: S/N), or {first round: probability, …},
    each until the next. p_0 is 1. FedPAGE-Full has b1 = b2 = b3 = M. Drawn are first the coin,
    which is True for a full round (round 0 is one in any case), then the clients, all N in a full
    round, then their minibatches of b1, or of b2 and, for the other K − 1 steps, of b3.

    The sign of Δ follows Algorithm 1 line 24 (the running text has the opposite, which ascends).
    """

    title: ClassVar[str] = "FedPAGE"
    source: ClassVar[str] = (
        "Zhao, Li, Richtárik 2021, Algorithm 1. η_l is chosen 'heuristically' in the paper and not "
        "given. Where an experiment does not choose it either it is η_g/K, our choice, by which K "
        "local steps span one global step"
    )

    local_steps: PositiveInt
    global_step_size: PositiveFloat
    local_step_size: PositiveFloat | None = None  # None: η_g/K, our choice
    full_batch_size: PositiveInt | None = None
    first_batch_size: PositiveInt | None = None
    local_batch_size: PositiveInt | None = 1
    full_round_probability: Probability | dict[NonNegativeInt, Probability] | None = None

    @property
    def effective_step_size(self) -> float:
        """η̃ = η_g."""
        return self.global_step_size

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x⁰; p₀ = 1 makes the first round a full one."""
        return State(x0, x0, None, 0)

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """A full gradient with probability p, otherwise local steps along recursive estimates."""
        if random.bernoulli(self._probability(problem, state.number)) or state.g is None:
            g = self._full_round(state, problem, network, random)
        else:
            g = self._local_round(state, problem, network, random)
        return State(state.x - self.global_step_size * g, state.x, g, state.number + 1)

    def _full_round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> Any:
        """Lines 6–11: gʳ is the mean of all clients' gradients at xʳ; if nobody answers gʳ⁻¹."""
        load = problem.load((self.full_batch_size, 1))
        clients = network.participants(random, problem.clients, load)
        if len(clients) == 0:
            return problem.zeros() if state.g is None else state.g
        (x,) = network.broadcast(state.x, to=clients)
        batch = problem.minibatches(random, clients, self.full_batch_size)
        (g_i,) = network.gather(problem.gradient(x, batch))
        return problem.mean(g_i, clients)

    def _local_round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> Any:
        """Lines 13–26: gʳ is the sampled clients' mean progress per unit of local step.

        If nobody answers, gʳ⁻¹.
        """
        first, local = self.first_batch_size, self.local_batch_size
        load = problem.load((first, 2), (local, 2 * (self.local_steps - 1)), down=3)
        clients = network.participants(random, self.clients_per_round, load)
        if len(clients) == 0:
            return state.g
        x, x_previous, g = network.broadcast(state.x, state.x_previous, state.g, to=clients)
        step_size = self._local_step_size
        batch = problem.minibatches(random, clients, first)
        g_0 = problem.gradient_difference(x, x_previous, batch) + g
        y = x - step_size * g_0
        if self.local_steps > 1:
            batch = problem.minibatches(random, clients, local, self.local_steps - 1)
            y = problem.local_recursive_steps(y, x, g_0, batch, step_size)
        (delta,) = network.gather(x - y)
        return problem.mean(delta, clients) / (self.local_steps * step_size)

    @property
    def _local_step_size(self) -> float:
        return self.local_step_size or self.global_step_size / self.local_steps

    def _probability(self, problem: Any, number: int) -> float:
        """p_r; S/N in rounds before the first that is declared."""
        declared = self.full_round_probability
        if isinstance(declared, dict):
            declared = declared.get(
                max((first for first in declared if first <= number), default=-1)
            )
        return self.clients_per_round / problem.clients if declared is None else declared

    def step_bounds(self, problem: Any, *, printed: bool = False) -> list[StepBound]:
        """Theorems 4.1 (K = 1, average smoothness) and 4.2, as proved or as printed.

        As printed, both global bounds are up to √2 too large: 1/(pS) suffices for the proofs where
        the statements have 1/(2pS). They are about one probability for all rounds.
        """
        if isinstance(self.full_round_probability, dict):
            return []
        p, s, k = self._probability(problem, 0), self.clients_per_round, self.local_steps
        halves, version = (2, "as printed") if printed else (1, "corrected")
        if k == 1:
            bound = 1 / (problem.average_smoothness * (1 + sqrt((1 - p) / (halves * p * s))))
            return [StepBound("η_g", self.global_step_size, bound, f"Theorem 4.1, {version}")]
        smoothness = problem.smoothness
        bound = 1 / (smoothness * (1 + sqrt(3 * (1 - p / 3) / (halves * p * s))))
        local = sqrt(2) * p / (24 * sqrt(s) * k * smoothness)
        return [
            StepBound("η_g", self.global_step_size, bound, f"Theorem 4.2, {version}"),
            StepBound("η_l", self._local_step_size, local, "Theorem 4.2"),
        ]
