"""Runs: what experiments declare, and what one training job gets.

A RunSpec is exactly a run's identity: device, threads, mirror and paths are no part of it.
`fedatlas.plan.build` expands experiments into these; the workflow hands them to jobs as canonical
JSON.
"""

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np
from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.extensions import CODE, code_names
from fedatlas.files import canonical_json, text_digest, write_text
from fedatlas.schema.endings import Ending, Until, ending_of
from fedatlas.schema.federation import Federation, federation_of
from fedatlas.schema.graphs import Graphs, weight_matrix
from fedatlas.schema.models import Model, read_json, validated
from fedatlas.schema.network_model import AnyNetworkModel, Backend
from fedatlas.schema.objectives import Objective
from fedatlas.schema.partitions import HorizontalPartition, Partition
from fedatlas.schema.quantities import Level


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Also list nested keys, as `scheme.gamma`."""
    found = dict(values)
    for outer, within in values.items():
        if isinstance(within, Mapping):
            found |= {f"{outer}.{inner}": value for inner, value in within.items()}
    return found


def at_point(declared: Mapping[str, Any], point: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The declared hyper-parameters together with those of a grid point, whose names may be dotted.

    where: the run, as errors name it. FedatlasError if a dotted name lies in no mapping, or is
    declared already.
    """
    values = dict(declared)
    for name, value in point.items():
        outer, dot, inner = name.partition(".")
        if not dot:
            values[name] = value
            continue
        within = values.get(outer)
        if not isinstance(within, Mapping) or inner in within:
            raise FedatlasError(
                f"{where}: grid '{name}' needs hyper_parameters with a mapping '{outer}' that does "
                f"not state '{inner}'"
            )
        values[outer] = {**within, inner: value}
    return values


def apart(point: Mapping[str, Any]) -> dict[str, Any]:
    """A point of a grid, in which names that vary together, as in {"a, b": [1, 2]}, are apart."""
    found: dict[str, Any] = {}
    for names, value in point.items():
        each = names.split(", ")
        found |= {names: value} if len(each) == 1 else dict(zip(each, value, strict=True))
    return found


#: A point that was tried, as records of selections state it: `score` and `scores_by_seed` are null
#: where they are infinite.
Candidate = Mapping[str, Any]


#: Scores, in decades, that differ by no more are equal but for rounding.
TIE = 1e-9


def best_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Of the best candidates that with the smallest hyper-parameters, in alphabetical order."""
    return min(best_candidates(candidates), key=lambda one: size_of(one["hyper_parameters"]))


def best_candidates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those of the lowest score, which tie; ones that lost a seed only if all did."""
    healthy = [one for one in candidates if None not in one["scores_by_seed"]] or candidates
    scores = [inf if one["score"] is None else one["score"] for one in healthy]
    return [healthy[place] for place in best_places(scores)]


def best_places(scores: Sequence[float]) -> list[int]:
    """Places of the lowest scores, which tie but for rounding."""
    lowest = min(scores) + TIE
    return [place for place, score in enumerate(scores) if score <= lowest]


def size_of(hyper_parameters: Mapping[str, Any]) -> list[tuple[str, float, str]]:
    """What sorts points by their hyper-parameters, however a file lists them."""
    return [
        (name, float(value), "") if isinstance(value, int | float) else (name, inf, str(value))
        for name, value in sorted(flat(hyper_parameters).items())
        if not isinstance(value, Mapping)  # whose values have names of their own
    ]


def agreeing(candidates: Sequence[Candidate], declared: Mapping[str, Any]) -> list[Candidate]:
    """Those that have the declared values, as far as candidates differ in them."""
    tried = [flat(one["hyper_parameters"]) for one in candidates]

    def varies(key: str) -> bool:
        with_it = [own[key] for own in tried if key in own]
        return len(with_it) not in (0, len(tried)) or any(one != with_it[0] for one in with_it)

    wanted = {key: value for key, value in flat(declared).items() if varies(key)}
    return [
        one for one, own in zip(candidates, tried, strict=True) if wanted.items() <= own.items()
    ]


class Optimum(Model):
    """An optimum that a solver found.

    objective: f there. gradient_norm: ‖∇f‖ there, or the norm of a subgradient if a term has no
    gradient. gap: an upper bound of f − f*: ‖∇f‖²/2μ for a μ-strongly convex objective, or what a
    subgradient proves for a convex one. It is None for other objectives; then `objective` is the
    value at the stationary point that the solver reaches from w = 0. digest: SHA-256 of the rest of
    its file. It is None unless read from a file; files of older versions have no digest, and are
    accepted as they are.
    """

    objective: float
    gradient_norm: float
    gap: float | None
    solver: str
    digest: str | None = None

    def found_digest(self) -> str:
        """What `digest` must be."""
        return text_digest(canonical_json(self.model_dump(mode="json", exclude={"digest"})))


def write_optimum(optimum: Optimum, path: Path) -> None:
    """Write as JSON, whole or not at all."""
    found = optimum.model_copy(update={"digest": optimum.found_digest()})
    write_text(path, canonical_json(found.model_dump(mode="json")) + "\n")


def read_optimum(path: Path) -> Optimum:
    """Read back; FedatlasError names a file that cannot be read or was changed."""
    found = validated(Optimum, read_json(path), str(path))
    if found.digest not in (None, found.found_digest()):
        raise FedatlasError(
            f"{path}: is damaged or was changed since it was written: its digest is not that of "
            "its values. Move it away and run again."
        )
    return found


class Selection(Model):
    """How a grid's best point is chosen, on training data, by the same rule for every run.

    A seed's score is the mean of log10 of the measurement over the last `window` of the rounds.
    For measurements that are best at 1 (accuracy, AUROC) it is the mean of log10(1 − value), so
    that the lowest score is the best. A point's score is the median over seeds. A point with a
    diverged seed is chosen only if all points have one.

    shared: run → the run with the same grid whose choice it takes.
    measurement: the measurement on training data that scores points.
    window: the share of the rounds, at their end, over which scores are means.
    """

    measurement: Level = "gradient_norm"
    window: float = Field(default=0.1, gt=0, le=1)
    shared: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _shared_points_are_chosen(self) -> Self:
        for run, other in self.shared.items():
            if other in self.shared:
                raise ValueError(
                    f"shared: '{run}' takes the point of '{other}', which chooses none itself"
                )
        return self


def _from_the_start(every: int | dict[int, int]) -> int | dict[int, int]:
    if isinstance(every, int):
        return every
    if 0 not in every:
        raise ValueError("must begin with round 0, such as {0: 2, 40: 20}")
    return dict(sorted(every.items()))  # JSON has its keys as text, in the order of text


#: After how many rounds a run is measured again; also by first rounds: {0: 2, 40: 20}.
RecordEvery: TypeAlias = Annotated[
    PositiveInt | dict[NonNegativeInt, PositiveInt], AfterValidator(_from_the_start)
]


def record_schedule(rounds: int, every: RecordEvery) -> np.ndarray:
    """Rounds at which records fall: 0, every, 2·every, …, and always the last.

    every: also by first rounds: {0: 2, 40: 20} is every second round up to 40, then every 20th.
    """
    distances = {0: every} if isinstance(every, int) else dict(sorted(every.items()))
    ends = [*distances, rounds + 1][1:]
    parts = [
        np.arange(first, min(end, rounds + 1), distance)
        for (first, distance), end in zip(distances.items(), ends, strict=True)
    ]
    return np.unique(np.concatenate([*parts, [rounds]]))


class RunSpec(Model):
    """One (experiment, run, grid point) with all its seeds.

    network: for vertical runs, and runs around a server that declare one. backend: for vertical
        runs. graphs: for runs without a server.
    tuning_seeds: the seeds that choose the run's point; no verdict looks at them.
    optimum: whether sub-optimality is measured, which needs f*. `true` takes the optimum of the
        mean over rows, which all partitions of these rows share; `of_clients` that of the mean over
        the clients of a trial.
    tuned_in: experiment whose run of the same name gives the remaining hyper-parameters.
    until: what ends it before its last round; see `RunConfig`.
    measurements: measurements and costs of files that it records.
    """

    paper: str
    experiment: str
    run: str
    point: str
    dataset: str
    split: str
    partition: Partition
    network: AnyNetworkModel | None = None
    backend: Backend = "simulated"
    graphs: Graphs | None = None
    objective: Objective
    optimum: bool | Literal["of_clients"] = False
    algorithm: str
    hyper_parameters: dict[str, Any]
    tuned_in: str | None = None
    rounds: PositiveInt
    record_every: RecordEvery
    # Left out where nothing is declared: digests of earlier results stay as they are.
    until: Until = Field(default={}, exclude_if=lambda until: not until)
    measurements: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    seeds: tuple[NonNegativeInt, ...]
    tuning_seeds: tuple[NonNegativeInt, ...] = ()

    @property
    def name(self) -> str:
        """experiment/run/point, as results and messages print it."""
        return f"{self.experiment}/{self.run}/{self.point}"

    @property
    def ending(self) -> Ending:
        """What ends it before its last round."""
        return ending_of(self.until)

    @property
    def rounds_of_all_seeds(self) -> int:
        """How many rounds its job makes, at most."""
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
        name, _ = self.optimum_rows(seed)
        return folder / name / f"{self.objective.slug}.json"

    def optimum_rows(self, seed: int) -> tuple[str, Partition]:
        """On whose shards a trial's f* is found, and what such rows are called."""
        own = self.partition.of_seed(seed)
        if self.optimum == "of_clients":
            return own.slug, own
        pooled = own.pooled()
        return pooled.rows_slug, pooled

    def read_optima(self, folder: Path | None) -> dict[int, float]:
        """f* of every trial, by seed; empty where sub-optimality is not measured.

        folder: holds the split's optima.
        """
        if self.optimum and folder is None:
            raise FedatlasError(f"{self.name}: measures sub-optimality: give --optima, too")
        files = {seed: self.optimum_file(folder or Path(), seed) for seed in self.seeds}
        read = {file: read_optimum(file).objective for file in set(files.values()) if file}
        return {seed: read[file] for seed, file in files.items() if file}

    @property
    def federation(self) -> type[Federation]:
        """The federation in which the run takes place."""
        return federation_of(
            self.partition.kind,
            on_graphs=self.graphs is not None,
            min_max=self.objective.min_max,
            backend=self.backend,
        )

    @property
    def graph_weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Weights (n, n) of the graph of states, (0, 0) without, and of trackers', if there is."""
        if self.graphs is None:
            return np.empty((0, 0)), None
        assert isinstance(self.partition, HorizontalPartition)
        agents, trackers = self.partition.clients, self.graphs.trackers
        return (
            weight_matrix(self.graphs.states, agents, "graphs.states"),
            None if trackers is None else weight_matrix(trackers, agents, "graphs.trackers"),
        )

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
    def of_any_length(self) -> "RunSpec":
        """The run without what says how long it trains and where it is recorded."""
        return self.model_copy(update={"rounds": 1, "record_every": 1, "until": {}})

    @property
    def code(self) -> tuple[str, ...]:
        """The modules whose import closure decides what the run computes."""
        modules = ["fedatlas.training.loop", f"fedatlas.federations.{self.federation.name}"]
        if ":" not in self.algorithm:  # a notebook's, which no workflow trains
            modules.append(f"fedatlas.algorithms.{self.algorithm}")
        named = [own.get("kind") for own in self.hyper_parameters.values() if isinstance(own, dict)]
        known = code_names("compressors")
        modules += [
            f"{CODE['compressors']}.{name}" for name in sorted({*known} & {*map(str, named)})
        ]
        modules += [f"fedatlas.measurements.{name}" for name in self.measurements]
        return (*modules, *self.objective.code)

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
    """Runs that one job trains. shared: keys with equal values. points: the other keys of each."""

    shared: dict[str, Any]
    points: tuple[dict[str, Any], ...] = Field(min_length=1)

    @classmethod
    def of(cls, specs: Sequence[RunSpec]) -> "Points":
        """Say once what all specifications say."""
        contents = [spec.model_dump(mode="json") for spec in specs]
        shared = {
            key: value
            for key, value in contents[0].items()
            if all(key in content and content[key] == value for content in contents)
        }
        own = [{key: content[key] for key in content if key not in shared} for content in contents]
        return cls(shared=shared, points=tuple(own))

    @property
    def specs(self) -> list[RunSpec]:
        """The whole specifications."""
        return [RunSpec.model_validate(self.shared | point) for point in self.points]


class RunConfig(Model):
    """One method in an experiment; a grid makes several points of it.

    title: its name in figures; by default the method's title.
    grid: hyper-parameter → values; all combinations are run. Hyper-parameters that vary together
        share an entry, as in {"gradient_bound, noise": [[1, 0.1], [4, 0.4]]}.
    tuned_in: an experiment whose run of the same name was tuned; it gives the hyper-parameters that
        are not declared here. With a grid, it gives them for every point.
    backend: for parties with columns: `simulated`, or `processes`, see docs/parties.md. The times
        of a declared network are added to those that processes need.
    partition, network, objective, graphs, rounds, record_every, until: by default the experiment's.
    algorithm: the method: a file of `fedatlas.algorithms`, or "module:class" in a notebook.
    hyper_parameters: values that all its points share.
    """

    algorithm: str
    title: str | None = None
    hyper_parameters: dict[str, Any] = Field(default={})
    grid: dict[str, list[Any]] = Field(default={})
    tuned_in: str | None = None
    backend: Backend = "simulated"
    partition: Partition | None = None
    network: AnyNetworkModel | None = None
    objective: Objective | None = None
    graphs: Graphs | None = None
    rounds: PositiveInt | None = None
    record_every: RecordEvery | None = None
    until: Until | None = None

    @model_validator(mode="after")
    def _grid_is_sound(self) -> Self:
        for key, values in self.grid.items():
            names = key.split(", ")
            for name in names:
                if name in self.hyper_parameters:
                    raise ValueError(f"'{name}' stands both in hyper_parameters and in grid")
            if not values:
                raise ValueError(f"grid '{key}' lists no value")
            for value in values if len(names) > 1 else ():
                if not isinstance(value, list) or len(value) != len(names):
                    raise ValueError(
                        f"grid '{key}' lists {value}: list {len(names)} values that go together"
                    )
        return self

    @property
    def varied(self) -> list[str]:
        """The hyper-parameters that the grid varies."""
        return [name for key in self.grid for name in key.split(", ")]
