"""What a trace would be computed from now, beside what it was computed from."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.code import code_digest
from fedatlas.errors import FedatlasError
from fedatlas.plan.build import Plan
from fedatlas.schema.models import read_json
from fedatlas.schema.runs import RunSpec

_MOST_LETTERS = 200
# Attributes of traces that hold JSON objects.
_OBJECTS = {"hyper_parameters", "optima", "shard_digests", "specification", "versions"}
#: Experiment, run and point.
TracePlace = tuple[str, str, str]
# Keys of a specification on which no number depends.
_NAMES = ("paper", "experiment", "run", "point", "tuned_in")


class State(StrEnum):
    """The state of a file, mildest first; a file has the state of its worst finding.

    stale: intact, but code, configuration, inputs or environment have changed since it was made.
    damaged: its bytes are not those that were written, or it is in the place of another file.
    """

    OK = "ok"
    UNCHECKED = "unchecked"
    STALE = "stale"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"


MAKE_AGAIN = "move it away and run snakemake again"
RUN_AGAIN = "run snakemake again"
LEFTOVER = "move it away: what it belongs to is gone or has another name; seeds keep their results"


@dataclass(frozen=True)
class CheckResult:
    """check: what was looked at, such as "source". detail: recorded → found. remedy: what to do."""

    state: State
    check: str
    detail: str
    remedy: str = MAKE_AGAIN


damaged = partial(CheckResult, State.DAMAGED)
stale = partial(CheckResult, State.STALE)
unchecked = partial(CheckResult, State.UNCHECKED, remedy="")


def short(digest: object) -> str:
    """The beginning of a digest, as messages print it."""
    return f"{str(digest)[:12]}…"


@dataclass(frozen=True)
class SeedOrigin:
    """Where the result of a seed lies, and what made it; no folder: in its trace alone.

    day: when the file was written. device, versions: that trained it.
    """

    folder: str = ""
    file: str = ""
    day: str = ""
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


#: By seed.
Origins = Mapping[str, SeedOrigin]


@dataclass(frozen=True)
class Checked:
    """A file that was looked at. kind: such as trace, shards, seed or raw.

    path: below the results folder. seeds: of a trace, where the result of each seed comes from.
    """

    kind: str
    path: str
    findings: tuple[CheckResult, ...]
    seeds: Origins = field(default_factory=dict)

    @property
    def state(self) -> State:
        """The state of the worst finding."""
        return max((f.state for f in self.findings), key=list(State).index, default=State.OK)


def attributes_of(trace: xr.Dataset, where: object) -> dict[str, Any]:
    """A trace's attributes as plain values, its objects parsed; errors name the place."""
    found = {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in trace.attrs.items()
    }
    for name in _OBJECTS & found.keys():
        try:
            found[name] = json.loads(found[name])
        except ValueError:
            found[name] = None
        if not isinstance(found[name], dict):
            raise FedatlasError(
                f"{where}: its attribute {name} is no JSON object. Move it away and run again."
            )
    return found


def trace_name(attributes: Mapping[str, Any]) -> str:
    """paper/experiment/run/point."""
    return "/".join(str(attributes.get(key)) for key in ("paper", "experiment", "run", "point"))


def expected(
    place: TracePlace, attributes: Mapping[str, Any], plan: Plan, results: Path
) -> tuple[RunSpec | None, list[CheckResult]]:
    """The run that would be computed now, None if there is none, and what differs.

    A run that has another name now is the same: seeds keep their results. Seeds may have been added
    to those declared.
    attributes: of the trace, its objects parsed. results: the folder, with records of selections.
    """
    declared = attributes.get("specification", {})
    planned = plan.runs.get(place)
    if planned is None:
        planned = _renamed(declared, plan, results)
        if planned is None:
            return None, [_unplanned(*place, plan)]
    found: list[CheckResult] = []
    if (planned.experiment, planned.run, planned.point) != place:
        found.append(unchecked("name", f"it is {planned.name} now, whose seeds have its results"))
    if planned.tuned_in is not None:
        selection = results / "experiments" / planned.tuned_in / "selection.json"
        if selection.exists():
            planned = planned.tuned(read_json(selection))
        else:
            detail = f"{selection}: is not here, by which hyper-parameters were chosen"
            found.append(unchecked("hyper_parameters", detail))
            chosen = {"hyper_parameters": declared.get("hyper_parameters"), "tuned_in": None}
            planned = planned.model_copy(update=chosen)
    seeds = declared.get("seeds", [])
    if set(seeds) > set(planned.seeds) and seeds[0] == planned.seeds[0]:
        planned = planned.model_copy(update={"seeds": tuple(seeds)})  # `fedatlas run --decide`
    now = planned.model_dump(mode="json")
    recorded = {**declared, **{name: now[name] for name in _NAMES if name in declared}}
    found += compared("configuration", recorded, now, RUN_AGAIN)
    return planned, [*found, *_code_drift(planned, attributes)]


def _renamed(declared: Mapping[str, Any], plan: Plan, results: Path) -> RunSpec | None:
    """The planned run whose seeds have all numbers of this one, whatever its names."""
    try:
        own = RunSpec.model_validate(declared)
    except ValueError:
        return None
    numbers = [own.computed(seed) for seed in own.seeds]
    for planned in plan.runs.values():
        alike = ("algorithm", "dataset", "split")
        if any(getattr(planned, key) != getattr(own, key) for key in alike):
            continue
        if planned.tuned_in is not None:
            selection = results / "experiments" / planned.tuned_in / "selection.json"
            if not selection.exists():
                continue
            planned = planned.tuned(read_json(selection))
        if [planned.computed(seed) for seed in planned.seeds] == numbers:
            return planned
    return None


def _unplanned(experiment: str, run: str, point: str, plan: Plan) -> CheckResult:
    """Why the plan has no such run."""
    if experiment in plan.experiments:
        detail = f"the experiment {experiment} has no run '{run}' at the point '{point}' now"
    else:
        detail = f"its experiment is gone: the configuration has no {experiment}"
    return stale("configuration", detail, LEFTOVER)


def _code_drift(run: RunSpec, attributes: Mapping[str, Any]) -> Iterator[CheckResult]:
    made_by, code = attributes.get("source_digest"), code_digest(*run.code)
    if made_by != code:
        yield stale("source", f"{short(made_by)} → {short(code)}", RUN_AGAIN)


def why_stale(
    place: TracePlace, attributes: Mapping[str, Any], plan: Plan | None, results: Path
) -> str:
    """What has changed since a trace was computed; empty if nothing has.

    plan: None where no configuration speaks for the results; then the code alone is compared, as
    far as it is here. attributes: as the trace's file holds them.
    """
    if "foreign" in attributes:
        return ""  # nothing here made it
    own = {**attributes, "specification": json.loads(attributes["specification"])}
    try:
        if plan is not None:
            findings = expected(place, own, plan, results)[1]
        else:
            findings = list(_code_drift(RunSpec.model_validate(own["specification"]), own))
    except (FedatlasError, ValueError):
        return ""  # of another version, or of a method that is not here: nothing tells
    told = (f"{one.check}: {one.detail}" for one in findings if one.state is State.STALE)
    return shorten("; ".join(told), _MOST_LETTERS, placeholder=" …")


def differing(first: Any, second: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """Dotted keys at which nested objects differ, with both values; "–" for a missing one."""
    if first == second and type(first) is type(second):
        return []
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return [(key, first, second)]
    keys = sorted({*first, *second})
    return [
        found
        for name in keys
        for found in differing(
            first.get(name, "–"), second.get(name, "–"), f"{key}.{name}" if key else name
        )
    ]


def compared(
    check: str, recorded: dict[str, Any], now: dict[str, Any], remedy: str = MAKE_AGAIN
) -> Iterator[CheckResult]:
    """One finding with all keys that differ, or none."""
    changes = [f"{key}: {old} → {new}" for key, old, new in differing(recorded, now)]
    if changes:
        yield stale(check, "; ".join(changes), remedy)
