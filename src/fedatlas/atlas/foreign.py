"""What is foreign about published runs that stand beside ours."""

from collections.abc import Iterator, Sequence

from fedatlas.algorithms import algorithm_names
from fedatlas.architectures import architecture_names
from fedatlas.atlas.checksums import NAME as SUMS
from fedatlas.atlas.comparability import attribute
from fedatlas.atlas.declared import specification_today
from fedatlas.atlas.runs import Atlas, AtlasRun
from fedatlas.atlas.thinning import is_thinned
from fedatlas.atlas.tried import Tried
from fedatlas.plan.closure import code_digest
from fedatlas.schema.objectives import NetworkObjective
from fedatlas.schema.runs import RunSpec

_DIGITS = 12  # of a digest, as notes print it


def notes(
    mine: Sequence[AtlasRun], published: Sequence[AtlasRun], own: Atlas, other: Atlas
) -> Iterator[str]:
    """What is foreign about published runs: code, versions, records, seeds, tuning, checksums.

    own, other: the atlases that hold them.
    """
    told: dict[str, list[str]] = {}
    our_tried, their_tried = Tried(own), Tried(other)
    ours = {our_tried.points(run) for run in mine} - {None}
    for run in published:
        tuned = _tuning({points for points in ours if points}, their_tried.points(run))
        for note in (
            *_code(run),
            *_versions(mine, run),
            *_records(run),
            *_seeds(mine, run),
            *tuned,
        ):
            told.setdefault(note, []).append(f"{run.experiment}/{run.run}")
    for note, runs in told.items():
        every = len(runs) == len(published) > 1
        yield f"{'all published runs' if every else ', '.join(dict.fromkeys(runs))}: {note}"
    for folder in other.unchecked:
        yield f"{folder}: has no {SUMS}, so that nothing says whether its tables are undamaged"
    if any(is_thinned(run.trace) for run in published):
        yield (
            "yours are thinned likewise; costs may be some 10 % off those of whole traces"
            if any(is_thinned(run.trace) for run in mine)
            else "yours are not thinned: costs may differ by some 10 % for that alone"
        )


def _code(run: AtlasRun) -> Iterator[str]:
    published = str(run.trace.attrs.get("source_digest", "unknown"))[:_DIGITS]
    spec = specification_today(run)
    if isinstance(spec, str):
        yield (
            f"published by code {published}; its specification is of another version of fedatlas "
            f"than is installed here ({spec})"
        )
        return
    missing = _missing(spec)
    if missing:
        yield f"published by code {published}; its {missing} is not installed here"
        return
    here = code_digest(*spec.code)[:_DIGITS]
    if here != published:
        yield f"published by other code ({published}) than is installed here ({here})"


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


def _records(run: AtlasRun) -> Iterator[str]:
    if "thinned" in run.trace.attrs:
        yield f"{run.trace.attrs['thinned']} are kept; costs are read off lines between them"


def _seeds(mine: Sequence[AtlasRun], run: AtlasRun) -> Iterator[str]:
    theirs = _seeds_of(run)
    ours = {_seeds_of(own) for own in mine}
    if not any(theirs & own for own in ours):
        yield "shares no seed with ours: digests of data and f* could not be compared"
    elif ours != {theirs}:
        others = " and ".join(sorted(_told_seeds(own) for own in ours if own != theirs))
        yield f"has the seeds {_told_seeds(theirs)}, yours {others}: only some are the same"


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
