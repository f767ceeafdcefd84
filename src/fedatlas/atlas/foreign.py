"""What is foreign about published runs that stand beside ours."""

from collections.abc import Iterator, Sequence

from fedatlas.algorithms import algorithm_names
from fedatlas.architectures import architecture_names
from fedatlas.atlas.comparability import attribute
from fedatlas.atlas.runs import AtlasRun
from fedatlas.atlas.stated import specification_today
from fedatlas.plan.closure import code_digest
from fedatlas.schema.objectives import NetworkObjective
from fedatlas.schema.runs import RunSpec

_DIGITS = 12  # of a digest, as notes print it


def notes(mine: Sequence[AtlasRun], published: Sequence[AtlasRun]) -> Iterator[str]:
    """What is foreign about published runs: code, versions, thinned records, seeds."""
    told: dict[str, list[str]] = {}
    for run in published:
        for note in (*_code(run), *_versions(mine, run), *_records(mine, run)):
            told.setdefault(note, []).append(f"{run.experiment}/{run.run}")
    for note, runs in told.items():
        yield f"{', '.join(dict.fromkeys(runs))}: {note}"


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


def _records(mine: Sequence[AtlasRun], run: AtlasRun) -> Iterator[str]:
    if "thinned" in run.trace.attrs:
        yield f"{run.trace.attrs['thinned']} are kept; costs are read off lines between them"
    seeds = set(run.trace["seed"].to_numpy().tolist())
    if not any(seeds & set(own.trace["seed"].to_numpy().tolist()) for own in mine):
        yield "shares no seed with ours: digests of data and f* could not be compared"
