"""Whether a published run solved the same problem as the user's run."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from fedatlas.algorithms import algorithm_names
from fedatlas.architectures import architecture_names
from fedatlas.code import code_digest
from fedatlas.errors import FedatlasError
from fedatlas.markdown import counted
from fedatlas.schema.models import keys_of, read_json
from fedatlas.schema.network_model import AnyNetworkModel
from fedatlas.schema.objectives import NetworkObjective, Objective
from fedatlas.schema.partitions import Partition
from fedatlas.schema.runs import RunSpec
from fedatlas.store.atlas import Atlas, AtlasRun
from fedatlas.store.views import is_thinned

# Which rows are trained and tested on, whoever holds them.
_ROWS = ("samples", "test", "binary")
# f* is known to 1e-10.
_OPTIMUM_TOLERANCE = 1e-9
_MOST_REASONS = 3  # of one kind that are told in full
_DIGITS = 12  # of a digest, as it is printed


class Difference(NamedTuple):
    """What makes two runs incomparable: a key of their specifications with both values.

    remedy: what to ask for instead, with "; " before it.
    """

    key: str
    mine: Any
    published: Any
    remedy: str = ""

    @property
    def general(self) -> str:
        """The same without the published value."""
        return f"{self.key}: {_told(self.mine)} here, another published{self.remedy}"

    def __str__(self) -> str:
        values = f"{_told(self.mine)} here, {_told(self.published)} published"
        return f"{self.key}: {values}{self.remedy}"


def differences(
    mine: AtlasRun, published: AtlasRun, metric: str, costs: Sequence[str]
) -> Iterator[Difference]:
    """Differences between the problems of two runs; none if they are comparable.

    Data set, split, rows and objective must be equal. Runs of one setting, such as parties or a
    star of clients, must have equal partitions. Across settings rows alone must be equal, as who
    holds them is part of the method. Simulated time needs equal networks. Where all that is given
    is equal, what common seeds recorded must be, too: the digests of their data if partitions are
    equal, and f* of sub-optimality. Runs made elsewhere solve the problem that was declared.
    """
    if "foreign" in {**mine.trace.attrs, **published.trace.attrs}:
        yield from _of_declared(mine, published)
        return
    declared = [*_of_statements(mine, published, costs)]
    yield from declared or _of_seeds(mine, published, metric)


def _of_declared(mine: AtlasRun, published: AtlasRun) -> Iterator[Difference]:
    own, other = problem_of(mine), problem_of(published)
    remedy = "; say in the mapping of runs made elsewhere whose problem they solve: problem: …"
    for difference in _unequal("problem", own, other):
        yield difference._replace(remedy=remedy)


def problem_of(run: AtlasRun) -> str:
    """The experiment whose problem a run solves; runs made elsewhere declare it."""
    return str(run.trace.attrs.get("problem", run.experiment))


def _of_statements(
    mine: AtlasRun, published: AtlasRun, costs: Sequence[str]
) -> Iterator[Difference]:
    ours, theirs = completed(mine), completed(published)
    own, other = ours["partition"], theirs["partition"]
    for key in ("dataset", "split", "objective"):
        yield from _unequal(key, ours.get(key), theirs.get(key))
    for key in _ROWS:
        yield from _unequal(f"partition.{key}", own.get(key), other.get(key))
    if _setting(ours) == _setting(theirs):
        for key in dict.fromkeys((*own, *other)):
            if key not in _ROWS:
                yield from _unequal(f"partition.{key}", own.get(key), other.get(key))
    elif isinstance(own.get("test"), float):
        # Each setting draws its own rows for testing.
        yield from _unequal("setting", *(_setting(declared)[0] for declared in (ours, theirs)))
    if "simulated_time" in costs:
        yield from _of_networks(ours.get("network"), theirs.get("network"))


def _of_networks(own: dict[str, Any] | None, other: dict[str, Any] | None) -> Iterator[Difference]:
    """Not all runs have a clock of their own; on a declared network all have a time."""
    remedy = ""
    if own is None or other is None:
        latency = (own or other or {}).get("latency", "…")
        remedy = (
            f"; one of them has no clock of its own: name the cost network(latency={latency}, "
            "bandwidth=…, gradient=…) in its place, which other runs have, too"
        )
    for difference in _unequal("network", own, other):
        yield difference._replace(remedy=remedy)


def _of_seeds(mine: AtlasRun, published: AtlasRun, metric: str) -> Iterator[Difference]:
    """The first common seed whose data or f* differ."""
    own, other = (completed(run)["partition"] for run in (mine, published))
    if own == other:
        for seed, digests in _by_common_seed("shard_digests", mine, published).items():
            if digests[0] != digests[1]:
                yield Difference(f"data (shard_digests) of seed {seed}", *digests)
                return
    if metric == "suboptimality":
        for seed, (here, there) in _by_common_seed("optima", mine, published).items():
            if abs(here - there) > _OPTIMUM_TOLERANCE:
                yield Difference(f"f* of seed {seed}", here, there)
                return


def beside(
    mine: Sequence[AtlasRun], published: Iterable[AtlasRun], metric: str, costs: Sequence[str]
) -> tuple[list[AtlasRun], list[str]]:
    """Published runs that are comparable with one of ours at least, and of all others why not.

    FedatlasError if our own runs are not comparable with each other, or no published run is with
    ours.
    """
    for first, second in combinations(mine, 2):
        for found in differences(first, second, metric, costs):
            raise FedatlasError(
                f"{first.name} and {second.name} solve different problems ({found.key}: "
                f"{_told(found.mine)} and {_told(found.published)}{found.remedy}); choose runs of "
                "one problem with experiments or runs (--experiments, --runs)"
            )
    kept: list[AtlasRun] = []
    refused: dict[str, dict[str, list[AtlasRun]]] = {}  # by what differs first
    for run in published:
        by_run = [list(differences(own, run, metric, costs)) for own in mine]
        fewest = min(by_run, key=len)
        if fewest:
            kind, why = fewest[0].general, "; ".join(map(str, fewest))
            refused.setdefault(kind, {}).setdefault(why, []).append(run)
        else:
            kept.append(run)
    told = [one for kind, reasons in refused.items() for one in _refusals(kind, reasons)]
    if not kept:
        reasons = "\n  ".join(told)
        raise FedatlasError(f"no published run is comparable with yours:\n  {reasons}")
    return kept, told


def _refusals(kind: str, reasons: Mapping[str, Sequence[AtlasRun]]) -> Iterator[str]:
    """Which runs are left out for what; many reasons of one kind are one line."""
    if len(reasons) <= _MOST_REASONS:
        for why, runs in reasons.items():
            yield f"{', '.join(f'{run.experiment}/{run.run}' for run in runs)}: {why}"
        return
    every = [run for runs in reasons.values() for run in runs]
    names = [*dict.fromkeys(run.experiment for run in every)]
    first = f"{', '.join(names[:_MOST_REASONS])}{', …' * (len(names) > _MOST_REASONS)}"
    yield f"{counted(len(every), 'run')} of {counted(len(names), 'experiment')} ({first}): {kind}"


def _setting(declared: Mapping[str, Any]) -> tuple[str, bool]:
    """Parties, silos, a star of clients, or agents on a graph."""
    return declared["partition"].get("kind", "horizontal"), declared.get("graphs") is not None


def _unequal(key: str, mine: Any, published: Any) -> Iterator[Difference]:
    """The keys at which two values differ; of mappings those of their parts."""
    if isinstance(mine, Mapping) and isinstance(published, Mapping):
        for name in dict.fromkeys((*mine, *published)):
            yield from _unequal(f"{key}.{name}", mine.get(name), published.get(name))
    elif mine != published:
        yield Difference(key, mine, published)


def _by_common_seed(name: str, mine: AtlasRun, other: AtlasRun) -> dict[str, tuple[Any, Any]]:
    ours, theirs = (attribute(run, name) for run in (mine, other))
    return {seed: (ours[seed], theirs[seed]) for seed in ours if seed in theirs}


def attribute(run: AtlasRun, name: str) -> dict[str, Any]:
    """An attribute of the run's trace that holds a JSON object."""
    found: dict[str, Any] = json.loads(run.trace.attrs.get(name, "{}"))
    return found


def _told(value: Any) -> str:
    return value[:_DIGITS] if isinstance(value, str) and len(value) == 64 else json.dumps(value)


# Each is filled in on its own, as another part may be of a version that is gone.
_PARTS: dict[str, TypeAdapter[Any]] = {
    "partition": TypeAdapter(Partition),
    "objective": TypeAdapter(Objective),
    "network": TypeAdapter(AnyNetworkModel | None),
}


def completed(run: AtlasRun) -> dict[str, Any]:
    """The run's specification with the usual values of keys that it does not state.

    A part that cannot be read today stays as it was recorded.
    """
    return _completed(run.trace.attrs["specification"])


@lru_cache(maxsize=256)
def _completed(recorded: str) -> dict[str, Any]:
    declared: dict[str, Any] = json.loads(recorded)
    for name, part in _PARTS.items():
        with suppress(ValidationError, KeyError):
            declared[name] = part.dump_python(part.validate_python(declared[name]), mode="json")
    return declared


def notes(
    mine: Sequence[AtlasRun], published: Sequence[AtlasRun], own: Atlas, other: Atlas
) -> Iterator[str]:
    """Remarks on published runs: code, versions, records, seeds, tuning, checksums.

    own, other: the atlases that hold them.
    """
    told: dict[str, list[str]] = {}
    ours = {points for run in mine if (points := tried_points(own, run))}
    for run in published:
        found = [] if "foreign" in run.trace.attrs else [*_code(run), *_versions(mine, run)]
        if "thinned" in run.trace.attrs:
            found.append("costs are read off lines between the records that were kept")
        found += [*_seeds(mine, run), *_tuning(ours, tried_points(other, run))]
        for note in found:
            told.setdefault(note, []).append(f"{run.experiment}/{run.run}")
    for note, runs in told.items():
        every = len(runs) == len(published) > 1
        yield f"{'all published runs' if every else ', '.join(dict.fromkeys(runs))}: {note}"
    most = max((_records(run) for run in published if is_thinned(run.trace)), default=None)
    if most is not None and any(is_thinned(run.trace) for run in mine):
        yield "yours are thinned likewise; costs may be some 10 % off those of whole traces"
    elif most is not None and any(_records(run) > most for run in mine):
        yield "yours are not thinned: costs may differ by some 10 % for that alone"


def thinning(runs: Sequence[AtlasRun]) -> Iterator[str]:
    """The effect of fewer records on costs, in words."""
    kept = [_records(run) for run in runs if is_thinned(run.trace)]
    if kept:
        yield (
            f"traces are thinned: {len(kept)} of {len(runs)} keep at most {max(kept)} records. "
            "Costs are read off lines between these, and may be some 10 % off those of whole traces"
        )


def _records(run: AtlasRun) -> int:
    return int(run.trace.sizes["record"])


def _code(run: AtlasRun) -> Iterator[str]:
    try:
        spec = RunSpec.model_validate(declared := attribute(run, "specification"))
    except ValidationError as error:
        paths = (keys_of(RunSpec, item["loc"], declared)[0] for item in error.errors())
        keys = dict.fromkeys(".".join(path) for path in paths)
        yield (
            "published with a specification of another version of fedatlas than is installed here "
            f"({', '.join(keys)})"
        )
        return
    if missing := _missing(spec):
        yield f"published by the {missing}, which is not installed here"
    elif code_digest(*spec.code) != run.trace.attrs.get("source_digest"):
        yield "published by other code than is installed here"


def _missing(spec: RunSpec) -> str:
    """What the run needs and is not installed; empty if nothing is missing."""
    if spec.algorithm not in algorithm_names():
        return f"method {spec.algorithm}"
    objective = spec.objective
    if isinstance(objective, NetworkObjective) and objective.model not in architecture_names():
        return f"network {objective.model}"
    return ""


def _versions(mine: Sequence[AtlasRun], run: AtlasRun) -> Iterator[str]:
    ours: dict[str, set[str]] = {}
    for own in mine:
        for name, version in attribute(own, "versions").items():
            ours.setdefault(name, set()).add(version)
    other = [
        f"{name} {version} (ours: {', '.join(sorted(ours[name]))})"
        for name, version in attribute(run, "versions").items()
        if name in ours and version not in ours[name]
    ]
    if other:
        yield f"published with {', '.join(other)}"


def _seeds(mine: Sequence[AtlasRun], run: AtlasRun) -> Iterator[str]:
    theirs = _seeds_of(run)
    ours = {_seeds_of(own) for own in mine}
    if not any(theirs & own for own in ours):
        yield "no seed in common with ours: digests of data and f* could not be compared"
    elif ours != {theirs}:
        others = " and ".join(sorted(_told_seeds(own) for own in ours if own != theirs))
        yield f"seeds {_told_seeds(theirs)}, yours {others}: only some are the same"


def _seeds_of(run: AtlasRun) -> frozenset[int]:
    return frozenset(run.trace["seed"].to_numpy().tolist())


def _told_seeds(seeds: frozenset[int]) -> str:
    ranked = sorted(seeds)
    if len(ranked) > 2 and ranked[-1] - ranked[0] == len(ranked) - 1:
        return f"{ranked[0]} to {ranked[-1]}"
    return ", ".join(map(str, ranked))


def _tuning(ours: set[int], theirs: int | None) -> Iterator[str]:
    """Whether one was chosen with more effort than the other."""
    if theirs is not None and ours - {theirs}:
        others = " or ".join(_told_points(points) for points in sorted(ours))
        yield f"{_told_points(theirs)} of its grid; yours: {others}"


def _told_points(points: int) -> str:
    return "one point" if points == 1 else f"best of {points} points"


def tried_points(atlas: Atlas, run: AtlasRun) -> int | None:
    """How many points of a run were tried; None if nothing says it.

    By the record of the selection, of results or published, as a run that is tuned elsewhere has
    one point here. Without a record, the points that are there.
    """
    entry = selection_of(atlas, run)
    if entry is not None:
        return int(entry.get("tried", len(entry.get("candidates", ())))) or None
    there = len(atlas.names(f"{run.paper}/{run.experiment}/{run.run}"))
    return None if run.point == "tuned" or "foreign" in run.trace.attrs else there


def selection_of(atlas: Atlas, run: AtlasRun) -> Mapping[str, Any] | None:
    """The run's entry in the selection record of results or a published folder; None if none."""
    folder = atlas.path if atlas.path.is_dir() else atlas.path.parent
    results = atlas.path if atlas.path.is_dir() else atlas.path.resolve().parent.parent
    name = f"selections/{run.experiment}.json"
    own = results / "experiments" / run.experiment / "selection.json"
    for file in (own, folder / name, *sorted(folder.glob(f"*/{name}"))):
        entry: Mapping[str, Any] | None = _record(file).get(run.run) if file.is_file() else None
        if entry is not None:
            return entry
    return None


def _record(file: Path) -> Mapping[str, Any]:
    """The runs of a record of a selection; empty if it cannot be read."""
    try:
        runs: Mapping[str, Any] = read_json(file)["runs"]
    except (FedatlasError, KeyError, TypeError):
        return {}
    return runs
