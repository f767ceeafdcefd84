"""Verdicts, and how they are kept: claims.csv."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comma_separated import opened_csv, to_csv
from fedatlas.schema.claims import VERDICTS


@dataclass(frozen=True)
class Verdict:
    """One row of claims.csv."""

    claim: str
    paper: str
    source: str
    statement: str
    verdict: str
    evidence: str


_VERDICT_COLUMNS = [field.name for field in fields(Verdict)]


def verdicts_to_csv(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as claims.csv."""
    return to_csv([asdict(verdict) for verdict in verdicts], _VERDICT_COLUMNS)


def read_verdicts(path: Path) -> list[Verdict]:
    """Verdicts of one claims.csv; a file with other columns is refused by name."""
    with opened_csv(path) as reader:
        if reader.fieldnames != _VERDICT_COLUMNS:
            raise FedatlasError(
                f"{path}: expected the columns {', '.join(_VERDICT_COLUMNS)}. Delete it and run "
                "again."
            )
        verdicts = []
        for row in reader:
            # A row of another length has None for a key or for a value.
            if None in row or None in row.values():
                raise FedatlasError(
                    f"{path}: the row that ends in line {reader.line_num} is not whole. Delete the "
                    "file and run again."
                )
            verdicts.append(Verdict(**row))
        return verdicts


def verdict_summary(verdicts: Sequence[Verdict]) -> str:
    """How many claims came out how, in words."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    parts = [f"{counts[name]} {name}" for name in VERDICTS]
    return f"{len(verdicts)} judged: " + ", ".join(parts)
