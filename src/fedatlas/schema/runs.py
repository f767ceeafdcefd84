"""What one training job is told: the whole of a run's identity, and nothing else.

Device, threads, mirror and paths are not part of it. Experiment files are expanded into these by
`fedatlas.plan.build`; the workflow hands them to jobs as canonical JSON.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt

from fedatlas.architectures import architecture_module
from fedatlas.errors import FedatlasError
from fedatlas.schema.graphs import Graphs
from fedatlas.schema.models import Model
from fedatlas.schema.network_model import Backend, NetworkModel
from fedatlas.schema.objectives import NetworkObjective, Objective
from fedatlas.schema.partitions import Partition, pooled_rows
from fedatlas.schema.selection import agreeing, best_candidate


def _from_the_start(every: int | dict[int, int]) -> int | dict[int, int]:
    if not isinstance(every, int) and (0 not in every or list(every) != sorted(every)):
        raise ValueError("must begin with round 0 and rise, such as {0: 2, 40: 20}")
    return every


#: After how many rounds a run is measured again; also by first rounds: {0: 2, 40: 20}.
RecordEvery: TypeAlias = Annotated[
    PositiveInt | dict[NonNegativeInt, PositiveInt], AfterValidator(_from_the_start)
]


class RunSpec(Model):
    """One (experiment, run, grid point) with all its seeds.

    network, backend: of vertical runs. graphs: of runs without a server.
    tuning_seeds: the seeds on which a point of the run is chosen; no verdict looks at them.
    optimum: whether sub-optimality is measured, which needs f*.
    tuned_in: experiment whose run of the same name gives the hyper-parameters that are not given.
    """

    paper: str
    experiment: str
    run: str
    point: str
    dataset: str
    split: str
    partition: Partition
    network: NetworkModel | None = None
    backend: Backend = "simulated"
    graphs: Graphs | None = None
    objective: Objective
    optimum: bool = False
    algorithm: str
    hyper_parameters: dict[str, Any]
    tuned_in: str | None = None
    rounds: PositiveInt
    record_every: RecordEvery
    seeds: tuple[NonNegativeInt, ...]
    tuning_seeds: tuple[NonNegativeInt, ...] = ()

    @property
    def name(self) -> str:
        """experiment/run/point, as results and messages print it."""
        return f"{self.experiment}/{self.run}/{self.point}"

    @property
    def rounds_of_all_seeds(self) -> int:
        """How many rounds its job makes."""
        return self.rounds * len(self.seeds)

    def trace_file(self, results: Path) -> Path:
        """Where its trace is kept below the results folder."""
        return results / "experiments" / self.experiment / "traces" / self.run / f"{self.point}.nc"

    def optimum_file(self, folder: Path, seed: int) -> Path | None:
        """Where a trial's f* is kept below `folder`: by rows and objective, whatever the parties.

        None where sub-optimality is not measured.
        """
        if not self.optimum:
            return None
        rows = pooled_rows(self.partition.of_seed(seed)).rows_slug
        return folder / rows / f"{self.objective.slug}.json"

    @property
    def federation(self) -> str:
        """The folder of `fedatlas.federations` in which the run takes place."""
        if self.graphs is not None:
            return "decentralised"
        if self.backend == "processes":
            return "parties"
        return "min_max" if self.objective.min_max else self.partition.kind

    @property
    def processes(self) -> int:
        """How many processes compute at a time."""
        return self.partition.silos if self.backend == "processes" else 1

    def computed(self, seed: int) -> dict[str, Any]:
        """What a seed's numbers depend on, besides the contents of its shards and the code."""
        names = {"paper", "experiment", "run", "point", "dataset", "split", "tuned_in"}
        kept = self.model_dump(mode="json", exclude={*names, "seeds", "tuning_seeds"})
        return kept | {"seed": seed, "partition": self.partition.of_seed(seed).slug}

    @property
    def code(self) -> tuple[str, ...]:
        """The modules whose import closure decides what the run computes."""
        modules = [
            "fedatlas.training.loop",
            f"fedatlas.algorithms.{self.algorithm}",
            f"fedatlas.federations.{self.federation}.setting",
        ]
        if isinstance(self.objective, NetworkObjective):
            modules.append(architecture_module(self.objective.model))
        return tuple(modules)

    def tuned(self, selection: Any) -> "RunSpec":
        """With the hyper-parameters that another experiment's selection record chose.

        The best of the points that agree with what is declared here, as far as it was varied there.
        """
        try:
            entry = selection["runs"][self.run]
            tried = agreeing(entry["candidates"], self.hyper_parameters)
            selected = [one for one in tried if one["point"] == entry["selected"]]
        except (KeyError, TypeError, AttributeError):
            raise FedatlasError(
                f"{self.name}: is tuned in {self.tuned_in}, whose selection chooses no point for "
                f"the run '{self.run}'. Move that selection.json away and run again."
            ) from None
        if not tried:
            raise FedatlasError(
                f"{self.name}: is tuned in {self.tuned_in}, where no point agrees with "
                f"{self.hyper_parameters}: state values that were tried there"
            )
        values = best_candidate(selected or tried)["hyper_parameters"] | self.hyper_parameters
        return self.model_copy(update={"hyper_parameters": values, "tuned_in": None})


class Points(Model):
    """Runs that one job trains. shared: what all specifications say. points: the rest of each."""

    shared: dict[str, Any]
    points: tuple[dict[str, Any], ...] = Field(min_length=1)

    @classmethod
    def of(cls, specs: Sequence[RunSpec]) -> "Points":
        """Say once what all specifications say."""
        contents = [spec.model_dump(mode="json") for spec in specs]
        shared = {
            key: value
            for key, value in contents[0].items()
            if all(content[key] == value for content in contents)
        }
        own = [{key: content[key] for key in content if key not in shared} for content in contents]
        return cls(shared=shared, points=tuple(own))

    @property
    def specs(self) -> list[RunSpec]:
        """The whole specifications."""
        return [RunSpec.model_validate(self.shared | point) for point in self.points]
