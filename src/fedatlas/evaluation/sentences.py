"""Verdicts on claims joined by the papers' sentences that they test: what tallies count."""

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
    """What tallies count: claims of one sentence in one setting joined, all their cases below.

    sentences: by id; claims of other ones, and questions of ours, stay as they are. settings:
    as of `Coverage`. A claim that speaks of another share of its cases
    than the sentence does is one case of it.
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
        if not own or whole.cases != sentence.cases:
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
    """What papers claim, by id, and where experiments ran."""

    sentences: Mapping[str, Sentence]
    settings: Mapping[str, str]


def joined(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """What tallies count: a row for each sentence and setting, or question, and its cases."""
    return by_sentence(verdicts, *claimed())


def digest_of_claimed() -> str:
    """A digest that changes when sentences, or where they were judged, are told otherwise."""
    sentences = {name: each.model_dump(mode="json") for name, each in claimed().sentences.items()}
    return text_digest(canonical_json([sentences, claimed().settings]))


@cache
def claimed() -> Claimed:
    """What the configuration and projects say; read once."""
    config = shipped_configuration()
    papers = load_papers(*files_named("papers.yaml", config, projects()))
    by_paper = load_sentences(*files_named("sentences.yaml", config, projects()), papers=papers)
    sentences = {name: each for own in by_paper.values() for name, each in own.items()}
    return Claimed(sentences, read_settings(config / "coverage.yaml"))
