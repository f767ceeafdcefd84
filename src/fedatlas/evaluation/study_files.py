"""Files of studies: a loss surface, budgets, attacks, leaks, and what histories reveal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comma_separated import parse_rows, read_rows
from fedatlas.files import write_text

if TYPE_CHECKING:
    import xarray as xr

BUDGETS_FORMAT = "fedatlas budgets 2"
#: Columns of the table of pairs of data sets, which `studies.lemma_3` writes.
ATTACKS_COLUMNS = (
    *("run", "case", "samples", "drawn", "accounting", "claimed_epsilon", "pair_epsilon", "known"),
    *("refuted_below", "refuted_above", "audited_epsilon", "detected", "mistaken", "runs"),
    "verdict",
)
#: Columns of the table of leaks, which `studies.leaks` makes.
LEAKS_COLUMNS = (
    *("attack", "who", "learns", "assumes", "measured", "value", "paper_claim", "verdict"),
)
#: The verdict, in both tables, of what an attack refutes.
REFUTED = "does not stand"

#: What attackers see.
SHARES, SUMS, MASKED = "shares", "sums", "masked shares"
REPEATS, FIRST, LATE = "masked shares, model at rest", "first ϑ", "ϑ from the fourth snapshot on"
#: Whether attackers know in which order updates are applied.
KNOWN, UNKNOWN = "known", "unknown"

Classification = Literal["minimum", "saddle", "maximum", "degenerate"]


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
    from fedatlas.store.netcdf import read_netcdf  # loads xarray, which plans do without

    return read_netcdf(path, BUDGETS_FORMAT, "a file of budgets")


def budgets_of(budgets: xr.Dataset, run: str) -> list[xr.Dataset]:
    """The run's budgets, one per accounting in its order; FedatlasError if there is none."""
    cases = [budgets.isel(case=place) for place in np.flatnonzero(budgets["run"] == run)]
    if not cases:
        raise FedatlasError(f"run '{run}' accounts for no privacy")
    return cases


def read_attacks(path: Path) -> list[dict[str, str]]:
    """Read the table of pairs of data sets."""
    return read_rows(path, ATTACKS_COLUMNS)


def read_leaks(path: Path) -> list[dict[str, str]]:
    """Read the table of leaks."""
    return read_rows(path, LEAKS_COLUMNS)


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


_RECOVERY_TEXTS = ("sees", "who", "masks", "order")
_RECOVERY_ERRORS = ("error", "feature_error", "weight_error")


def read_recovery(path: Path) -> list[RecoveryRow]:
    """The table back; FedatlasError names a file with other columns or contents."""
    return parse_rows(path, RecoveryRow._fields, _recovery_row)


def _recovery_row(row: Mapping[str, str]) -> RecoveryRow:
    values: dict[str, Any] = {name: row[name] for name in _RECOVERY_TEXTS}
    for name in RecoveryRow._fields[len(_RECOVERY_TEXTS) :]:
        kind = float if name in _RECOVERY_ERRORS else int
        values[name] = kind(row[name]) if row[name] else None
    return RecoveryRow(**values)
