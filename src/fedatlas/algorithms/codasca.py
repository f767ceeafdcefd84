"""CODASCA: staged proximal local SGDA corrected by control variates."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import PositiveFloat

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.min_max import PrimalDual, Stage, StagedMinMaxAlgorithm
from fedatlas.federations.min_max.problem import MinMaxProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The server's θ, (d,), and w, (1,); its control variates, (d,) and (1,).

    worker_c_theta, worker_c_w: the workers' control variates, (N, d) and (N, 1).
    stage: where the schedule stands; theta_ref: θ at the start of the stage, (d,).
    """

    theta: Any
    w: Any
    c_theta: Any
    c_w: Any
    worker_c_theta: Any
    worker_c_w: Any
    theta_ref: Any
    stage: Stage


class Codasca(StagedMinMaxAlgorithm):
    """CODASCA (Yuan et al. 2021, arXiv:2102.04635).

    global_step_size: η_g. Control variates are average local directions (SCAFFOLD's option II),
    with the pull towards θ_ref in them, and start every stage at zero.
    """

    title: ClassVar[str] = "CODASCA"
    source: ClassVar[str] = (
        "Yuan et al. 2021, recalled. Separate steps for θ and w, constant local steps q and the "
        "stages are ours; the public code differs (raw gradients as variates, no resets)"
    )

    global_step_size: PositiveFloat = 1.0

    def start(self, problem: MinMaxProblem, network: StarNetwork, x0: PrimalDual) -> State:
        """θ_0 and w_0, the reference θ_0, all variates zero."""
        return self._begin_stage(x0, problem, self.first_stage)

    def round(
        self, state: State, problem: MinMaxProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """q local steps along ∇F_i − c_i + c, then new variates and averages."""
        primal_step, dual_step = self.step_sizes(state.stage)
        theta, w = problem.copies(state.theta), problem.copies(state.w)
        c_theta_i, c_w_i = state.worker_c_theta, state.worker_c_w
        batches = problem.minibatches(random, self.batch_size, self.local_steps)
        for step in range(self.local_steps):
            gradient = problem.gradients(theta, w, batches.at(step))
            direction = gradient.theta - c_theta_i + state.c_theta
            theta = self.descended(theta, direction, state.theta_ref, primal_step)
            w = w + dual_step * (gradient.w - c_w_i + state.c_w)
            problem.step_done()
        steps = self.local_steps
        c_theta_i = c_theta_i - state.c_theta + (state.theta - theta) / (steps * primal_step)
        c_w_i = c_w_i - state.c_w + (w - state.w) / (steps * dual_step)
        theta_i, w_i, c_theta_i, c_w_i = network.gather(theta, w, c_theta_i, c_w_i)
        theta = state.theta + self.global_step_size * (theta_i.mean(0) - state.theta)
        w = state.w + self.global_step_size * (w_i.mean(0) - state.w)
        averages = theta, w, c_theta_i.mean(0), c_w_i.mean(0)
        theta, w, c_theta, c_w = network.broadcast(*averages, to=problem.workers)
        stage = self.after_round(state.stage)
        if stage.begins:
            return self._begin_stage(PrimalDual(theta, w), problem, stage)
        return State(theta, w, c_theta, c_w, c_theta_i, c_w_i, state.theta_ref, stage)

    def _begin_stage(self, point: PrimalDual, problem: MinMaxProblem, stage: Stage) -> State:
        """The first state of a stage."""
        theta, w = point
        worker_c = problem.worker_zeros(theta), problem.worker_zeros(w)
        return State(theta, w, 0 * theta, 0 * w, *worker_c, theta, stage)
