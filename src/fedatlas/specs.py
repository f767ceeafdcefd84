"""What one training job is told: the whole of a run's identity, and nothing else.

Device, threads, mirror and paths are not part of it. Experiment files are expanded into these by
`fedatlas.plan`; the workflow hands them to jobs as canonical JSON.
"""

from pathlib import Path
from typing import Any

from pydantic import NonNegativeInt, PositiveInt

from fedatlas.algorithm import Algorithm, algorithm_class
from fedatlas.errors import FedatlasError
from fedatlas.models import Model, validated
from fedatlas.objectives import Objective
from fedatlas.partition import Partition, VerticalPartition
from fedatlas.simulation.network_model import NetworkModel


class RunSpec(Model):
    """One (experiment, run, grid point) with all its seeds.

    network: of vertical runs. optimum: whether sub-optimality is measured, which needs f*.
    """

    paper: str
    experiment: str
    run: str
    point: str
    dataset: str
    split: str
    partition: Partition
    network: NetworkModel | None = None
    objective: Objective
    optimum: bool = False
    algorithm: str
    hyper_parameters: dict[str, Any]
    rounds: PositiveInt
    record_every: PositiveInt
    seeds: tuple[NonNegativeInt, ...]

    @property
    def name(self) -> str:
        """experiment/run/point, as results and messages print it."""
        return f"{self.experiment}/{self.run}/{self.point}"

    def optimum_file(self, folder: Path, seed: int) -> Path | None:
        """Where a trial's f* is kept below `folder`: by rows and objective, whatever the parties.

        None where sub-optimality is not measured.
        """
        if not self.optimum:
            return None
        partition = self.partition.of_trial(seed)
        assert isinstance(partition, VerticalPartition)  # as the plan has checked
        return folder / partition.rows_slug / f"{self.objective.slug}.json"

    def build_algorithm(self, where: str | None = None) -> Algorithm:
        """The validated method; FedatlasError names the hyper-parameter at fault."""
        where = where or self.name
        try:
            method = algorithm_class(self.algorithm)
        except FedatlasError as error:
            raise FedatlasError(f"{where}: {error}") from None
        algorithm = validated(method, self.hyper_parameters, f"{where} ({self.algorithm})")
        try:
            algorithm.check_partition(self.partition)
        except FedatlasError as error:
            raise FedatlasError(f"{where}: {error}") from None
        return algorithm
