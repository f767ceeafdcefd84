"""Rows of claims with outcome and effect, and evidence with titles of runs in place of keys."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fedatlas.evaluation.comparison import WORST_FIRST, fewest_seeds
from fedatlas.evaluation.evidence import MARKS, in_short
from fedatlas.evaluation.verdicts import Verdict, cases_of, whole_claims
from fedatlas.schema.claims import Effect

HEAD = ("claim", "outcome", "effect (interval)")


#: Titles of runs by their names, of each experiment.
Titles = Mapping[str, Mapping[str, str]]
# Names of measurements and hyper-parameters; papers' symbols such as t_comm do not match.
_KEY = re.compile(r"\b[a-z]{2,}(?:_[a-z0-9]+)+\b(?!:)")


def titled(verdicts: Sequence[Verdict], titles: Titles) -> list[Verdict]:
    """Verdicts with titles of runs in their evidence in place of keys, and spaces for `_`.

    A key that is to be written ("record_every: 1") stays.
    """
    return [
        replace(one, evidence=_titled(one.evidence, titles.get(one.claim.partition("/")[0], {})))
        for one in verdicts
    ]


def _titled(evidence: str, titles: Mapping[str, str]) -> str:
    def title(match: re.Match[str]) -> str:
        found = titles[match[1]]
        return f"{found}:" if match[2] and found[-1].isdigit() else found  # not "Q = 1 0.5"

    if runs := "|".join(map(re.escape, sorted(titles, key=len, reverse=True))):
        before = r"(?:^|(?<=[:;,] )|(?<=against )|(?<= and ))"
        evidence = re.sub(rf"{before}({runs})(?![\w-])(?=( [\d≤−-])?)", title, evidence)
    return _KEY.sub(lambda match: match[0].replace("_", " "), evidence)


def severity(verdict: Verdict) -> int:
    """The place of an outcome, worst first: 0 is the worst. Outcomes without a rank come last."""
    known = verdict.outcome in WORST_FIRST
    return WORST_FIRST.index(verdict.outcome) if known else len(WORST_FIRST)


class ClaimRow(NamedTuple):
    """claim: its statement. outcome: with its sign and, where it applies, "fragile"."""

    claim: str
    outcome: str
    effect: str


def claim_rows(verdicts: Sequence[Verdict]) -> list[ClaimRow]:
    """A row for each claim: the paper's before own questions, the worst outcome first.

    verdicts: of claims and their cases.
    """
    cases = cases_of(verdicts)
    rows = []
    for claim in sorted(
        whole_claims(verdicts), key=lambda one: (one.question != "paper", severity(one))
    ):
        whose = "" if claim.question == "paper" else "own question: "
        outcome = f"{MARKS[claim.outcome]} {claim.outcome}{', fragile' * bool(claim.fragile)}"
        effect = _effect_of(claim, cases.get(claim.claim, ()))
        rows.append(ClaimRow(whose + claim.statement, outcome, effect))
    return rows


def effect_so_far(effect: Effect) -> str:
    """The effect with its interval, or a note that too few seeds give none."""
    if math.isinf(effect.estimate) or math.isfinite(effect.low) or math.isfinite(effect.high):
        return in_short(effect)
    fewest = fewest_seeds(effect.seeds_added)
    none = f"(no interval{f' below {fewest} seeds' * (effect.seeds < fewest)})"
    if effect.estimate == 0:
        return f"no difference {none}"
    return f"{in_short(effect).partition(' (')[0]} {none}"


def reason(verdict: Verdict, cases: Sequence[Verdict] = ()) -> str:
    """Why a claim is not testable or not covered: the reason of its first case that is not."""
    found = next((case for case in cases if case.outcome == verdict.outcome), verdict)
    return found.why or found.evidence


def _shown(verdict: Verdict) -> str:
    """The effect, and in short why it does not count; the evidence where there is none."""
    if verdict.effect is None:
        return verdict.evidence
    why = verdict.why.partition("; ")[0]
    return effect_so_far(verdict.effect) + (f"; {why}" if why else "")


def _effect_of(claim: Verdict, cases: Sequence[Verdict]) -> str:
    """A claim's effect, or else that of its first case with the claim's outcome, or the reason."""
    if claim.effect is not None or not cases:
        return _shown(claim)
    alike = [case for case in cases if case.outcome == claim.outcome]
    shown = (alike or sorted(cases, key=severity))[0]
    which = f"{len(alike)} of {len(cases)} cases" if alike else f"its {len(cases)} cases differ"
    return f"{shown.case}: {_shown(shown)}; {which}"
