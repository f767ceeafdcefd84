"""Claims that attacks on claimed budgets may refute, and the table that holds the attacks."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comma_separated import opened_csv
from fedatlas.evaluation.evidence import Finding
from fedatlas.evaluation.levels import CONFIDENCE
from fedatlas.schema.claims import AuditStandsTest

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


def judge_audit(test: AuditStandsTest, rows: Sequence[Mapping[str, str]]) -> Iterator[Finding]:
    """A case for each curvature, by the run's first accounting."""
    own = [row for row in rows if row["run"] == test.run]
    for curvature in dict.fromkeys(row["curvature"] for row in own):
        first, *others = [row for row in own if row["curvature"] == curvature]
        refuted = first["verdict"] == REFUTED
        bound, runs = float(first["audited_epsilon"]), int(first["runs"]) // 2
        evidence = (
            f"curvature {float(curvature):g}: true ε ≥ {bound:.3g} at {CONFIDENCE:.0%} confidence "
            f"for all curvatures ({runs} runs on either data set, as many to choose the test); "
            "claimed "
            + "; ".join(
                f"{float(row['claimed_epsilon']):.4g} ({row['accounting']})"
                for row in (first, *others)
            )
        )
        yield Finding(
            f"[curvature {float(curvature):g}]",
            "not reproduced" if refuted else "inconclusive",
            evidence,
        )
