"""Verdicts by the sentences of the papers, as pages show them and tallies count them."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from fedatlas.evaluation.sentences import by_sentence
from fedatlas.evaluation.verdicts import Verdict
from fedatlas.extensions import projects
from fedatlas.files import canonical_json, text_digest
from fedatlas.plan.places import files_named, shipped_configuration
from fedatlas.schema.papers import Sentence, load_papers, load_sentences, read_settings


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
