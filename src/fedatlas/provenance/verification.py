"""Check all digests of a results folder again: what drifted, and what is damaged."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from fedatlas.data.raw_files import LOCK
from fedatlas.errors import FedatlasError, NotReadNowError
from fedatlas.extensions import projects
from fedatlas.plan.build import Plan, build_plan
from fedatlas.provenance.expected import (
    MAKE_AGAIN,
    RUN_AGAIN,
    Checked,
    CheckResult,
    Origins,
    State,
)
from fedatlas.provenance.inputs import Inputs
from fedatlas.provenance.trace_checks import Traces

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
    traces = Traces(Inputs(results, lock, plan, mirror, seeds))
    checks = list(_checks(results, plan, traces))
    if not checks:
        raise FedatlasError(f"{results}: holds no traces, shards or data; run snakemake")
    return [_checked(results, check, traces.seeds) for check in progress(checks)]


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


def _checks(results: Path, plan: Plan, traces: Traces) -> Iterator[Check]:
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
