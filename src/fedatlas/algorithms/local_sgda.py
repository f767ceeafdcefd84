"""Local SGDA: local descent and ascent, averaged every q steps."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.min_max import MinMaxAlgorithm, PrimalDual
from fedatlas.federations.min_max.problem import MinMaxProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The averages θ, (d,), and w, (1,)."""

    theta: Any
    w: Any


class LocalSgda(MinMaxAlgorithm):
    """Local SGDA (Sharma et al. 2022, arXiv:2203.04850; Deng and Mahdavi 2021)."""

    title: ClassVar[str] = "local SGDA"
    source: ClassVar[str] = (
        "Sharma et al. 2022, recalled; θ and w move simultaneously, on the same minibatch"
    )

    def start(self, problem: MinMaxProblem, network: StarNetwork, x0: PrimalDual) -> State:
        """θ_0 and w_0, the same for all workers."""
        return State(x0.theta, x0.w)

    def round(
        self, state: State, problem: MinMaxProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """q local steps from the averages, then new averages."""
        theta, w = problem.copies(state.theta), problem.copies(state.w)
        batches = problem.minibatches(random, self.batch_size, self.local_steps)
        for step in range(self.local_steps):
            gradient = problem.gradients(theta, w, batches.at(step))
            theta = theta - self.primal_step_size * gradient.theta
            w = w + self.dual_step_size * gradient.w
            problem.step_done()
        theta, w = network.gather(theta, w)
        return State(*network.broadcast(theta.mean(0), w.mean(0), to=problem.workers))
