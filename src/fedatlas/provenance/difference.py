"""Compare two sets of results, value by value."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fedatlas.errors import FedatlasError
from fedatlas.plain_text import cell, say_on
from fedatlas.provenance.expected import attributes_of, differing, trace_name
from fedatlas.store.experiment import FORMAT as EXPERIMENT_FORMAT
from fedatlas.store.experiment import Experiment
from fedatlas.store.netcdf import readable
from fedatlas.store.packed import open_any
from fedatlas.store.trace import read_trace

# Traces below a results folder, a folder of experiments, and an experiment's folder.
_PATTERNS = ("experiments/*/traces/*/*.nc", "*/traces/*/*.nc", "traces/*/*.nc")
_SHOWN = 40  # rows of a table of differences
_LONG = 40  # characters of an attribute


class Tolerance(NamedTuple):
    """a and b agree if |a − b| ≤ absolute + relative · max(|a|, |b|); exactly by default.

    wall_time: also compare times that were measured on the machine.
    """

    relative: float = 0.0
    absolute: float = 0.0
    wall_time: bool = False


@dataclass(frozen=True)
class VariableDiff:
    """A variable of one run that differs.

    seed, record: the first place where it differs, by seed, then record; None where the variable
    differs as a whole. first, second: the values there. differing: how many of `compared` values.
    largest: the largest |a − b| of numbers, inf where only one side is finite.
    """

    run: str
    variable: str
    first: Any
    second: Any
    seed: int | None = None
    record: int | None = None
    differing: int = 1
    compared: int = 1
    largest: float | None = None


@dataclass
class TraceDiff:
    """Differences of two sets of traces.

    attributes: (name, first, second) → runs; they may explain differences, but do not count.
    """

    compared: list[str] = field(default_factory=list)
    differences: list[VariableDiff] = field(default_factory=list)
    only_first: list[str] = field(default_factory=list)
    only_second: list[str] = field(default_factory=list)
    attributes: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """0 equal, 1 different, 2 if a trace could not be read."""
        if self.unreadable:
            return 2
        return int(bool(self.differences or self.only_first or self.only_second))


def compare(first: Path, second: Path, tolerance: Tolerance) -> TraceDiff:
    """Pair the runs of two files, experiments' or results folders, and compare them.

    Runs are paired by paper, experiment, run and point; two single trace files are always a pair.
    Two traces are held at a time. Raises FedatlasError where there is no trace.
    """
    found = TraceDiff()
    ours, theirs = (_index(path, found) for path in (first, second))
    if first.is_file() and second.is_file() and len(ours) == len(theirs) == 1:
        theirs = dict(zip(ours, theirs.values(), strict=True))
    found.only_first = sorted(set(ours) - set(theirs))
    found.only_second = sorted(set(theirs) - set(ours))
    for run in ours:
        if run in theirs:
            try:
                _compare_pair(run, (ours[run], theirs[run]), tolerance, found)
            except FedatlasError as error:
                found.unreadable.append(str(error))
    return found


def _compare_pair(
    run: str, pair: tuple["_Stored", "_Stored"], tolerance: Tolerance, found: TraceDiff
) -> None:
    ours, theirs = (stored.read() for stored in pair)
    attributes, others = attributes_of(ours, pair[0]), attributes_of(theirs, pair[1])
    found.compared.append(run)
    found.differences += compare_traces(run, ours, theirs, tolerance)
    for name, old, new in differing(attributes, others):
        if name != "values_digest":  # which says no more than the values
            found.attributes.setdefault((name, str(old), str(new)), []).append(run)


def compare_traces(
    run: str, first: xr.Dataset, second: xr.Dataset, tolerance: Tolerance
) -> Iterator[VariableDiff]:
    """Differences of two traces over the seeds and records that they share, by variable."""
    seeds, others = (trace["seed"].to_numpy().tolist() for trace in (first, second))
    if sorted(seeds) != sorted(others):
        yield VariableDiff(run, "seed", seeds, others)
    records, others = (trace["record"].to_numpy().tolist() for trace in (first, second))
    if len(records) != len(others):
        yield VariableDiff(run, "record", len(records), len(others))
    elif records != others:
        yield VariableDiff(run, "record", records, others)
    shared = [trace.sortby("seed") for trace in xr.align(first, second, join="inner")]
    ignored = {"seed", "record"} | (set() if tolerance.wall_time else {"wall_time"})
    for name in sorted({*map(str, first.variables), *map(str, second.variables)} - ignored):
        if name not in first or name not in second:
            there, other = ("there" if name in side else "–" for side in (first, second))
            yield VariableDiff(run, name, there, other)
            continue
        ours, theirs = (trace[name].to_numpy() for trace in shared)
        if ours.dtype.kind in "biuf" and theirs.dtype.kind in "biuf":
            equal, distance = _agreement(ours, theirs, tolerance)
        else:
            ours, theirs = ours.astype(str), theirs.astype(str)
            equal, distance = ours == theirs, None
        if not equal.all():
            seed, *record = place = tuple(np.argwhere(~equal)[0].tolist())
            yield VariableDiff(
                run,
                name,
                ours[place].item(),
                theirs[place].item(),
                int(shared[0]["seed"][seed]),
                int(shared[0]["record"][record[0]]) if record else None,
                int((~equal).sum()),
                equal.size,
                None if distance is None else float(distance[~equal].max()),
            )


def _agreement(
    values: np.ndarray, others: np.ndarray, tolerance: Tolerance
) -> tuple[np.ndarray, np.ndarray]:
    """Where two arrays agree, NaN with NaN, and their distances, inf beside what is not finite."""
    a, b = values.astype(float), others.astype(float)
    within: dict[str, Any] = {
        "rtol": tolerance.relative,
        "atol": tolerance.absolute,
        "equal_nan": True,
    }
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf)
        # numpy's relative tolerance is of the second value: here it is of the larger one.
        return np.isclose(a, b, **within) | np.isclose(b, a, **within), distance


class _Stored(NamedTuple):
    """Where a trace is stored, and what reads it."""

    place: str
    read: Callable[[], xr.Dataset]

    def __str__(self) -> str:
        return self.place


def _index(path: Path, found: TraceDiff) -> dict[str, _Stored]:
    """All traces by paper/experiment/run/point; files that cannot be read are told in `found`."""
    if not path.exists():
        raise FedatlasError(f"{path}: there is no such file or folder")
    # Hidden files are being written, or were when their job was interrupted.
    below = (
        [file for file in sorted(path.glob(pattern)) if not file.name.startswith(".")]
        for pattern in _PATTERNS
    )
    traces: dict[str, _Stored] = {}
    for file in [path] if path.is_file() else next(filter(None, below), []):
        try:
            for name, stored in _stored_in(file).items():
                if name in traces:
                    raise FedatlasError(f"{stored}: holds {name}, as does {traces[name]}")
                traces[name] = stored
        except FedatlasError as error:
            found.unreadable.append(str(error))
    if not traces and not found.unreadable:
        raise FedatlasError(f"{path}: holds no trace")
    return traces


def _stored_in(file: Path) -> dict[str, _Stored]:
    """The trace that a file is, or all of an experiment."""
    with readable(file, Exception), open_any(file) as content:
        found = getattr(content, "format", None)
    if found != EXPERIMENT_FORMAT:
        return {trace_name(read_trace(file).attrs): _Stored(str(file), partial(read_trace, file))}
    experiment = Experiment(file)
    return {
        trace_name(heading.attributes): _Stored(
            f"{file}: {run}/{point}", partial(experiment.trace, run, point)
        )
        for run, points in experiment.points.items()
        for point, heading in points.items()
    }


def print_comparison(found: TraceDiff, console: Console) -> None:
    """Differing values, runs on one side only, and attributes that may explain them."""
    if found.differences:
        table = Table(title="Differences", title_justify="left", box=SIMPLE_HEAD)
        for name in ("run", "variable", "seed", "record"):
            table.add_column(name, overflow="fold")
        for name in ("first", "second", "differing", "largest"):
            table.add_column(name, justify="right", overflow="fold")
        for d in found.differences[:_SHOWN]:
            largest = "" if d.largest is None else f"{d.largest:.3g}"
            values = (d.run, d.variable, d.seed, d.record, d.first, d.second)
            texts = ("" if value is None else cell(str(value)) for value in values)
            table.add_row(*texts, f"{d.differing} of {d.compared}", largest)
        console.print(table)
        more = len(found.differences) - _SHOWN
        if more > 0:
            say_on(console, f"… and {more} more: --json tells all")
    for side, runs in (("first", found.only_first), ("second", found.only_second)):
        for run in runs[:_SHOWN]:
            say_on(console, f"Only in the {side}: {run}")
        if len(runs) > _SHOWN:
            say_on(console, f"… and {len(runs) - _SHOWN} more")
    _print_attributes(found, console)
    for error in found.unreadable:
        say_on(console, f"Unreadable: {error}")
    differing = len({difference.run for difference in found.differences})
    verdict = f"{differing} differ" if differing or not found.compared else "all equal"
    alone = len(found.only_first) + len(found.only_second)
    others = f"; {alone} on one side only" if alone else ""
    say_on(console, f"{len(found.compared)} runs compared: {verdict}{others}.")


def _print_attributes(found: TraceDiff, console: Console) -> None:
    """One line for each attribute that differs: its first change, of how many, in how many runs."""
    changes: dict[str, list[tuple[str, str]]] = {}
    runs: Counter[str] = Counter()
    for (name, *values), of in found.attributes.items():
        first, second = (f"{text[:_LONG]}…" if len(text) > _LONG else text for text in values)
        changes.setdefault(name, []).append((first, second))
        runs[name] += len(of)
    for name, ((first, second), *others) in changes.items():
        more = f" and {len(others)} other changes" if others else ""
        said = f"{first} → {second}{more} ({runs[name]} runs)"
        say_on(console, f"Attribute (does not count): {name}: {said}")


def as_plain(found: TraceDiff) -> dict[str, Any]:
    """For machines; numbers that JSON lacks are texts."""
    return {
        "format": "fedatlas difference 1",
        "equal": found.exit_status == 0,
        "compared": found.compared,
        "differences": [
            {key: _json_number(value) for key, value in asdict(difference).items()}
            for difference in found.differences
        ],
        "only_first": found.only_first,
        "only_second": found.only_second,
        "attributes": [
            {"attribute": name, "first": first, "second": second, "runs": runs}
            for (name, first, second), runs in found.attributes.items()
        ],
        "unreadable": found.unreadable,
    }


def _json_number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
