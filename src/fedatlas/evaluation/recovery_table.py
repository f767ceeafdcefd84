"""The table of what histories of shares and of ϑ reveal, recovery.csv."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedatlas.evaluation.comma_separated import parse_rows

#: What attackers see.
SHARES, SUMS, MASKED = "shares", "sums", "masked shares"
REPEATS, FIRST, LATE = "masked shares, model at rest", "first ϑ", "ϑ from the fourth snapshot on"
#: Whether attackers know in which order updates are applied.
KNOWN, UNKNOWN = "known", "unknown"


class Row(NamedTuple):
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


_TEXTS = ("sees", "who", "masks", "order")
_ERRORS = ("error", "feature_error", "weight_error")


def read_recovery(path: Path) -> list[Row]:
    """The table back; FedatlasError names a file with other columns or contents."""
    return parse_rows(path, Row._fields, _row)


def _row(row: Mapping[str, str]) -> Row:
    values: dict[str, Any] = {name: row[name] for name in _TEXTS}
    for name in Row._fields[len(_TEXTS) :]:
        kind = float if name in _ERRORS else int
        values[name] = kind(row[name]) if row[name] else None
    return Row(**values)
