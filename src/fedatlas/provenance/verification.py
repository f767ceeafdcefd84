"""Check all digests of a results folder again, and name what changed or is damaged."""

import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fedatlas.arithmetic.gpus import driver_version, models
from fedatlas.data.raw_files import LOCK
from fedatlas.errors import FedatlasError, NotReadNowError
from fedatlas.extensions import projects
from fedatlas.federations.context import shard_files
from fedatlas.files import text_digest
from fedatlas.plain_text import cell, say_on
from fedatlas.plan.build import Plan, add_partitions, build_plan
from fedatlas.provenance.expected import (
    MAKE_AGAIN,
    RUN_AGAIN,
    Checked,
    CheckResult,
    Origins,
    State,
    attributes_of,
    compared,
    damaged,
    expected,
    short,
    stale,
    trace_name,
    unchecked,
)
from fedatlas.provenance.inputs import Inputs
from fedatlas.schema.runs import RunSpec
from fedatlas.store.experiment import Experiment
from fedatlas.store.trace import read_trace, values_digest

_ENVIRONMENT = (
    "install the recorded versions, or keep it and compare with `fedatlas diff` after a new run"
)
_MEANING = {
    State.STALE: "intact, but code, configuration, inputs or versions have changed since",
    State.DAMAGED: "not the bytes that were written, or in the wrong place",
    State.UNREADABLE: "cannot be read at all",
}
#: Kind, file or folder, and what looks at it.
Check = tuple[str, Path, Callable[[], Iterator[CheckResult]]]


def verify(
    results: Path,
    config: Path,
    lock: Path = LOCK,
    progress: Callable[[list[Check]], Iterable[Check]] = iter,
    mirror: Path | None = None,
    seeds: Path | None = None,
) -> list[Checked]:
    """Check every file of a results folder whose digest, checksum or specification is known.

    results: the workflow's results; read only. config: the configuration folder, beside which those
    of projects are read. lock: the recorded checksums. progress: yields the checks, and may show
    how many are done. mirror: where own files may have changed; by default where they were.
    seeds: a folder of results of seeds that is shared.
    Raises FedatlasError if the configuration cannot be read, or if there is nothing to check.
    """
    plan = build_plan(config, *projects())
    _with_further_seeds(plan, results)
    traces = Traces(Inputs(results, lock, plan, mirror, seeds))
    checks = list(_checks(results, plan, traces))
    if not checks:
        raise FedatlasError(f"{results}: holds no traces, shards or data; run snakemake")
    return [_checked(results, check, traces.seeds) for check in progress(checks)]


def _with_further_seeds(plan: Plan, results: Path) -> None:
    """Add the partitions of seeds that are not declared: `fedatlas run --decide` adds some."""
    unknown = {folder.name for folder in results.glob("shards/*/*/*")} - plan.partitions.keys()
    # Wrong guesses do no harm: no folder has the name of their partition.
    seeds = {int(seed) for seed in re.findall(r"(?:seed|holders)(\d+)", " ".join(unknown))}
    for run in plan.runs.values():
        add_partitions(plan, run, seeds)


def _checked(results: Path, check: Check, seeds: Mapping[Path, Origins]) -> Checked:
    kind, file, look = check
    try:
        findings = list(look())
    except NotReadNowError as error:
        findings = [CheckResult(State.UNREADABLE, "reading", str(error), RUN_AGAIN)]
    except FedatlasError as error:
        detail = str(error).removeprefix(f"{file}: ")
        findings = [CheckResult(State.UNREADABLE, "reading", detail, MAKE_AGAIN)]
    own = seeds.get(file, {})
    return Checked(kind, str(file.relative_to(results)), tuple(findings), own)


def _checks(results: Path, plan: Plan, traces: "Traces") -> Iterator[Check]:
    """Inputs first: a trace whose shards are damaged is not checked against them."""
    inputs = traces.inputs
    for kind, pattern, look in (
        ("shards", "shards/*/*/*", inputs.check_shards),
        ("prepared", "data/*/*.parquet", inputs.check_prepared),
        ("optimum", "optima/*/*/*/*.json", inputs.check_optimum),
        ("trace", "experiments/*/traces/*/*.nc", traces.check_trace),
        ("seed", "seeds/*/*.npz", inputs.check_seed),
        ("experiment", "experiments/*/traces.nc", traces.check_experiment),
    ):
        for file in sorted(results.glob(pattern)):
            # Hidden files are being written, or were when their job was interrupted.
            if not file.name.startswith(".") and (kind != "shards" or file.is_dir()):
                yield kind, file, partial(look, file)
    raw_files = plan.catalogue.raw_files()
    for path, raw in raw_files.items():
        file = results / "raw" / path
        if file.exists():
            yield "raw", file, partial(inputs.check_raw, raw, file)
    archives = {raw.archive.path: raw.archive for raw in raw_files.values() if raw.archive}
    for path, archive in archives.items():
        file = results / "archives" / path
        served = archive.model_copy(update={"unpack": None})
        if file.is_file():
            yield "archive", file, partial(inputs.check_raw, served, file)


class Traces:
    """Checks of the traces of a results folder, then of those kept together."""

    def __init__(self, inputs: Inputs) -> None:
        """inputs: must have checked the shards."""
        self.inputs = inputs
        self.seeds: dict[Path, Origins] = {}  # by file of a trace
        self._seen: dict[str, dict[str, Any]] = {}  # attributes of readable traces, by name

    def check_trace(self, file: Path) -> Iterator[CheckResult]:
        """Values, place, environment, configuration, code and inputs of a trace."""
        trace = read_trace(file)
        attributes = attributes_of(trace, file)
        recorded, found = attributes.get("values_digest"), values_digest(trace.variables)
        if recorded is None:
            yield unchecked("values", "was written by a version that kept no digest of values")
        elif recorded != found:
            yield damaged("values", f"{short(recorded)} → {short(found)}")
        place = (file.parts[-4], file.parts[-2], file.stem)
        name = trace_name(attributes)
        if name.partition("/")[2] != "/".join(place):
            yield damaged("place", f"holds {name.partition('/')[2]}")
            return
        self._seen[name] = attributes
        self.seeds[file], differing = self.inputs.seeds_of(trace, attributes)
        if differing and recorded == found:
            yield damaged("seeds", f"its results of the seeds {differing} are not those kept")
        yield from _check_environment(attributes)
        planned, findings = expected(place, attributes, self.inputs.plan, self.inputs.results)
        if planned is None and self._is_left_over(file):
            yield unchecked(
                "configuration", f"{'; '.join(one.detail for one in findings)}: move it away"
            )
            return
        yield from findings
        if planned is None:
            return
        yield from self._check_shards(attributes, planned)
        if planned.optimum:
            yield from self._check_optima(attributes, planned)

    def _is_left_over(self, file: Path) -> bool:
        """Whether its experiment is declared, and made since without it."""
        joined = file.parents[2] / "traces.nc"
        if joined.parent.name not in self.inputs.plan.experiments or not joined.exists():
            return False
        try:
            return file.stem not in Experiment(joined).points.get(file.parent.name, ())
        except FedatlasError:  # it is damaged, which is said of it
            return False

    def _check_shards(self, attributes: Mapping[str, Any], spec: RunSpec) -> Iterator[CheckResult]:
        folder = self.inputs.results / "shards" / spec.dataset / spec.split
        trials = [spec.partition.of_seed(seed) for seed in spec.seeds]
        partitions = {partition.slug: partition for partition in trials}
        for slug in sorted(partitions):
            missing = not (folder / slug).is_dir()
            if missing or folder / slug in self.inputs.damaged:
                why = " is not here" if missing else " damaged, see there"
                yield unchecked("shards", f"{folder / slug}:{why}")
                return
        recorded = attributes.get("shard_digests", {})
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

    def _check_optima(self, attributes: Mapping[str, Any], spec: RunSpec) -> Iterator[CheckResult]:
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
        yield from compared("optima", attributes.get("optima", {}), now)

    def check_experiment(self, file: Path) -> Iterator[CheckResult]:
        """Every trace in it against its own file, and against the digest of its values."""
        old = []
        experiment = Experiment(file)
        for run, points in experiment.points.items():
            for point in points:
                trace = experiment.trace(run, point)
                attributes = attributes_of(trace, file)
                name, digest = trace_name(attributes), values_digest(trace.variables)
                same = self._seen.get(name, attributes) == attributes
                if not same or attributes.get("values_digest", digest) != digest:
                    old.append(name)
        if old:
            detail = f"{len(old)} that are not those of the traces' files, the first {old[0]}"
            yield stale("traces", detail)


def _check_environment(attributes: Mapping[str, Any]) -> Iterator[CheckResult]:
    recorded = dict(attributes.get("versions", {}))
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


def exit_status(files: Iterable[Checked]) -> int:
    """0 clean (what could not be checked included), 1 drift, 2 if a file cannot be read."""
    states = {file.state for file in files}
    if State.UNREADABLE in states:
        return 2
    return 1 if states & {State.STALE, State.DAMAGED} else 0


def as_plain(files: Sequence[Checked]) -> dict[str, Any]:
    """For machines: counts by state, and every file with its findings."""
    counts = Counter(file.state for file in files)
    return {
        "format": "fedatlas verification 1",
        "counts": {state: counts[state] for state in State},
        "files": [{"state": file.state, **asdict(file)} for file in files],
    }


def print_verification(files: Sequence[Checked], console: Console) -> None:
    """A row for every file with drift, the remedies, and how many files have none."""
    drift = [
        (file, [finding for finding in file.findings if finding.state in _MEANING])
        for file in files
        if file.state in _MEANING
    ]
    counts = Counter(file.state for file in files)
    if drift:
        table = Table(title="Drift", title_justify="left", box=SIMPLE_HEAD)
        for name in ("file", "state", "what differs: recorded → found now"):
            table.add_column(name, overflow="fold")
        for file, findings in drift:
            found = [f"{finding.check}: {finding.detail}" for finding in findings]
            table.add_row(cell(file.path), file.state, cell("\n".join(found)))
        console.print(table)
        for state, meaning in _MEANING.items():
            if counts[state]:
                say_on(console, f"{state}: {meaning}.")
        say_on(console, "What to do:")
        remedies = Counter((f.check, f.remedy) for _, found in drift for f in found)
        for (check, remedy), number in remedies.items():
            say_on(console, f"  {check} ({number}): {remedy}")
    left: dict[tuple[str, str], list[str]] = {}
    for file in files:
        for finding in file.findings:
            if finding.state is State.UNCHECKED:
                left.setdefault((file.kind, finding.check), []).append(finding.detail)
    for (kind, check), details in left.items():
        say_on(console, f"Not checked: {check} of {len(details)} {kind}, as {details[0]}")
    folders = Counter(origin.folder for file in files for origin in file.seeds.values())
    if folders:
        told = ", ".join(
            f"{number} in {folder or 'traces alone'}" for folder, number in folders.items()
        )
        say_on(console, f"Results of seeds: {told}; --json says of each when and with what.")
    said = "".join(f", {counts[state]} {state}" for state in _MEANING if counts[state])
    say_on(console, f"{len(files)} checked: {len(files) - len(drift)} without drift{said}.")
