"""Verdicts as Markdown: a row for each sentence, then its evidence and its cases."""

from collections import Counter
from collections.abc import Iterator, Sequence

from fedatlas.evaluation.tallies import QUESTIONS
from fedatlas.evaluation.verdict_words import (
    MARKS,
    capital,
    format_outcomes,
    in_short,
    would_decide,
)
from fedatlas.evaluation.verdicts import Verdict, cases_of, sentences, verdict_summary
from fedatlas.markdown import code, item, paragraph, table, text


def told_verdicts(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The blocks of a paper's section about claims."""
    yield "### Claims and verdicts"
    if not verdicts:
        yield "None of these experiments states a claim."
        return
    yield paragraph(f"{capital(verdict_summary(verdicts))}.")
    cases = cases_of(verdicts)
    for question, name in QUESTIONS.items():
        asked = sentences(verdicts, question)
        if asked:
            yield f"{capital(name)}:"
            yield table(
                ("claim", "outcome", "effect", "cases"),
                [_row(sentence, cases.get(sentence.claim, [])) for sentence in asked],
            )
    yield "Evidence, claim by claim:"
    yield "\n".join(
        _evidence(sentence, cases.get(sentence.claim, [])) for sentence in sentences(verdicts)
    )


def _row(sentence: Verdict, cases: Sequence[Verdict]) -> list[str]:
    outcome = f"{MARKS[sentence.outcome]} {sentence.outcome}"
    counts = format_outcomes(Counter[str](case.outcome for case in cases))
    return [
        code(sentence.claim),
        text(f"{outcome}, fragile" if sentence.fragile else outcome),
        text(in_short(sentence.effect)) if sentence.effect else "–",
        text(counts),
    ]


def _evidence(sentence: Verdict, cases: Sequence[Verdict]) -> str:
    about = f"{code(sentence.claim)}: {text(sentence.statement)} ({text(sentence.source)})."
    return "\n".join([item(about), *(item(_told(each), depth=1) for each in (sentence, *cases))])


def _told(verdict: Verdict) -> str:
    about = f", {text(verdict.case)}" if verdict.case else ""
    notes = [
        f"Fragile: {text(verdict.fragile)}." if verdict.fragile else "",
        f"{capital(text(would_decide(verdict)))}." if would_decide(verdict) else "",
    ]
    told = f"**{text(verdict.outcome)}**{about}: {text(verdict.evidence)}."
    return " ".join(filter(None, [told, *notes]))
