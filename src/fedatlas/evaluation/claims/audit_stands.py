from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from fedatlas.evaluation.comma_separated import read_rows
from fedatlas.evaluation.comparison import CONFIDENCE
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, RunTest

#: Columns of the table of attacks, which `studies.attacks` writes.
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
    """Read the table of attacks."""
    return read_rows(path, COLUMNS)


class AuditStandsTest(RunTest):
    """No attack of the privacy audit shows more than the ε that a run's paper claims.

    Contradicted where an attack shows more. Otherwise not testable: an attack can only refute.
    """

    needs: ClassVar[tuple[str, ...]] = ("privacy_audit",)

    kind: Literal["audit_stands"]

    def judge(self, results: Results) -> Iterator[Finding]:
        rows = results.study(results.attacks, "attacks")
        own = [row for row in rows if row["run"] == self.run]
        for curvature in dict.fromkeys(row["curvature"] for row in own):
            first, *others = [row for row in own if row["curvature"] == curvature]
            refuted = first["verdict"] == REFUTED
            bound, runs = float(first["audited_epsilon"]), int(first["runs"]) // 2
            evidence = (
                f"curvature {float(curvature):g}: true ε ≥ {bound:.3g} at {CONFIDENCE:.0%} "
                f"confidence for all curvatures ({runs} runs on either data set, as many to choose "
                "the test); claimed "
                + "; ".join(
                    f"{float(row['claimed_epsilon']):.4g} ({row['accounting']})"
                    for row in (first, *others)
                )
            )
            case = f"curvature {float(curvature):g}"
            if refuted:
                yield Finding(case, "contradicted", evidence)
            else:
                yield Finding(case, "not testable", f"{evidence}; an attack can only refute")
