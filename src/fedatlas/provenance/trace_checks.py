"""Checks of traces against what would be computed now, and of atlases against traces."""

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedatlas.arithmetic.gpus import driver_version, models
from fedatlas.errors import FedatlasError
from fedatlas.federations.context import shard_files
from fedatlas.files import canonical_json, text_digest
from fedatlas.provenance.expected import (
    RUN_AGAIN,
    CheckResult,
    Origins,
    compared,
    damaged,
    expected,
    short,
    stale,
    unchecked,
)
from fedatlas.provenance.inputs import Inputs
from fedatlas.provenance.stored import (
    IDENTITY,
    Place,
    StoredTrace,
    close_all,
    places_in,
    read_stored,
    trace_name,
)
from fedatlas.schema.runs import RunSpec
from fedatlas.store.trace import values_digest

_ENVIRONMENT = (
    "install the recorded versions, or keep it and compare with `fedatlas diff` after a new run"
)


class Traces:
    """Checks of the traces of a results folder, then of those kept together."""

    def __init__(self, inputs: Inputs) -> None:
        """inputs: must have checked the shards."""
        self.inputs = inputs
        self.seeds: dict[Path, Origins] = {}  # by file of a trace
        self._seen: dict[str, str] = {}  # identities of the traces that could be read, by name

    def check_trace(self, file: Path) -> Iterator[CheckResult]:
        """Values, place, environment, configuration, code and inputs of a trace."""
        trace = read_stored(Place(file))
        recorded, found = trace.attributes.get("values_digest"), values_digest(trace.variables)
        if recorded is None:
            yield unchecked("values", "was written by a version that kept no digest of values")
        elif recorded != found:
            yield damaged("values", f"{short(recorded)} → {short(found)}")
        place = (file.parts[-4], file.parts[-2], file.stem)
        held = tuple(str(trace.attributes.get(key)) for key in IDENTITY[1:])
        if held != place:
            yield damaged("place", f"holds {'/'.join(held)}")
            return
        self._seen[trace_name(trace.attributes)] = _identity(trace)
        self.seeds[file], differing = self.inputs.seeds_of(trace)
        if differing and recorded == found:
            yield damaged("seeds", f"its results of the seeds {differing} are not those kept")
        yield from _check_environment(trace)
        planned, findings = expected(place, trace.attributes, self.inputs.plan, self.inputs.results)
        yield from findings
        if planned is None:
            return
        yield from self._check_shards(trace, planned)
        if planned.optimum:
            yield from self._check_optima(trace, planned)

    def _check_shards(self, trace: StoredTrace, spec: RunSpec) -> Iterator[CheckResult]:
        folder = self.inputs.results / "shards" / spec.dataset / spec.split
        trials = [spec.partition.of_seed(seed) for seed in spec.seeds]
        partitions = {partition.slug: partition for partition in trials}
        for slug in sorted(partitions):
            missing = not (folder / slug).is_dir()
            if missing or folder / slug in self.inputs.damaged:
                why = " is not here" if missing else " damaged, see there"
                yield unchecked("shards", f"{folder / slug}:{why}")
                return
        recorded = trace.attributes.get("shard_digests", {})
        changed = []
        for seed, partition in zip(spec.seeds, trials, strict=True):
            files = shard_files(folder / partition.slug, partition.silos)
            # As training records them; see `federations.context`.
            found = text_digest("".join(self.inputs.digests[file] for file in files))
            if found != recorded.get(str(seed)):
                was, now = short(recorded.get(str(seed))), short(found)
                changed.append(f"{partition.slug}: {was} → {now}")
        changed = list(dict.fromkeys(changed))
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            yield stale("shards", f"{changed[0]}{more}")

    def _check_optima(self, trace: StoredTrace, spec: RunSpec) -> Iterator[CheckResult]:
        folder = self.inputs.results / "optima" / spec.dataset / spec.split
        for seed in spec.seeds:
            file = spec.optimum_file(folder, seed)
            if file is not None and not file.exists():
                yield unchecked("optima", f"{file}: is not here")
                return
        try:
            now = {str(seed): optimum for seed, optimum in spec.read_optima(folder).items()}
        except FedatlasError as error:
            yield unchecked("optima", str(error))
            return
        yield from compared("optima", trace.attributes.get("optima", {}), now)

    def check_experiment(self, file: Path) -> Iterator[CheckResult]:
        """Every trace in it against its own file; a seal vouches for its bytes."""
        old = []
        places = places_in(file)
        for name, place in places.items():
            identity = _identity(read_stored(place))
            if self._seen.get(name, identity) != identity:
                old.append(name)
        close_all(places.values())
        if old:
            detail = f"{len(old)} that are not those of the traces' files, the first {old[0]}"
            yield stale("traces", detail)


def _identity(trace: StoredTrace) -> str:
    """A digest of a trace's values and attributes, whichever file holds it."""
    attributes = sorted((key, str(value)) for key, value in trace.attributes.items())
    wall_time = trace.variables.get("wall_time")
    timed = None if wall_time is None else wall_time.tobytes().hex()
    return text_digest(canonical_json([values_digest(trace.variables), attributes, timed]))


def _check_environment(trace: StoredTrace) -> Iterator[CheckResult]:
    recorded = dict(trace.attributes.get("versions", {}))
    if not recorded:
        yield stale("environment", "was not recorded yet", RUN_AGAIN)
    # CUDA comes with torch, whose version stands for it.
    gpu, driver, _ = (recorded.pop(name, None) for name in ("gpu", "gpu_driver", "cuda"))
    now: dict[str, Any] = {name: _installed(name) for name in recorded}
    if gpu is not None and str(gpu) not in models():
        detail = f"computed on {gpu} with driver {driver}, which is not here"
        yield unchecked("environment", detail)
    elif gpu is not None:
        recorded["gpu_driver"], now["gpu_driver"] = driver, driver_version()
    yield from compared("environment", recorded, now, _ENVIRONMENT)


def _installed(name: str) -> str:
    if name == "python":
        return platform.python_version()
    if name == "platform":
        return f"{platform.system()} {platform.machine()}"
    try:
        return version(name)
    except (PackageNotFoundError, ValueError):
        return "not installed"
