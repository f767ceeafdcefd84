"""What one training job is told: the whole of a run's identity, and nothing else.

Device, threads, mirror and paths are not part of it. Experiment files are expanded into these by
`fedatlas.plan`; the workflow hands them to jobs as canonical JSON.
"""

from typing import Any

from pydantic import NonNegativeInt, PositiveInt

from fedatlas.algorithm import Algorithm, algorithm_class
from fedatlas.errors import FedatlasError
from fedatlas.models import Model, validated
from fedatlas.objectives import Objective
from fedatlas.partition import Partition


class RunSpec(Model):
    """One (experiment, run, grid point) with all its seeds."""

    paper: str
    experiment: str
    run: str
    point: str
    dataset: str
    split: str
    partition: Partition
    objective: Objective
    algorithm: str
    hyper_parameters: dict[str, Any]
    rounds: PositiveInt
    record_every: PositiveInt
    seeds: tuple[NonNegativeInt, ...]

    @property
    def name(self) -> str:
        """experiment/run/point, as results and messages print it."""
        return f"{self.experiment}/{self.run}/{self.point}"

    def build_algorithm(self, where: str | None = None) -> Algorithm:
        """The validated method; FedatlasError names the hyper-parameter at fault."""
        where = where or self.name
        try:
            method = algorithm_class(self.algorithm)
        except FedatlasError as error:
            raise FedatlasError(f"{where}: {error}") from None
        algorithm = validated(method, self.hyper_parameters, f"{where} ({self.algorithm})")
        if algorithm.clients_per_round > self.partition.clients:
            raise FedatlasError(
                f"{where}: 'clients_per_round' is {algorithm.clients_per_round}, but the partition "
                f"has only {self.partition.clients} clients"
            )
        return algorithm
