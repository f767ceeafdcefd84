"""Shared by all min–max methods over workers with whole samples."""

from typing import Any, ClassVar, NamedTuple

from pydantic import PositiveFloat, PositiveInt

from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.star_network import StarNetwork


class PrimalDual(NamedTuple):
    """A point, or a gradient: θ and w."""

    theta: Any
    w: Any


class MinMaxAlgorithm(Algorithm):
    """A server and N workers, all of which take part in every round: q local steps, then averages.

    The problem is a MinMaxProblem, the network a StarNetwork; a state has the fields `theta` and
    `w`, the averages that all workers hold after a round.

    local_steps: q. batch_size: b (None: full local batches). primal_step_size, dual_step_size: of
    θ = (m, a, b), which descends, and of w, which ascends.
    """

    partition_kind: ClassVar[str] = "horizontal"
    min_max: ClassVar[bool] = True

    local_steps: PositiveInt
    batch_size: PositiveInt | None = None
    primal_step_size: PositiveFloat
    dual_step_size: PositiveFloat

    def point(self, state: Any, network: StarNetwork) -> PrimalDual:
        """The averaged θ and w."""
        return PrimalDual(state.theta, state.w)

    @property
    def effective_step_size(self) -> float:
        """The step of θ."""
        return self.primal_step_size
