"""Judging claims: a verdict for each case, with the numbers beside it."""

from collections.abc import Iterator, Sequence

from fedatlas.errors import named
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.verdicts import Verdict
from fedatlas.schema.claims import Claim, Finding


def judge(experiment: str, paper: str, claims: Sequence[Claim], results: Results) -> list[Verdict]:
    """One verdict per claim and case; FedatlasError names the claim that cannot be judged."""
    return [
        Verdict(
            claim=f"{experiment}/{claim.id}{finding.case}",
            paper=paper,
            source=claim.source,
            statement=claim.statement,
            verdict=finding.verdict,
            evidence=finding.evidence,
        )
        for claim in claims
        for finding in _findings(claim, results)
    ]


def _findings(claim: Claim, results: Results) -> Iterator[Finding]:
    with named(f"claim '{claim.id}'"):
        yield from claim.test.judge(results)
