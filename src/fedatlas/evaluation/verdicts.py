"""Judging claims, and how verdicts are kept: claims.csv."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import get_args

from fedatlas.errors import error_context
from fedatlas.evaluation.comma_separated import parse_rows, to_csv
from fedatlas.evaluation.comparison import SIGNIFICANCE, holm, together_of
from fedatlas.evaluation.evidence import UNKNOWN, format_needed
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import OUTCOMES, CaseOutcome, Claim, Effect, Outcome, Quantifier


@dataclass(frozen=True)
class Verdict:
    """One row of claims.csv: a claim, or one of its cases.

    claim: experiment and id. case: empty for the claim as a whole. effect: None where nothing
    is compared over seeds. cases: of how many of its cases the claim speaks.
    """

    claim: str
    case: str
    paper: str
    source: str
    statement: str
    question: str
    outcome: Outcome
    evidence: str
    fragile: str = ""
    cases: Quantifier = "all"
    effect: Effect | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the row is about the claim as a whole, which tallies count."""
        return not self.case


_EFFECT = tuple(field.name for field in fields(Effect))
_OWN = tuple(field.name for field in fields(Verdict) if field.name != "effect")
_COLUMNS = (*_OWN, *_EFFECT)


def judge(experiment: str, paper: str, claims: Sequence[Claim], results: Results) -> list[Verdict]:
    """A verdict per claim, followed by those of its cases if there are several.

    FedatlasError names the claim that cannot be judged.
    """
    verdicts = []
    for claim in claims:
        with error_context(f"claim '{claim.id}'"):
            cases = _with_whole(claim, list(claim.test.judge(results)))
        verdicts += [
            Verdict(
                claim=f"{experiment}/{claim.id}",
                paper=paper,
                source=claim.source,
                statement=claim.statement,
                question=claim.question,
                cases=claim.cases,
                **vars(case),
            )
            for case in cases
        ]
    return verdicts


def _with_whole(claim: Claim, cases: list[CaseOutcome]) -> list[CaseOutcome]:
    """The outcome of the claim ahead of its cases; a case alone is the claim."""
    if any(not case.case for case in cases):
        return cases
    if len(cases) == 1:
        (only,) = cases
        return [replace(only, case="", evidence=f"{only.case}: {only.evidence}")]
    counts = Counter[str](case.outcome for case in cases)
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    fragile = [case.case for case in cases if case.fragile]
    whole = CaseOutcome(
        case="",
        outcome=together_of(cases, claim.cases),
        evidence=f"{len(cases)} cases: {told}",
        fragile=f"in {', '.join(fragile)}" if fragile else "",
    )
    return [whole, *cases]


def verdicts_to_csv(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as claims.csv; what a row does not have is empty."""
    rows = [
        {name: getattr(verdict, name) for name in _OWN}
        | (asdict(verdict.effect) if verdict.effect else dict.fromkeys(_EFFECT))
        for verdict in verdicts
    ]
    return to_csv(rows, _COLUMNS)


def read_verdicts(path: Path) -> list[Verdict]:
    """Verdicts of one claims.csv; FedatlasError names a file with other columns or contents."""
    return parse_rows(path, _COLUMNS, _verdict)


def _verdict(row: Mapping[str, str]) -> Verdict:
    if row["outcome"] not in get_args(Outcome):
        raise ValueError(f"outcome '{row['outcome']}' is none of {', '.join(OUTCOMES)}")
    own = {name: row[name] for name in _OWN}
    return Verdict(**own, effect=_effect(row))  # type: ignore[arg-type]


def _effect(row: Mapping[str, str]) -> Effect | None:
    if not row["unit"]:
        return None
    numbers = {name: _number(row[name]) for name in ("estimate", "low", "high", "smallest")}
    return Effect(
        **{name: math.nan if value is None else value for name, value in numbers.items()},
        unit=row["unit"],
        seeds=int(row["seeds"]),
        published=_number(row["published"]),
        needed=int(row["needed"]) if row["needed"] else None,
        p=_number(row["p"]),
        repeats=int(row["repeats"]),
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


def whole_claims(verdicts: Sequence[Verdict], question: str | None = None) -> list[Verdict]:
    """One row for each claim; question: of the paper or ours, otherwise of both."""
    return [
        verdict for verdict in verdicts if verdict.is_whole and question in (None, verdict.question)
    ]


def cases_of(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """The cases of each claim that has some, by the claim."""
    cases: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if not verdict.is_whole:
            cases.setdefault(verdict.claim, []).append(verdict)
    return cases


def under_test(verdicts: Sequence[Verdict]) -> list[tuple[Verdict, float]]:
    """Claims that rest on comparisons over seeds, with their one-sided p.

    It is 1 where nothing is reproduced or contradicted: those tests were made, too. Published
    numbers are no tests of a direction, and exact comparisons are no tests.
    """
    cases, found = cases_of(verdicts), []
    for whole in whole_claims(verdicts):
        own = cases.get(whole.claim, [])
        compared = any(each.effect and not each.effect.exact for each in (whole, *own))
        if compared and whole.outcome not in ("not testable", "compatible", "incompatible"):
            p = _whole_p(whole, own)
            if p > 0:  # otherwise exact cases decide it
                found.append((whole, p))
    return found


def surviving(verdicts: Sequence[Verdict], significance: float = SIGNIFICANCE) -> list[Verdict]:
    """Claims that are reproduced or contradicted also after Holm's correction for all tested."""
    found = under_test(verdicts)
    adjusted = holm([p for _, p in found])
    return [verdict for (verdict, _), p in zip(found, adjusted, strict=True) if p <= significance]


def _whole_p(whole: Verdict, cases: Sequence[Verdict]) -> float:
    """p of a claim: with cases that of as many as it takes (Benjamini and Heller 2008)."""
    if not cases:
        return 1.0 if whole.effect is None or whole.effect.p is None else whole.effect.p
    if whole.outcome not in ("reproduced", "contradicted"):
        return 1.0
    spoken = [case for case in cases if case.outcome != "not testable"]
    if not spoken:
        return 1.0
    p_values = sorted(_case_p(case, whole.outcome) for case in spoken)
    if whole.cases == "most":
        taken = len(spoken) // 2 + 1
    else:
        taken = len(spoken) if whole.outcome == "reproduced" else 1
    return min(1.0, (len(spoken) - taken + 1) * p_values[taken - 1])


def _case_p(case: Verdict, outcome: Outcome) -> float:
    """p of a case for the claim's outcome; an exact case is certain."""
    if case.outcome != outcome or case.effect is None:
        return 1.0
    if case.effect.exact:
        return 0.0
    return 1.0 if case.effect.p is None else case.effect.p


def verdict_summary(verdicts: Sequence[Verdict]) -> str:
    """Count claims by outcome in words, those of papers and questions of ours apart."""
    parts = []
    for question, whose in (("paper", "claims of papers"), ("ours", "questions of ours")):
        counts = Counter[str](v.outcome for v in whole_claims(verdicts, question))
        told = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name])
        if told:
            parts.append(f"{whose}, {counts.total()} judged: {told}")
    return "; ".join(parts) or "no claim judged"


def would_decide(verdict: Verdict) -> str:
    """Describe what would decide an undecided verdict; empty where that is not known or needed."""
    if verdict.outcome != "undecided" or verdict.effect is None:
        return ""
    seeds = format_needed(verdict.effect)
    if seeds == UNKNOWN:
        return ""
    about = "" if verdict.effect.needed is None else "about "
    return f"{about}{seeds} seeds in all would decide"
