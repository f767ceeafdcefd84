"""Whether a published run solved the same problem as ours."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from fedatlas.atlas.declared import completed
from fedatlas.atlas.runs import AtlasRun
from fedatlas.errors import FedatlasError

# Which rows are trained and tested on, whoever holds them.
_ROWS = ("samples", "test", "binary")
# f* is known to 1e-10.
_OPTIMUM_TOLERANCE = 1e-9
_DIGITS = 12  # of a digest, as differences print it


class Difference(NamedTuple):
    """What makes two runs incomparable: a key of their specifications with both values.

    remedy: what to ask for instead, with "; " before it.
    """

    key: str
    mine: Any
    published: Any
    remedy: str = ""

    def __str__(self) -> str:
        values = f"{_told(self.mine)} here, {_told(self.published)} published"
        return f"{self.key}: {values}{self.remedy}"


def differences(
    mine: AtlasRun, published: AtlasRun, metric: str, costs: Sequence[str]
) -> Iterator[Difference]:
    """Where the problems of two runs differ; nothing if they can stand side by side.

    Data set, split, rows and objective must be equal. Runs of one setting, such as parties or a
    star of clients, must have equal partitions. Across settings rows alone must be equal, as who
    holds them is part of the method. Simulated time needs equal networks. Where all that is given
    is equal, what common seeds recorded must be, too: the digests of their data if partitions are
    equal, and f* of sub-optimality.
    """
    declared = [*_of_statements(mine, published, costs)]
    yield from declared or _of_seeds(mine, published, metric)


def _of_statements(
    mine: AtlasRun, published: AtlasRun, costs: Sequence[str]
) -> Iterator[Difference]:
    yield from _of_problem(mine, published)
    ours, theirs = completed(mine), completed(published)
    own, other = ours["partition"], theirs["partition"]
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
    """Only runs over parties have a clock of their own; on a declared network all have a time."""
    if own is None or other is None:
        latency = (own or other or {}).get("latency", "…")
        remedy = (
            f"; only runs over parties have this clock: name the cost network(latency={latency}, "
            "bandwidth=…, gradient=…) in its place, which other runs have, too"
        )
        for difference in _unequal("network", own, other):
            yield difference._replace(remedy=remedy)
        return
    yield from _unequal("network", own, other)


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
    refused: dict[str, list[str]] = {}
    for run in published:
        by_run = [list(differences(own, run, metric, costs)) for own in mine]
        fewest = min(by_run, key=len)
        why = "; ".join(map(str, fewest))
        if why:
            refused.setdefault(why, []).append(f"{run.experiment}/{run.run}")
        else:
            kept.append(run)
    told = [f"{', '.join(runs)}: {why}" for why, runs in refused.items()]
    if not kept:
        reasons = "\n  ".join(told)
        raise FedatlasError(f"no published run is comparable with ours:\n  {reasons}")
    return kept, told


def _of_problem(mine: AtlasRun, other: AtlasRun) -> Iterator[Difference]:
    """Where data, rows and objectives of two runs differ."""
    ours, theirs = completed(mine), completed(other)
    for key in ("dataset", "split", "objective"):
        yield from _unequal(key, ours.get(key), theirs.get(key))
    for key in _ROWS:
        rows = (declared["partition"].get(key) for declared in (ours, theirs))
        yield from _unequal(f"partition.{key}", *rows)


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
