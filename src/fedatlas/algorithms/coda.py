"""CODA: local descent and ascent in proximal stages, with a dual restart after each."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.min_max import PrimalDual, Stage, StagedMinMaxAlgorithm
from fedatlas.federations.min_max.problem import MinMaxProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The averages θ, (d,), and w, (1,); every worker's sums of both, (N, d) and (N, 1).

    summed: over how many steps, those of the stage so far. stage: where the schedule stands;
    theta_ref: θ at the start of the stage, (d,).
    """

    theta: Any
    w: Any
    theta_sum: Any
    w_sum: Any
    summed: int
    theta_ref: Any
    stage: Stage


class Coda(StagedMinMaxAlgorithm):
    """CODA (Guo et al. 2020, arXiv:2005.02426).

    A stage's result is the average of θ over workers and steps, and the next stage's reference;
    w then restarts from what it should be there, b* − a*, by the scores of restart_batch_size
    samples of every worker (None: all of them). Within a stage the point is the last average of
    iterates. The restart's forward passes are no gradients and not counted as such.

    restart_batch_size: of the samples by which w restarts; None: all local ones.
    """

    title: ClassVar[str] = "CODA"
    source: ClassVar[str] = (
        "Guo et al. 2020, recalled. Separate steps for θ and w, constant local steps q, the first "
        "reference θ_0 and all samples at restarts are ours; no gradient clipping and no weight "
        "decay, which CODASCA's public code has"
    )

    restarts_dual: ClassVar[bool] = True

    restart_batch_size: PositiveInt | None = None

    def start(self, problem: MinMaxProblem, network: StarNetwork, x0: PrimalDual) -> State:
        """θ_0 and w_0, the reference θ_0."""
        return self._begin_stage(x0, self.first_stage, problem)

    def round(
        self, state: State, problem: MinMaxProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """q local steps on the regularised objective, then averages; at a stage's end a restart."""
        primal_step, dual_step = self.step_sizes(state.stage)
        theta, w = problem.copies(state.theta), problem.copies(state.w)
        theta_sum, w_sum = state.theta_sum, state.w_sum
        batches = problem.minibatches(random, self.batch_size, self.local_steps)
        for step in range(self.local_steps):
            gradient = problem.gradients(theta, w, batches.at(step))
            theta = self.descended(theta, gradient.theta, state.theta_ref, primal_step)
            w = w + dual_step * gradient.w
            theta_sum, w_sum = theta_sum + theta, w_sum + w
            problem.step_done()
        stage = self.after_round(state.stage)
        summed = state.summed + self.local_steps
        if stage.begins:
            # The last iterates are not needed any more, and not sent.
            theta, w = theta_sum / summed, w_sum / summed
        theta, w = network.gather(theta, w)
        theta, w = network.broadcast(theta.mean(0), w.mean(0), to=problem.workers)
        if not stage.begins:
            return State(theta, w, theta_sum, w_sum, summed, state.theta_ref, stage)
        if self.restarts_dual:
            w = self._restarted(PrimalDual(theta, w), problem, network, random)
        return self._begin_stage(PrimalDual(theta, w), stage, problem)

    def _restarted(
        self, point: PrimalDual, problem: MinMaxProblem, network: StarNetwork, random: RoundRandom
    ) -> Any:
        """w of the next stage: mean over workers of their negatives' less their positives' scores.

        Two numbers from each worker, not their difference: one without a class has no say about
        it. If all lack one, w stays.
        """
        samples = problem.minibatches(random, self.restart_batch_size)
        negative, positive = network.gather(*problem.class_means(point.theta, samples))
        restarted = negative.nanmean(0) - positive.nanmean(0)
        (restarted,) = network.broadcast(restarted, to=problem.workers)
        return point.w if restarted.isnan().any() else restarted

    def _begin_stage(self, point: PrimalDual, stage: Stage, problem: MinMaxProblem) -> State:
        """The first state of a stage."""
        theta, w = point
        sums = problem.worker_zeros(theta), problem.worker_zeros(w)
        return State(theta, w, *sums, 0, theta, stage)
