"""Judging claims, and how verdicts are kept: claims.csv."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from fedatlas.errors import named
from fedatlas.evaluation.comma_separated import read_rows, to_csv
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import VERDICTS, Claim


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


def judge(experiment: str, paper: str, claims: Sequence[Claim], results: Results) -> list[Verdict]:
    """One verdict per claim and case; FedatlasError names the claim that cannot be judged."""
    verdicts = []
    for claim in claims:
        with named(f"claim '{claim.id}'"):
            verdicts += [
                Verdict(
                    claim=f"{experiment}/{claim.id}{finding.case}",
                    paper=paper,
                    source=claim.source,
                    statement=claim.statement,
                    verdict=finding.verdict,
                    evidence=finding.evidence,
                )
                for finding in claim.test.judge(results)
            ]
    return verdicts


def verdicts_to_csv(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as claims.csv."""
    return to_csv([asdict(verdict) for verdict in verdicts], _VERDICT_COLUMNS)


def read_verdicts(path: Path) -> list[Verdict]:
    """Verdicts of one claims.csv."""
    return [Verdict(**row) for row in read_rows(path, _VERDICT_COLUMNS)]


def verdict_summary(verdicts: Sequence[Verdict]) -> str:
    """How many claims came out how, in words."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    parts = [f"{counts[name]} {name}" for name in VERDICTS]
    return f"{len(verdicts)} judged: " + ", ".join(parts)
