"""How many sentences came out how, and how many stand when many tests are accounted for.

A family is what one correction is made for: the sentences of one paper, or our own questions that
are asked beside it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fedatlas.evaluation.verdicts import Verdict, sentences, surviving, under_test
from fedatlas.schema.papers import OURS

#: Names of questions, as tables head them.
QUESTIONS = {"paper": "the paper's sentences", "ours": "our own questions"}

#: What the last columns of tallies mean, for readers.
CORRECTION = (
    "Each row counts sentences, not their cases; questions of ours are counted apart. Where many "
    "sentences are tested, some come out by chance: the last column says how many of those that "
    "tests over seeds reproduce or contradict (decided) are left after Holm's correction for all "
    "sentences tested in that row. The smallest p of n seeds is 1/2 to the power of n, so six "
    "seeds survive no correction, and ten one for 25 sentences."
)


@dataclass(frozen=True)
class Tally:
    """A family's sentences by outcome.

    tested: those that rest on comparisons over seeds. decided: of them, reproduced or contradicted;
    surviving: likewise after Holm's correction for all that were tested.
    """

    outcomes: Counter[str]
    tested: int
    decided: int
    surviving: int

    @property
    def sentences(self) -> int:
        return self.outcomes.total()


def tally(verdicts: Sequence[Verdict]) -> Tally:
    """The tally of a family; verdicts: of sentences and their cases."""
    found = [sentence for sentence, _ in under_test(verdicts)]
    decided = [each for each in found if each.outcome in ("reproduced", "contradicted")]
    return Tally(
        outcomes=Counter[str](sentence.outcome for sentence in sentences(verdicts)),
        tested=len(found),
        decided=len(decided),
        surviving=len(surviving(verdicts)),
    )


def families(verdicts: Sequence[Verdict]) -> dict[tuple[str, str], list[Verdict]]:
    """Verdicts by paper and question, papers in their order, their own sentences first."""
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
    """Of a family, as tables and headings name it."""
    return f"{'across papers' if paper == OURS else paper}, {QUESTIONS[question]}"


def correction_told(tally: Tally) -> str:
    """What is left after Holm's correction, in words; empty where nothing was tested."""
    if not tally.tested:
        return ""
    return (
        f"{tally.decided} reproduced or contradicted by tests over seeds, {tally.surviving} after "
        f"Holm's correction for {tally.tested} tested"
    )
