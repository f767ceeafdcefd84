"""Traces against themselves and against what would be computed now, and atlases against traces."""

import json
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedatlas.algorithms import algorithm_names
from fedatlas.architectures import architecture_names
from fedatlas.arithmetic.gpus import driver_version, models
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, text_digest
from fedatlas.plan.build import Plan
from fedatlas.plan.closure import code_digest
from fedatlas.provenance.digests import Digests, read_object, short
from fedatlas.provenance.findings import RUN_AGAIN, Finding, State, damaged, stale, unchecked
from fedatlas.provenance.inputs import Inputs
from fedatlas.provenance.stored import (
    IDENTITY,
    Place,
    StoredTrace,
    places_in,
    read_stored,
    trace_name,
)
from fedatlas.schema.models import validated
from fedatlas.schema.objectives import NetworkObjective
from fedatlas.schema.runs import RunSpec
from fedatlas.traces.trace import values_digest
from fedatlas.training.optimum import read_optimum

_ENVIRONMENT = (
    "install the recorded versions, or keep it and compare with `fedatlas diff` after a new run"
)


class Traces:
    """Checks of the traces of a results folder, then of its atlases."""

    def __init__(self, results: Path, plan: Plan, inputs: Inputs, digests: Digests) -> None:
        """inputs: must have checked the shards."""
        self._results, self._plan, self._inputs, self._digests = results, plan, inputs, digests
        self._seen: dict[str, str] = {}  # what each trace that could be read holds, by name

    def check_trace(self, file: Path) -> Iterator[Finding]:
        """Values, place, configuration, code, inputs and environment of a trace."""
        trace = read_stored(Place(file))
        name = "/".join(file.parts[-4:-3] + file.with_suffix("").parts[-2:])
        found = "/".join(str(trace.attributes.get(key)) for key in IDENTITY[1:])
        yield from _check_values(trace)
        if found != name:
            yield damaged("place", f"holds {found}")
            return
        self._seen[trace_name(trace.attributes)] = _identity(trace)
        recorded = _object(trace, "specification")
        if recorded is None:
            yield damaged("configuration", "its specification is no JSON object")
            return
        if any(recorded.get(key) != trace.attributes.get(key) for key in IDENTITY):
            yield damaged("configuration", f"its specification is of {trace_name(recorded)}")
            return
        yield from self._check_configuration(recorded)
        yield from _check_environment(trace)
        try:
            spec = validated(RunSpec, recorded, "specification")
            code = self._source_digest(spec)
        except FedatlasError:
            detail = "its specification, method or network is none of this version"
            yield stale("source", detail, RUN_AGAIN)
            return
        if trace.attributes.get("source_digest") != code:
            detail = f"{short(trace.attributes.get('source_digest'))} → {short(code)}"
            yield stale("source", detail, RUN_AGAIN)
        yield from self._check_shards(trace, spec)
        if spec.optimum:
            yield from self._check_optima(trace, spec)

    def _source_digest(self, spec: RunSpec) -> str:
        # Checked first: what a file names may be a path to anywhere.
        model = spec.objective.model if isinstance(spec.objective, NetworkObjective) else None
        known = spec.algorithm in algorithm_names()
        if not known or (model is not None and model not in architecture_names()):
            raise FedatlasError(f"{spec.name}: there is no such method or network")
        return code_digest(*spec.code)

    def _check_configuration(self, recorded: dict[str, Any]) -> Iterator[Finding]:
        place = (str(recorded["experiment"]), str(recorded["run"]), str(recorded["point"]))
        planned = self._plan.runs.get(place)
        if planned is None:
            remedy = "delete it if it is a leftover of an older configuration"
            yield stale("configuration", "there is no such run", remedy)
            return
        if planned.tuned_in is not None:
            selection = self._results / "experiments" / planned.tuned_in / "selection.json"
            if selection.exists():
                planned = _tuned(planned, selection)
            else:
                detail = f"{selection}: is not here, by which hyper-parameters were chosen"
                yield unchecked("hyper_parameters", detail)
                chosen = recorded.get("hyper_parameters")
                changed = {"hyper_parameters": chosen, "tuned_in": None}
                planned = planned.model_copy(update=changed)
        now = json.loads(canonical_json(planned.model_dump(mode="json")))
        changes = [f"{key}: {old} → {new}" for key, old, new in differing(recorded, now)]
        if changes:
            yield stale("configuration", "; ".join(changes), RUN_AGAIN)

    def _check_shards(self, trace: StoredTrace, spec: RunSpec) -> Iterator[Finding]:
        folder = self._results / "shards" / spec.dataset / spec.split
        slugs = sorted({spec.partition.of_trial(seed).slug for seed in spec.seeds})
        for slug in slugs:
            missing = not (folder / slug).is_dir()
            if missing or folder / slug in self._inputs.damaged:
                why = " is not here" if missing else " damaged, see there"
                yield unchecked("shards", f"{folder / slug}:{why}")
                return
        recorded = trace.attributes.get("shard_digest")
        found = self._digests.of_shards(spec, folder)
        if found != recorded:
            more = f" and {len(slugs) - 1} more" if len(slugs) > 1 else ""
            yield stale("shards", f"{slugs[0]}{more}: {short(recorded)} → {short(found)}")

    def _check_optima(self, trace: StoredTrace, spec: RunSpec) -> Iterator[Finding]:
        recorded = _object(trace, "optima")
        if recorded is None:
            yield _not_recorded(trace, "optima", "optima")
            return
        folder = self._results / "optima" / spec.dataset / spec.split
        for seed in spec.seeds:
            file = spec.optimum_file(folder, seed)
            assert file is not None  # since sub-optimality is measured
            if not file.exists():
                yield unchecked("optima", f"{file}: is not here")
                return
            found, known = read_optimum(file).objective, recorded.get(str(seed))
            if found != known:
                yield stale("optima", f"seed {seed}: {known!r} → {found!r}")
                return

    def check_atlas(self, file: Path) -> Iterator[Finding]:
        """Every trace in it against itself and against its own file."""
        others, misplaced, old = [], [], []
        for place in places_in(file):
            trace = read_stored(place)
            name = trace_name(trace.attributes)
            if place.group != f"/{name}":
                misplaced.append(name)
            others += [name for f in _check_values(trace) if f.state is State.DAMAGED]
            if self._seen.get(name, _identity(trace)) != _identity(trace):
                old.append(name)
        for finding, check, what, names in (
            (damaged, "place", "where others belong", misplaced),
            (damaged, "values", "with values that have another digest", others),
            (stale, "traces", "that are not those of the traces' files", old),
        ):
            if names:
                yield finding(check, f"{len(names)} {what}, the first {names[0]}")


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


def _identity(trace: StoredTrace) -> str:
    """A digest of a trace's values and attributes, the same in a file of its own and an atlas."""
    attributes = sorted((key, str(value)) for key, value in trace.attributes.items())
    wall_time = trace.variables.get("wall_time")
    timed = None if wall_time is None else wall_time.tobytes().hex()
    return text_digest(canonical_json([values_digest(trace.variables), attributes, timed]))


def _check_values(trace: StoredTrace) -> Iterator[Finding]:
    recorded, found = trace.attributes.get("values_digest"), values_digest(trace.variables)
    if recorded is None:
        yield unchecked("values", "was written by a version that kept no digest of values")
    elif recorded != found:
        yield damaged("values", f"{short(recorded)} → {short(found)}")


def _check_environment(trace: StoredTrace) -> Iterator[Finding]:
    recorded = _object(trace, "versions")
    if recorded is None:
        yield _not_recorded(trace, "versions", "environment")
        return
    # CUDA comes with torch, whose version stands for it.
    gpu, driver, _ = (recorded.pop(name, None) for name in ("gpu", "gpu_driver", "cuda"))
    now: dict[str, Any] = {name: _installed(name) for name in recorded}
    if gpu is not None and str(gpu) not in models():
        detail = f"computed on {gpu} with driver {driver}, which is not here"
        yield unchecked("environment", detail)
    elif gpu is not None:
        recorded["gpu_driver"], now["gpu_driver"] = driver, driver_version()
    changes = [f"{name}: {old} → {new}" for name, old, new in differing(recorded, now)]
    if changes:
        yield stale("environment", "; ".join(changes), _ENVIRONMENT)


def _installed(name: str) -> str:
    if name == "python":
        return platform.python_version()
    if name == "platform":
        return f"{platform.system()} {platform.machine()}"
    try:
        return version(name)
    except (PackageNotFoundError, ValueError):
        return "not installed"


def _object(trace: StoredTrace, attribute: str) -> dict[str, Any] | None:
    try:
        content = json.loads(str(trace.attributes.get(attribute)))
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _not_recorded(trace: StoredTrace, attribute: str, check: str) -> Finding:
    """An attribute that is no JSON object; older versions lack some attributes."""
    if attribute in trace.attributes:
        return damaged(check, f"{attribute}: no JSON object")
    return stale(check, "was not recorded yet", RUN_AGAIN)


def _tuned(planned: RunSpec, selection: Path) -> RunSpec:
    try:
        return planned.tuned(read_object(selection))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FedatlasError(
            f"{selection}: is no selection record ({error!r}). Delete it and run again."
        ) from error
