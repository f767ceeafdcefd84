"""Momentum local SGDA: local steps along averaged gradients of the past."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.min_max import MinMaxAlgorithm, PrimalDual
from fedatlas.federations.min_max.problem import MinMaxProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The averages θ, (d,), and w, (1,), and of the momenta d_θ, (d,), and d_w, (1,).

    Before round 0 the momenta are None.
    """

    theta: Any
    w: Any
    momentum_theta: Any
    momentum_w: Any


class MomentumLocalSgda(MinMaxAlgorithm):
    """Momentum local SGDA (Sharma et al. 2022, arXiv:2203.04850, Algorithm 2).

    momentum: ρ, the weight of a new gradient; it stands for the β α of the source, whose α is
    absorbed in the step sizes.
    initial_batch_size: of the gradient that the momenta start from (None: batch_size).

    The gradient of a round's last step is taken at a worker's own point, before averages. With
    ρ = 1 this is local SGDA for one worker; for several it is local SGDA averaged one step later.
    """

    title: ClassVar[str] = "momentum local SGDA"
    source: ClassVar[str] = (
        "Sharma et al. 2022, Algorithm 2, recalled. One weight ρ in place of β·α, for θ and w "
        "alike, is our reading of the FMGDA paper's single momentum parameter"
    )

    momentum: float = Field(gt=0, le=1)
    initial_batch_size: PositiveInt | None = None

    def start(self, problem: MinMaxProblem, network: StarNetwork, x0: PrimalDual) -> State:
        """θ_0 and w_0; momenta are taken at them when minibatches can be drawn, in round 0."""
        return State(x0.theta, x0.w, None, None)

    def round(
        self, state: State, problem: MinMaxProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """q local steps along the momenta, then averages of variables and momenta."""
        theta, w = problem.copies(state.theta), problem.copies(state.w)
        if state.momentum_theta is None:
            size = self.initial_batch_size or self.batch_size
            d_theta, d_w = problem.gradients(theta, w, problem.minibatches(random, size))
        else:
            d_theta = problem.copies(state.momentum_theta)
            d_w = problem.copies(state.momentum_w)
        batches = problem.minibatches(random, self.batch_size, self.local_steps)
        for step in range(self.local_steps):
            theta = theta - self.primal_step_size * d_theta
            w = w + self.dual_step_size * d_w
            gradient = problem.gradients(theta, w, batches.at(step))
            d_theta = (1 - self.momentum) * d_theta + self.momentum * gradient.theta
            d_w = (1 - self.momentum) * d_w + self.momentum * gradient.w
            problem.step_done()
        held = network.gather(theta, w, d_theta, d_w)
        averages = (array.mean(0) for array in held)
        return State(*network.broadcast(*averages, to=problem.workers))
