"""SCAFFOLD: local steps corrected by control variates."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.algorithm import StepBound
from fedatlas.federations.horizontal import LocalWorkAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's model x and control variate c, (d,); the clients' control variates, (N, d)."""

    x: Any
    c: Any
    client_c: ClientRows


class Scaffold(LocalWorkAlgorithm):
    """SCAFFOLD (Karimireddy et al. 2020, arXiv:1910.06378, Algorithm 1).

    All control variates start at zero. Drawn are the clients, then the minibatches of all their
    local steps.

    option: how a client renews its control variate: I, its local gradient at the server's model;
        II, c_i − c + (x − y)/(K η_l), from what its local steps found.
    """

    title: ClassVar[str] = "SCAFFOLD"
    source: ClassVar[str] = (
        "Karimireddy et al. 2020, Algorithm 1. The FedPAGE paper gives only the product K·η_g·η_l "
        "and names no option. Where an experiment chooses neither, η_g = 1 and option II are our "
        "choice; control variates start at zero, our choice too"
    )

    option: Literal["I", "II"] = "II"

    def start(self, problem: HorizontalProblem, network: StarNetwork, x0: Any) -> State:
        """x = x⁰, c = 0, c_i = 0."""
        return State(x0, problem.zeros(), problem.client_zeros())

    def round(
        self, state: State, problem: HorizontalProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """Local steps along ∇f_i − c_i + c, then update x, c and the sampled c_i."""
        whole = [(None, 1)] if self.option == "I" else []
        load = self.local_load(problem, *whole, down=2, up=2)
        clients = network.participants(random, self.clients_per_round, load)
        x, c = network.broadcast(state.x, state.c, to=clients)
        c_i = state.client_c[clients]
        batch = self.local_batches(problem, random, clients)
        correction, step_size = c - c_i, self.local_step_at(random.round)
        delta_y = problem.local_sgd(x, batch, step_size, correction) - x
        if self.option == "I":
            c_i_new = problem.gradient(x, problem.minibatches(random, clients, size=None))
        else:
            # c_i − c + (x − y)/(K_i η_l), from numbers at hand; K_i are a client's own steps.
            c_i_new = delta_y / (-problem.steps_taken(batch) * step_size) - correction
        delta_y, delta_c = network.gather(delta_y, c_i_new - c_i)
        return State(
            x=state.x + self.server_step_size * problem.mean(delta_y, clients),
            c=state.c + problem.part_of_mean(delta_c, clients),
            client_c=state.client_c.replace(clients, c_i_new),
        )

    def step_bounds(self, problem: Any) -> list[StepBound]:
        """Nonconvex theory: η̃ ≤ (S/N)^(2/3) / (24 L), declared for η_g ≥ 1 and K equal steps."""
        if self.local_unit != "steps" or self.step_factors:
            return []
        share = self.clients_per_round / problem.clients
        bound = share ** (2 / 3) / (24 * problem.smoothness)
        theorem = "SCAFFOLD's nonconvex theorem (quoted from memory)"
        return [StepBound("K η_g η_l", self.effective_step_size, bound, theorem)]
