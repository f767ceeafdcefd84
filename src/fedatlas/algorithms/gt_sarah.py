"""GT-SARAH: agents on a graph track the mean of recursive gradient estimates."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import NonNegativeInt, model_validator

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.decentralised import Iterate
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.federations.decentralised.mixing import MixingAlgorithm, beside


@dataclass(frozen=True)
class State(Iterate):
    """Besides k and x, trackers y, and of the round before estimates v and x, (n, d)."""

    y: Any
    v: Any
    x_previous: Any


class GtSarah(MixingAlgorithm):
    """GT-SARAH (Xin, Khan, Kar 2020, arXiv:2008.07428, Algorithm 1).

    Round k: v_i = ∇f_i(x_iᵏ) over all samples where k is a multiple of q + 1, otherwise
    v_i = ∇f_i,B(x_iᵏ) − ∇f_i,B(x_iᵏ⁻¹) + v_i of round k − 1, both over one fresh minibatch. Then
    y_i ← Σ_j W_ij y_j + v_i − (v_i of round k − 1) and x_i ← Σ_j W_ij x_j − α y_i, y_i the new one.
    At first y = v = 0. The rows x and y travel in one message. q = 0 is gradient tracking.

    q = inner_steps. α = step_size. samples: of B, where q > 0.
    """

    title: ClassVar[str] = "GT-SARAH"
    source: ClassVar[str] = (
        "Xin, Khan, Kar 2020, Algorithm 1; minibatches are drawn without replacement where the "
        "paper draws with it. Quoted from memory"
    )

    inner_steps: NonNegativeInt

    @model_validator(mode="after")
    def _samples_are_for_inner_steps(self) -> Self:
        if (self.samples is None) != (self.inner_steps == 0):
            raise ValueError(
                "samples and inner_steps: minibatches are for inner steps: declare both, "
                "inner_steps from 1 on, or no samples and inner_steps: 0"
            )
        return self

    def start(self, problem: GraphProblem, network: GraphNetwork, x0: Any) -> State:
        """y = v = 0."""
        return State(0, x0, 0 * x0, 0 * x0, x0)

    def round(
        self, state: State, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> State:
        x, d = state.x, problem.dimension
        if self.samples is None or state.k % (self.inner_steps + 1) == 0:
            v = problem.gradients(x, problem.first_samples(problem.samples), self.clipping_rule)
        else:
            batch, rule = problem.minibatches(random, self.samples), self.clipping_rule
            before = problem.gradients(state.x_previous, batch, rule)
            v = problem.gradients(x, batch, rule) - before + state.v
        mixed = self._mixed(beside(x, state.y), network)
        y = mixed[:, d:] + v - state.v
        return State(state.k + 1, mixed[:, :d] - self.step_size * y, y, v, x)
