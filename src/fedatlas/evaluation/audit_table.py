"""The table of attacks on claimed budgets, as `studies.attacks` writes it."""

from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comma_separated import opened_csv

COLUMNS = (
    "run",
    "curvature",
    "accounting",
    "claimed_epsilon",
    "audited_epsilon",
    "detected",
    "mistaken",
    "runs",
    "verdict",
)

REFUTED = "does not stand"


def read_audit(path: Path) -> list[dict[str, str]]:
    """Read it back; a foreign file is refused by name."""
    with opened_csv(path) as reader:
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise FedatlasError(f"{path}: holds no privacy audit. Delete it and run again.")
        return list(reader)
