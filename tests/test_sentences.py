"""Sentences of papers: what claims test, and what tallies count."""

import pytest
import yaml

from experiment_files import config_folder, plan_of_all
from fedatlas.errors import FedatlasError
from fedatlas.plan.build import build_plan
from workflow_copy import EXPERIMENT

SENTENCE = {"id": "fp/6.2/s9", "place": "section 6.2", "text": "FedPAGE converges faster."}
CLAIM = {
    "id": "faster",
    "sentence": "fp/6.2/s9",
    "source": "section 6.2",
    "statement": "it is faster",
    "test": {"kind": "beyond_data", "reason": "none ran"},
}


def configuration(folder, sentences, claims):
    experiment = yaml.safe_load(EXPERIMENT) | {"claims": claims}
    config_folder(folder, toy=experiment)
    (folder / "sentences.yaml").write_text(yaml.safe_dump(sentences), encoding="utf-8")
    return folder


def test_a_claim_is_the_paper_s_if_it_tests_a_sentence(tmp_path):
    own = CLAIM | {"id": "own", "sentence": None, "source": "ours"}
    plan = build_plan(configuration(tmp_path, {"fedpage": [SENTENCE]}, [CLAIM, own]))
    told = [(claim.id, claim.question) for claim in plan.experiments["demo-toy"].claims]
    assert told == [("faster", "paper"), ("own", "ours")]
    assert plan.sentences["fedpage"]["fp/6.2/s9"].cases == "all"


@pytest.mark.parametrize(
    ("sentences", "claims", "message"),
    [
        ({"fedpage": [SENTENCE]}, [], "sentences.yaml: fedpage: no claim tests 'fp/6.2/s9'"),
        ({"vfb2": [SENTENCE]}, [CLAIM], r"toy.yaml: claim 'faster': key 'sentence', value 'fp/6.2"),
        (
            {"fedpage": [SENTENCE | {"id": "fp/6.2/s8"}]},
            [CLAIM],
            r"has none of paper 'fedpage' with this id; similar: fp/6.2/s8; without one",
        ),
        ({"fedpage": [SENTENCE, SENTENCE]}, [CLAIM], "fedpage: .* two have the id 'fp/6.2/s9'"),
        (
            {"fedpage": [SENTENCE], "vfb2": [SENTENCE]},
            [CLAIM],
            "vfb2: 'fp/6.2/s9' is the id of another sentence",
        ),
        ({"fedpag": [SENTENCE]}, [CLAIM], "key 'fedpag': papers.yaml describes no .*: fedpage"),
        ({"fedpage": [SENTENCE | {"cases": "few"}]}, [CLAIM], "s9.cases', value 'few'"),
        ({"fedpage": [SENTENCE | {"id": "s9"}]}, [CLAIM], "'sentences.s9.id', value 's9'"),
        ([SENTENCE], [CLAIM], "must be a mapping of papers' keys to lists of sentences"),
    ],
)
def test_what_is_wrong_with_sentences_is_told(tmp_path, sentences, claims, message):
    with pytest.raises(FedatlasError, match=message):
        build_plan(configuration(tmp_path, sentences, claims))


def test_questions_of_ours_say_so():
    claims = [claim for each in plan_of_all().experiments.values() for claim in each.claims]
    unsaid = [claim.id for claim in claims if not claim.sentence and claim.source[:4] != "ours"]
    assert not unsaid
