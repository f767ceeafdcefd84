"""FMGDA: federated descent and ascent along recursive-momentum (STORM) estimators."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, PositiveFloat, PositiveInt

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.min_max import MinMaxAlgorithm, PrimalDual
from fedatlas.federations.min_max.problem import MinMaxProblem
from fedatlas.federations.parts import StarNetwork


@dataclass(frozen=True)
class State:
    """The averages θ, (d,), and w, (1,); each worker's estimators u, (N, d), and v, (N, 1).

    Before round 0 the estimators are None. iteration: t, how many are done.
    """

    theta: Any
    w: Any
    u: Any
    v: Any
    iteration: int


class Fmgda(MinMaxAlgorithm):
    """FMGDA ("On the Convergence of Federated Deep AUC Maximization", Algorithm 1).

    α, β = primal_momentum, dual_momentum; ĉη = primal_step_size and cη = dual_step_size. They are
    constant if constant_iterations is None. Otherwise they follow Corollary 1, whose
    η_t = h̄/max(t + 3/2, E)^{1/3} is constant for E = constant_iterations and falls then: steps are
    multiplied by η_t/η_0, and α and β, which are c₁η_t² and c₂η_t², by its square. The corollary
    has E = 1728 L³q³h̄³ = 1728 q³N².

    B = initial_batch_size (None: b q, as in the paper's Remark 1, or all local samples if they are
    fewer; the experiments do not say). The output is the last averages, not a random one (line 19).

    A round is q iterations t = rq + 1 … (r + 1)q, the last of which averages: u and v before the
    step, θ and w after it. Averages are taken when all workers have arrived (as printed, worker 1
    would average what others have not computed yet), and the correction of an averaging iteration
    takes the gradient at the worker's own point of the iteration before, not at the average.
    """

    title: ClassVar[str] = "FMGDA"
    source: ClassVar[str] = (
        "FMGDA paper, Algorithm 1, with the loop over workers closed before averages are taken; "
        "steps and α, β are constant, as its experiments imply, or follow Corollary 1; B = b q and "
        "the last averages as output are our choices"
    )

    primal_momentum: float = Field(gt=0, le=1)
    dual_momentum: float = Field(gt=0, le=1)
    initial_batch_size: PositiveInt | None = None
    constant_iterations: PositiveFloat | None = None

    def start(self, problem: MinMaxProblem, network: StarNetwork, x0: PrimalDual) -> State:
        """θ_0 and w_0; u_1 and v_1 are taken at them in round 0, when B_0 can be drawn."""
        return State(x0.theta, x0.w, None, None, 0)

    def schedule(self, iteration: int) -> float:
        """η_t/η_0 of iteration t, counted from 1."""
        if self.constant_iterations is None:
            return 1.0
        first = max(self.constant_iterations, 1.5)
        return float((first / max(first, iteration + 1.5)) ** (1 / 3))

    def round(
        self, state: State, problem: MinMaxProblem, network: StarNetwork, random: RoundRandom
    ) -> State:
        """q iterations; lines 11–12 of Algorithm 1, in the last lines 6–9, and in all 14–16."""
        theta, w = problem.copies(state.theta), problem.copies(state.w)
        u, v = state.u, state.v
        if u is None:  # line 2
            u, v = problem.gradients(theta, w, self._first_batch(problem, random))
        batches = problem.minibatches(random, self.batch_size, self.local_steps)
        for step in range(self.local_steps):
            scale = self.schedule(state.iteration + step + 1)
            previous = PrimalDual(theta, w)
            averaging = step == self.local_steps - 1
            if averaging:
                theta, w, u, v = network.gather(theta, w, u, v)
                u, v = u.mean(0), v.mean(0)
            theta = theta - scale * self.primal_step_size * u
            w = w + scale * self.dual_step_size * v
            if averaging:
                averages = theta.mean(0), w.mean(0), u, v
                theta, w, u, v = network.broadcast(*averages, to=problem.workers)
            batch = batches.at(step)
            now = problem.gradients(theta, w, batch)
            before = problem.gradients(*previous, batch)
            u = now.theta + (1 - scale**2 * self.primal_momentum) * (u - before.theta)
            v = now.w + (1 - scale**2 * self.dual_momentum) * (v - before.w)
            problem.step_done()
        return State(theta, w, u, v, state.iteration + self.local_steps)

    def _first_batch(self, problem: MinMaxProblem, random: RoundRandom) -> Any:
        size = self.initial_batch_size
        if size is None and self.batch_size is not None:
            size = self.batch_size * self.local_steps
        return problem.minibatches(random, size)
