"""Write and read tables and files of studies and verdicts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.files import write_text

if TYPE_CHECKING:
    import xarray as xr

R = TypeVar("R")
_REMEDY = "Name another file; if it is a result, move it away and run again."

BUDGETS_FORMAT = "fedatlas budgets 3"
#: What DP-GT's two forms of the update may weigh differently, in the order of `form_gaps`.
FORM_PARTS = "trackers", "noise on states", "noise on trackers"
#: The verdict, in both tables, of what an attack refutes.
REFUTED: Final = "does not stand"

#: What attackers see.
SHARES, SUMS, MASKED = "shares", "sums", "masked shares"
REPEATS, FIRST, LATE = "masked shares, model at rest", "first ϑ", "ϑ from the fourth snapshot on"
#: Whether attackers know in which order updates are applied.
KNOWN, UNKNOWN = "known", "unknown"

Classification = Literal["minimum", "saddle", "maximum", "degenerate"]


def to_csv(rows: Sequence[Mapping[str, object]], columns: Sequence[str] | None = None) -> str:
    """Rows as CSV text with a header; `columns` gives the header where there may be no row."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def read_rows(
    path: Path, columns: Sequence[str] | None = None, later: Collection[str] = ()
) -> list[dict[str, str]]:
    """Read rows back; FedatlasError names a file without these columns or with broken rows.

    later: columns that files of earlier versions lack.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            found = reader.fieldnames or ()
            expected = [name for name in columns or found if name in found or name not in later]
            if list(found) != expected:
                raise FedatlasError(
                    f"{path}: expected the columns {', '.join(columns or ())}. {_REMEDY}"
                )
            rows = []
            for row in reader:
                # A row of another length has None for a key or for a value.
                if None in row or None in row.values():
                    raise FedatlasError(
                        f"{path}: the row that ends in line {reader.line_num} is not whole. "
                        f"{_REMEDY}"
                    )
                rows.append(dict.fromkeys(columns or (), "") | row)
            return rows
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FedatlasError(f"{path}: cannot be read: {error}") from None


def parse_rows(
    path: Path,
    columns: Sequence[str],
    parse: Callable[[Mapping[str, str]], R],
    later: Collection[str] = (),
) -> list[R]:
    """Rows as `parse` gives them; FedatlasError names a file for which it raises ValueError."""
    rows = read_rows(path, columns, later)
    try:
        return [parse(row) for row in rows]
    except ValueError as error:
        raise FedatlasError(f"{path}: {error}. {_REMEDY}") from None


def row_parser(kind: type[R]) -> Callable[[Mapping[str, str]], R]:
    """Make rows named tuples or dataclasses; an empty cell is its field's default, if it has one.

    The parser raises ValueError, which names a cell of another type.
    """
    adapter = TypeAdapter(kind)
    optional = {name for name, of in signature(kind).parameters.items() if of.default != of.empty}

    def parse(row: Mapping[str, str]) -> R:
        cells = {name: text for name, text in row.items() if text or name not in optional}
        try:
            return adapter.validate_strings(cells)
        except ValidationError as invalid:
            wrong = invalid.errors()[0]
            raise ValueError(f"{wrong['loc'][0]} '{wrong['input']}': {wrong['msg']}") from None

    return parse


@dataclass(frozen=True)
class StationaryPoint:
    """A point where the gradient vanishes, or a set of degenerate ones that share their value.

    classification: by the eigenvalues of the surface's Hessian; degenerate if one is nearly 0.
    m: the point; of a set its member nearest to the middle of the range. a, b: the best ones there.
    above_lowest: value minus the lowest value found. gradient_norm: the largest of a set.
    eigenvalues: at m, ascending, of the Hessian of the surface min_{a,b} Φ(m, a, b).
    eigenvalues_of_phi: likewise of Φ in all four variables (m_1, m_2, a, b).
    starts: how many searches ended here. points: (k, 2), the members found, or the point itself.
    """

    classification: Classification
    m: Sequence[float]
    a: float
    b: float
    value: float
    above_lowest: float
    gradient_norm: float
    eigenvalues: Sequence[float]
    eigenvalues_of_phi: Sequence[float]
    starts: int
    points: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Surface:
    """A loss surface over two parameters on a grid, and its stationary points from low to high.

    lowest: the lowest value found, on the grid or at a stationary point.
    starts: how many searches there were; lost: how many of them ended at no stationary point.
    gradient_tolerance, eigenvalue_tolerance: below these, numbers count as 0.
    first, second: (k,) grid values of m_1 and m_2; values: (k, k), a row for each of `second`.
    """

    lowest: float
    starts: int
    lost: int
    gradient_tolerance: float
    eigenvalue_tolerance: float
    stationary_points: Sequence[StationaryPoint]
    first: Sequence[float]
    second: Sequence[float]
    values: Sequence[Sequence[float]]


def write_surface(surface: Surface, path: Path) -> None:
    """Write a surface as JSON, a line for each of its keys."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in asdict(surface).items()]
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def read_surface(path: Path) -> Surface:
    """Read what `write_surface` wrote; FedatlasError for anything else."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        points = [StationaryPoint(**point) for point in content.pop("stationary_points")]
        return Surface(stationary_points=points, **content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        keys = ", ".join(field.name for field in fields(Surface))
        raise FedatlasError(
            f"{path}: is no landscape, a JSON object of {keys} ({error}). Move it away and run "
            "again."
        ) from None


def describe_point(point: StationaryPoint) -> str:
    """A stationary point in words, its members by their number."""
    others = f" and {len(point.points) - 1} others" if len(point.points) > 1 else ""
    return (
        f"{point.classification} at ({_numbers(point.m)}){others}: {point.above_lowest:.4g} above "
        f"the lowest value, gradient norm {point.gradient_norm:.2g}, Hessian's eigenvalues "
        f"{_numbers(point.eigenvalues)} (of Φ in (m, a, b): {_numbers(point.eigenvalues_of_phi)})"
    )


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{round(value, 9) + 0.0:.3g}" for value in values)


def read_budgets(path: Path) -> xr.Dataset:
    """Read a file of privacy budgets; FedatlasError names a damaged or foreign one."""
    from fedatlas.store.packed import read_file  # loads xarray, which plans do without

    return read_file(path, BUDGETS_FORMAT, "a file of budgets")


def budgets_of(budgets: xr.Dataset, run: str) -> list[xr.Dataset]:
    """The run's budgets, one per accounting in its order; FedatlasError if there is none."""
    cases = [budgets.isel(case=place) for place in np.flatnonzero(budgets["run"] == run)]
    if not cases:
        raise FedatlasError(f"run '{run}' accounts for no privacy")
    return cases


#: The case of data sets that differ in all that a client holds.
ONE_CLIENT = "one client"


class PairRow(NamedTuple):
    """A row of the table of attacks: a run, a pair of data sets and an accounting.

    case: the loss, or `one client`, by which federations differ. samples, drawn: D and m, or N and
    how many clients take part in a round. claimed_epsilon: by the accounting. pair_epsilon: that
    of the pair. known: whether it is `exact` or `at least` that. refuted_below, refuted_above: the
    curvatures from which on pairs of quadratic losses lose more than is claimed. audited_epsilon:
    the lower bound that an attack shows, with the shares of runs that it detected and mistook.
    """

    run: str
    case: str
    samples: int
    drawn: int
    accounting: str
    claimed_epsilon: float
    pair_epsilon: float
    known: str
    refuted_below: float | None
    refuted_above: float | None
    audited_epsilon: float | None
    detected: float | None
    mistaken: float | None
    runs: int | None
    verdict: str


def read_attacks(path: Path) -> list[dict[str, str]]:
    """Read the table of pairs of data sets."""
    return read_rows(path, PairRow._fields)


class AttackResult(NamedTuple):
    """One attack: who learns what, how well, and whether the paper's claim survives it.

    assumes: what the attacker knows besides what it is sent; by the paper, passive parties do not
    know the form of the loss. measured: what `value` is. Surviving one attack proves nothing.
    """

    attack: str
    who: str
    learns: str
    assumes: str
    measured: str
    value: float
    paper_claim: str
    verdict: Literal["stands", "does not stand"]


def read_leaks(path: Path) -> list[dict[str, str]]:
    """Read the table of leaks."""
    return read_rows(path, AttackResult._fields)


class RecoveryRow(NamedTuple):
    """One attack on one history.

    sees: as in `studies.recovery`. who: attacks. order: whether the attacker knows in which order
    updates are applied. features: of the victim, or of all other parties; they span rank
    dimensions. observed:
    snapshots, or sums over one sample. found_rank: of what was seen, above noise; it is what the
    attacker can solve for. error: of the Gram matrix, relative in the Frobenius norm; of shares and
    labels, the root mean square over their standard deviation. Answers of zeros, or of the mean,
    give 1. feature_error: relative, of all other rows' features where those of known_rows rows that
    span them are known, too. weight_error: relative, of w_ℓ from the last shares of those rows.
    """

    sees: str
    who: str
    masks: str
    order: str
    features: int
    rank: int
    observed: int
    equations: int
    unknowns: int
    found_rank: int
    error: float
    known_rows: int | None = None
    feature_error: float | None = None
    weight_error: float | None = None


def read_recovery(path: Path) -> list[RecoveryRow]:
    """The table back; FedatlasError names a file with other columns or contents."""
    return parse_rows(path, RecoveryRow._fields, row_parser(RecoveryRow))
