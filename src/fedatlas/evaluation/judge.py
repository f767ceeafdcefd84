"""Judging claims: a verdict for each case, with the numbers beside it."""

from collections.abc import Sequence

from fedatlas.errors import named
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.verdicts import Verdict
from fedatlas.schema.claims import Claim


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
