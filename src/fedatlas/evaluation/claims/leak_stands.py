from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comma_separated import read_rows
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, ClaimTest

#: Columns of the table of leaks, which `studies.leaks` makes.
COLUMNS = ("attack", "who", "learns", "assumes", "measured", "value", "paper_claim", "verdict")


def read_leaks(path: Path) -> list[dict[str, str]]:
    """Read the table of leaks."""
    return read_rows(path, COLUMNS)


class LeakStandsTest(ClaimTest):
    """No attack of the audit of messages learns what a paper says is safe; a case for each.

    attack, who: how those of the table begin that the sentence is about. Contradicted where an
    attack succeeds. Otherwise not testable: an attack can only refute.
    """

    needs: ClassVar[tuple[str, ...]] = ("audit",)

    kind: Literal["leak_stands"]
    attack: str
    who: str = ""

    @property
    def runs(self) -> tuple[str, ...]:
        return ()

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        rows = [
            row
            for row in results.study(results.leaks, "leaks")
            if row["attack"].startswith(self.attack) and row["who"].startswith(self.who)
        ]
        if not rows:
            raise FedatlasError(
                f"no attack of the audit begins with '{self.attack}' by '{self.who}'"
            )
        for row in rows:
            evidence = (
                f"{row['attack']}, by {row['who']} (assumes {row['assumes']}), for "
                f"{row['learns']}: {float(row['value']):.4g}, {row['measured']}"
            )
            case = row["who"] if len(rows) > 1 else ""
            if row["verdict"] == "does not stand":
                yield CaseOutcome(case, "contradicted", evidence)
            else:
                yield CaseOutcome(case, "not testable", f"{evidence}; an attack can only refute")
