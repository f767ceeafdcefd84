"""What an experiment states of a run."""

from typing import Any, Self

from pydantic import Field, PositiveInt, model_validator

from fedatlas.schema.graphs import Graphs
from fedatlas.schema.models import Model
from fedatlas.schema.network_model import Backend, NetworkModel
from fedatlas.schema.objectives import Objective
from fedatlas.schema.partitions import Partition
from fedatlas.schema.runs import RecordEvery


class RunConfig(Model):
    """One method in an experiment; a grid makes it several points.

    title: in figures; the method's own by default.
    grid: hyper-parameter → values; all combinations are run.
    tuned_in: an experiment that chooses, for its run of the same name, what is not declared. With a
        grid, it does so for every point of it.
    backend: of parties with columns: `simulated`, or `processes`, see docs/parties.md. To the times
        that processes need those of the network are added; without a network nothing is.
    partition, network, objective, graphs, rounds, record_every: the experiment's by default.
    algorithm: the method: a file of `fedatlas.algorithms`.
    hyper_parameters: what all its points share.
    """

    algorithm: str
    title: str | None = None
    hyper_parameters: dict[str, Any] = Field(default={})
    grid: dict[str, list[Any]] = Field(default={})
    tuned_in: str | None = None
    backend: Backend = "simulated"
    partition: Partition | None = None
    network: NetworkModel | None = None
    objective: Objective | None = None
    graphs: Graphs | None = None
    rounds: PositiveInt | None = None
    record_every: RecordEvery | None = None

    @model_validator(mode="after")
    def _grid_is_sound(self) -> Self:
        for key, values in self.grid.items():
            if key in self.hyper_parameters:
                raise ValueError(f"'{key}' stands both in hyper_parameters and in grid")
            if not values:
                raise ValueError(f"grid '{key}' lists no value")
        return self
