from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Literal

from fedatlas.evaluation.comma_separated import read_rows
from fedatlas.evaluation.comparison import CONFIDENCE
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, RunTest

#: Columns of the table of pairs, which `studies.lemma_3` writes.
COLUMNS = (
    "run",
    "case",
    "samples",
    "drawn",
    "accounting",
    "claimed_epsilon",
    "pair_epsilon",
    "known",
    "refuted_below",
    "refuted_above",
    "audited_epsilon",
    "detected",
    "mistaken",
    "runs",
    "verdict",
)
REFUTED = "does not stand"


def read_audit(path: Path) -> list[dict[str, str]]:
    """Read the table of pairs."""
    return read_rows(path, COLUMNS)


class AuditStandsTest(RunTest):
    """No pair of adjacent data sets of the privacy audit loses more than the ε that a paper claims.

    Nothing is random here. Contradicted where a pair loses more than the run's first accounting
    says. Otherwise not testable: a pair can only refute.
    """

    needs: ClassVar[tuple[str, ...]] = ("privacy_audit",)

    kind: Literal["audit_stands"]

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        rows = results.study(results.attacks, "attacks")
        own = [row for row in rows if row["run"] == self.run]
        for case in dict.fromkeys(row["case"] for row in own):
            first, *others = [row for row in own if row["case"] == case]
            drawn = (
                "every iteration draws all samples"
                if first["drawn"] == first["samples"]
                else f"an iteration draws {first['drawn']} of {first['samples']} samples"
            )
            evidence = (
                f"{case}: the ε of the pair is {_known(first)}, {drawn}; claimed "
                + "; ".join(
                    f"{float(row['claimed_epsilon']):.4g} ({row['accounting']})"
                    for row in (first, *others)
                )
                + _limits(first)
                + _attacked(first)
            )
            if first["verdict"] == REFUTED:
                yield CaseOutcome(case, "contradicted", evidence)
            else:
                yield CaseOutcome(case, "not testable", f"{evidence}; a pair can only refute")


def _known(row: Mapping[str, str]) -> str:
    words = "" if row["known"] == "exact" else "at least "
    return f"{words}{float(row['pair_epsilon']):.4g}"


def _limits(row: Mapping[str, str]) -> str:
    """From which curvatures on the claim is refuted."""
    found = [
        f"{word} {float(row[column]):.4g}"
        for word, column in (("below", "refuted_below"), ("above", "refuted_above"))
        if row[column]
    ]
    return f"; quadratic losses refute it at curvatures {' and '.join(found)}" if found else ""


def _attacked(row: Mapping[str, str]) -> str:
    """What sampled runs show."""
    if not row["runs"]:
        return ""
    return (
        f"; {int(row['runs']) // 2} runs on either data set, after as many to choose the test, "
        f"show {float(row['audited_epsilon']):.3g} at {CONFIDENCE:.0%} for all curvatures"
    )
