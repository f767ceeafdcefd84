"""Claims in a row each: outcome and effect."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fedatlas.evaluation.comparison import WORST_FIRST
from fedatlas.evaluation.evidence import MARKS, in_short
from fedatlas.evaluation.verdicts import Verdict, cases_of, whole_claims
from fedatlas.schema.claims import Effect

HEAD = ("claim", "outcome", "effect (interval)")


def severity(verdict: Verdict) -> int:
    """The worst outcome has 0; what decides nothing comes last."""
    known = verdict.outcome in WORST_FIRST
    return WORST_FIRST.index(verdict.outcome) if known else len(WORST_FIRST)


class ClaimRow(NamedTuple):
    """claim: its statement. outcome: with its sign, and whether it is fragile."""

    claim: str
    outcome: str
    effect: str


def claim_rows(verdicts: Sequence[Verdict]) -> list[ClaimRow]:
    """A row for each claim: the paper's before ours, the worst outcome first.

    verdicts: of claims and their cases.
    """
    cases = cases_of(verdicts)
    rows = []
    for claim in sorted(
        whole_claims(verdicts), key=lambda one: (one.question != "paper", severity(one))
    ):
        whose = "" if claim.question == "paper" else "ours: "
        outcome = f"{MARKS[claim.outcome]} {claim.outcome}{', fragile' * bool(claim.fragile)}"
        effect = _effect_of(claim, cases.get(claim.claim, ()))
        rows.append(ClaimRow(whose + claim.statement, outcome, effect))
    return rows


def effect_so_far(effect: Effect) -> str:
    """The effect with its interval, which few seeds do not have."""
    if math.isfinite(effect.low) or math.isfinite(effect.high):
        return in_short(effect)
    if effect.estimate == 0:
        return "no difference (no interval)"
    return f"{in_short(effect).partition(' (')[0]} (no interval)"


def _effect_of(claim: Verdict, cases: Sequence[Verdict]) -> str:
    """A claim's effect, or that of the first case that came out as the claim did."""
    if claim.effect is not None or not cases:
        return effect_so_far(claim.effect) if claim.effect else ""
    alike = [case for case in cases if case.outcome == claim.outcome]
    shown = (alike or sorted(cases, key=severity))[0]
    effect = f": {effect_so_far(shown.effect)}" if shown.effect else ""
    which = f"{len(alike)} of {len(cases)} cases" if alike else f"its {len(cases)} cases differ"
    return f"{shown.case}{effect}; {which}"
