"""Compare two sets of results, value by value."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.provenance.expected import differing
from fedatlas.provenance.stored import Place, StoredTrace, close_all, places_in, read_stored

# Traces below a results folder, a folder of experiments, and an experiment's folder.
_PATTERNS = ("experiments/*/traces/*/*.nc", "*/traces/*/*.nc", "traces/*/*.nc")


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
    """Where two sets of traces differ.

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
    if all(path.is_file() and len(side) == 1 for path, side in ((first, ours), (second, theirs))):
        theirs = dict(zip(ours, theirs.values(), strict=True))
    found.only_first = sorted(set(ours) - set(theirs))
    found.only_second = sorted(set(theirs) - set(ours))
    for run in ours:
        if run in theirs:
            try:
                pair = read_stored(ours[run]), read_stored(theirs[run])
            except FedatlasError as error:
                found.unreadable.append(str(error))
                continue
            found.compared.append(run)
            found.differences += compare_traces(run, *pair, tolerance)
            for name, old, new in differing(pair[0].attributes, pair[1].attributes):
                if name != "values_digest":  # which says no more than the values
                    change = name, str(old), str(new)
                    found.attributes.setdefault(change, []).append(run)
    close_all([*ours.values(), *theirs.values()])
    return found


def compare_traces(
    run: str, first: StoredTrace, second: StoredTrace, tolerance: Tolerance
) -> Iterator[VariableDiff]:
    """Differences of two traces over the seeds and records that they share, by variable."""
    ours, theirs = first.variables, second.variables
    seeds, rows, other_rows = np.intersect1d(ours["seed"], theirs["seed"], return_indices=True)
    if not np.array_equal(np.sort(ours["seed"]), np.sort(theirs["seed"])):
        yield VariableDiff(run, "seed", ours["seed"].tolist(), theirs["seed"].tolist())
    records = min(len(ours["record"]), len(theirs["record"]))
    if len(ours["record"]) != len(theirs["record"]):
        yield VariableDiff(run, "record", len(ours["record"]), len(theirs["record"]))
    ignored = {"seed", "record"} | (set() if tolerance.wall_time else {"wall_time"})
    for name in sorted({*ours, *theirs} - ignored):
        if name not in ours or name not in theirs:
            there, other = ("there" if name in side else "–" for side in (ours, theirs))
            yield VariableDiff(run, name, there, other)
            continue
        # What is by seed alone becomes (seeds, 1).
        values, others = (
            (side[name][own] if side[name].ndim > 1 else side[name][own, None])[:, :records]
            for side, own in ((ours, rows), (theirs, other_rows))
        )
        numbers = values.dtype.kind in "biuf" and others.dtype.kind in "biuf"
        equal, distance = (
            _agreement(values, others, tolerance) if numbers else (values == others, None)
        )
        if not equal.all():
            seed, record = np.argwhere(~equal)[0]
            yield VariableDiff(
                run,
                name,
                values[seed, record].item(),
                others[seed, record].item(),
                int(seeds[seed]),
                None if name == "status" else int(record),
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


def _index(path: Path, found: TraceDiff) -> dict[str, Place]:
    if not path.exists():
        raise FedatlasError(f"{path}: there is no such file or folder")
    # Hidden files are being written, or were when their job was interrupted.
    below = (
        [file for file in sorted(path.glob(pattern)) if not file.name.startswith(".")]
        for pattern in _PATTERNS
    )
    places: dict[str, Place] = {}
    for file in [path] if path.is_file() else next(filter(None, below), []):
        try:
            for name, place in places_in(file).items():
                if name in places:
                    raise FedatlasError(f"{place}: holds {name}, as does {places[name]}")
                places[name] = place
        except FedatlasError as error:
            found.unreadable.append(str(error))
    if not places and not found.unreadable:
        raise FedatlasError(f"{path}: holds no trace")
    return places
