"""Join verdicts on tests by the papers' sentences, as counts of outcomes need."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from fedatlas.evaluation.comparison import together
from fedatlas.evaluation.evidence import format_outcomes
from fedatlas.evaluation.verdicts import DECIDED, Verdict, cases_of, whole_claims, whole_p
from fedatlas.extensions import projects
from fedatlas.files import canonical_json, text_digest
from fedatlas.plan.places import files_named, shipped_configuration
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.papers import Sentence, load_papers, load_sentences, read_settings, setting_of


def by_sentence(
    verdicts: Sequence[Verdict], sentences: Mapping[str, Sentence], settings: Mapping[str, str]
) -> list[Verdict]:
    """One verdict for each sentence and setting, followed by the cases of all claims that test it.

    sentences: by id. Claims without one of these sentences, such as our own questions, stay as they
    are. settings: those of `Coverage`. A claim that is about another share of its cases (all, most
    or any) than the sentence, or is not testable, becomes one case.
    """
    cases, joined = cases_of(verdicts), dict[str, list[Verdict]]()
    found: list[Verdict] = []
    for whole in whole_claims(verdicts):
        sentence = sentences.get(whole.sentence)
        if sentence is None:
            found += [whole, *cases.get(whole.claim, [])]
            continue
        setting = setting_of(settings, whole.claim)
        row = f"{sentence.id}, {setting}" if setting else sentence.id
        own = cases.get(whole.claim, [])
        if not own or whole.cases != sentence.cases or whole.outcome == "not testable":
            own = [_as_a_case(whole, own)]
        joined.setdefault(row, []).extend(
            replace(case, claim=row, case=f"{whole.claim}: {case.case}".removesuffix(": "))
            for case in own
        )
    for row, own in joined.items():
        found += [_joined(sentences[own[0].sentence], row, own), *own]
    return found


def _as_a_case(whole: Verdict, cases: Sequence[Verdict]) -> Verdict:
    """A claim as one case, with the p of as many of its own cases as it takes."""
    if not cases or whole.outcome not in DECIDED:
        return whole
    effects = [case.effect for case in cases if case.outcome == whole.outcome and case.effect]
    if not effects:
        return whole
    return replace(whole, effect=replace(effects[0], p=whole_p(whole, cases)))


def _joined(sentence: Sentence, row: str, cases: Sequence[Verdict]) -> Verdict:
    """The row of a sentence."""
    counts = Counter[str](case.outcome for case in cases)
    spoken = [CaseOutcome(one.case, one.outcome, one.evidence, one.effect) for one in cases]
    fragile = sum(bool(case.fragile) for case in cases)
    return Verdict(
        claim=row,
        case="",
        paper=cases[0].paper,
        source=sentence.place,
        statement=sentence.text,
        sentence=sentence.id,
        question="paper",
        outcome=together(spoken, sentence.cases),
        evidence=f"{len(cases)} case{'s' * (len(cases) != 1)}: {format_outcomes(counts)}",
        fragile=f"{fragile} of {len(cases)} cases" if fragile else "",
        cases=sentence.cases,
        effect=cases[0].effect if len(cases) == 1 else None,
    )


class Claimed(NamedTuple):
    """The papers' sentences by id, and the settings in which experiments ran."""

    sentences: Mapping[str, Sentence]
    settings: Mapping[str, str]


def joined(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """A row for each sentence and setting, or question of our own, followed by its cases."""
    return by_sentence(verdicts, *claimed())


def digest_of_claimed() -> str:
    """A digest that changes with the sentences, or the settings in which they were judged."""
    sentences = {name: each.model_dump(mode="json") for name, each in claimed().sentences.items()}
    return text_digest(canonical_json([sentences, claimed().settings]))


@cache
def claimed() -> Claimed:
    """The sentences and settings of the configuration and of projects, read once."""
    config = shipped_configuration()
    papers = load_papers(*files_named("papers.yaml", config, projects()))
    by_paper = load_sentences(*files_named("sentences.yaml", config, projects()), papers=papers)
    sentences = {name: each for own in by_paper.values() for name, each in own.items()}
    return Claimed(sentences, read_settings(config / "coverage.yaml"))
