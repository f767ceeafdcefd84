"""Shared by all methods over clients with whole samples."""

from typing import Any, ClassVar

from pydantic import PositiveFloat, PositiveInt

from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.runs import RunSpec


class HorizontalAlgorithm(Algorithm):
    """A server and clients, of which some take part in every round.

    The problem is a HorizontalProblem, the network a StarNetwork; a state has a field `x`, the
    server's model (d,).
    """

    partition_kind: ClassVar[str] = "horizontal"

    clients_per_round: PositiveInt

    def point(self, state: Any, network: Any) -> Any:
        """The server's model."""
        return state.x

    def check_run(self, spec: RunSpec) -> None:
        """There must be enough clients."""
        partition = spec.partition
        assert isinstance(partition, HorizontalPartition)
        if self.clients_per_round > partition.clients:
            raise FedatlasError(
                f"'clients_per_round' is {self.clients_per_round}, but the partition has only "
                f"{partition.clients} clients"
            )


class LocalStepsAlgorithm(HorizontalAlgorithm):
    """Methods whose rounds are K local steps and one of the server along their mean.

    S = clients_per_round, K = local_steps, b = batch_size (None: full local gradients),
    η_l = local_step_size, η_g = global_step_size.
    """

    local_steps: PositiveInt
    local_step_size: PositiveFloat
    global_step_size: PositiveFloat = 1.0
    batch_size: PositiveInt | None = None

    @property
    def effective_step_size(self) -> float:
        """η̃ = K η_g η_l."""
        return self.local_steps * self.global_step_size * self.local_step_size
