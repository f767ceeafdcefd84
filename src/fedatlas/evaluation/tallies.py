"""Counts of claims by outcome, and of those that stand when many tests are accounted for.

A family is what one correction is made for: the claims of one paper, or our own questions that
are asked beside it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from fedatlas.evaluation.comparison import MOST_SEEDS, SIGNIFICANCE, holm, sign_p
from fedatlas.evaluation.verdicts import Verdict, surviving, under_test, whole_claims
from fedatlas.schema.claims import OUTCOMES, Outcome
from fedatlas.schema.papers import OURS

#: Outcomes that have a p.
DECIDED: tuple[Outcome, ...] = ("reproduced", "contradicted")

#: Names of questions, as tables head them.
QUESTIONS = {"paper": "the paper's claims", "ours": "our own questions"}

#: Whose experiments are that belong to no paper, or to several: a project's own are among them.
OF_NO_PAPER = "of no single paper"

#: What the last columns of tallies mean, for readers.
CORRECTION = (
    "Each row counts claims, not their cases; questions of ours are counted apart. Where many "
    'claims are tested, some come out by chance: "after Holm" says how many of those that '
    'tests over seeds reproduce or contradict ("decided") are left after Holm\'s correction for '
    "all claims tested in that row. The smallest p of n seeds is 1/2 to the power of n: few "
    'seeds pass no such correction, however clear they are. "At most" says how many claims '
    'could be left with the seeds that there are, "seeds for all" from how many on all could.'
)

# Heads of the columns that `Tally.tests` fills.
_TESTS = ("tested", "decided", "after Holm", "at most", "seeds for all")


@dataclass(frozen=True)
class Tally:
    """A family's claims by outcome.

    tested: those that rest on comparisons over seeds. decided: of them, reproduced or contradicted;
    surviving: likewise after Holm's correction for all that were tested. possible: how many could
    survive at most, if every seed spoke as clearly as can be. seeds: how many tests have, in
    ascending order. enough: the fewest seeds of every test with which all could survive; None where
    `MOST_SEEDS` are too few.
    """

    outcomes: Counter[str]
    tested: int
    decided: int
    surviving: int
    possible: int
    seeds: tuple[int, ...]
    enough: int | None

    @property
    def claims(self) -> int:
        return self.outcomes.total()

    @property
    def tests(self) -> list[str]:
        """The cells below `_TESTS`."""
        numbers = [str(number) for number in (self.tested, self.decided, self.surviving)]
        if not self.tested:
            return [*numbers, "–", "–"]
        return [*numbers, str(self.possible), str(self.enough or f"over {MOST_SEEDS}")]


def tally(verdicts: Sequence[Verdict]) -> Tally:
    """The tally of a family; verdicts: of claims and their cases."""
    found = [whole for whole, _ in under_test(verdicts)]
    decided = [each for each in found if each.outcome in DECIDED]
    numbers = range(1, MOST_SEEDS + 1)
    return Tally(
        outcomes=Counter[str](whole.outcome for whole in whole_claims(verdicts)),
        tested=len(found),
        decided=len(decided),
        surviving=len(surviving(verdicts)),
        possible=_possible(verdicts),
        seeds=_seeds({whole.claim for whole in found}, verdicts),
        enough=next((n for n in numbers if _possible(verdicts, n) == len(found)), None),
    )


def _possible(verdicts: Sequence[Verdict], seeds: int | None = None) -> int:
    """Count tested claims that can survive at most; seeds: of every test, in place of its own."""
    both = (
        under_test([_as_clear_as_can_be(verdict, outcome, seeds) for verdict in verdicts])
        for outcome in DECIDED
    )
    smallest = [min(p for _, p in same) for same in zip(*both, strict=True)]
    return sum(p <= SIGNIFICANCE for p in holm(smallest))


def _as_clear_as_can_be(verdict: Verdict, outcome: Outcome, seeds: int | None) -> Verdict:
    """The verdict if all its seeds agreed; that p rises with looks at it is left out."""
    if verdict.outcome in ("not testable", "compatible", "incompatible"):
        return verdict
    effect = verdict.effect
    if effect is not None and not effect.exact:
        effect = replace(effect, p=_smallest_p(effect.seeds if seeds is None else seeds))
    return replace(verdict, outcome=outcome, effect=effect)


@cache
def _smallest_p(seeds: int) -> float:
    """The smallest p of so many seeds: all agree."""
    return sign_p(np.ones(seeds), 0.0)


def _seeds(tested: Collection[str], verdicts: Sequence[Verdict]) -> tuple[int, ...]:
    """Numbers of seeds of the tests of these claims."""
    effects = [each.effect for each in verdicts if each.effect and each.claim in tested]
    return tuple(sorted({effect.seeds for effect in effects if not effect.exact}))


def families(verdicts: Sequence[Verdict]) -> dict[tuple[str, str], list[Verdict]]:
    """Verdicts by paper and question, papers in their order, their own claims first."""
    papers = dict.fromkeys(verdict.paper for verdict in verdicts)
    found = {
        (paper, question): [
            verdict
            for verdict in verdicts
            if (verdict.paper, verdict.question) == (paper, question)
        ]
        for paper in papers
        for question in QUESTIONS
    }
    return {family: own for family, own in found.items() if own}


def family_name(paper: str, question: str) -> str:
    """Name of a family, for tables and headings."""
    return f"{OF_NO_PAPER if paper == OURS else paper}, {QUESTIONS[question]}"


def tally_table(tallies: Mapping[str, Tally]) -> tuple[list[str], list[list[str]]]:
    """Heads of columns without that of names, and a row for each name, which stands first.

    Outcomes that none of the tallies has are left out.
    """
    occurring = [kind for kind in OUTCOMES if any(each.outcomes[kind] for each in tallies.values())]
    rows = [
        [name, str(own.claims), *(str(own.outcomes[kind]) for kind in occurring), *own.tests]
        for name, own in tallies.items()
    ]
    return ["claims", *occurring, *_TESTS], rows


def format_correction(tally: Tally) -> str:
    """Describe what is left after Holm's correction, and could be; empty without tests."""
    if not tally.tested:
        return ""
    if not tally.decided:
        return f"no claim is decided, of {tally.tested} tested over seeds."
    left = (
        f"after Holm's correction for {tally.tested} test{'s' * (tally.tested != 1)}, "
        f"{tally.surviving} of {tally.decided} decided claim{'s' * (tally.decided != 1)} "
        f"remain{'s' * (tally.surviving == 1)}."
    )
    if tally.possible == tally.tested:
        return left
    fewest, most = tally.seeds[0], tally.seeds[-1]
    seeds = str(most) if fewest == most else f"{fewest} to {most}"
    smallest = f"(smallest p 1/{2**fewest})"
    if tally.possible:
        enough = f"; {tally.enough} would do for all" if tally.enough else ""
        return f"{left} With {seeds} seeds at most {tally.possible} can {smallest}{enough}."
    enough = f"; {tally.enough} would do" if tally.enough else ""
    return f"{left} {seeds} seeds are too few for any to {smallest}{enough}."
