"""Sentences of papers: what claims test, and what tallies count."""

from dataclasses import replace

import pytest
import yaml

from experiment_files import config_folder, plan_of_all
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.sentences import by_sentence
from fedatlas.evaluation.verdicts import tally
from fedatlas.pages.claims_page import verdicts_to_html
from fedatlas.pages.repository import KeptVerdict, sentence_outcomes
from fedatlas.plan.build import build_plan
from fedatlas.schema.papers import Sentence
from verdict_factory import effect, verdict
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
        ({"vfb2": [SENTENCE]}, [CLAIM], r"toy.yaml: claim 'faster': key 'sentence', value 'fp/6.2"),
        (
            {"fedpage": [SENTENCE | {"id": "fp/6.2/s8"}]},
            [CLAIM],
            r"has none of paper 'fedpage' with this id; similar: fp/6.2/s8; without this key",
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


def test_every_sentence_is_tested():
    """In the package; a project may take fewer experiments."""
    plan = plan_of_all()
    tested = {claim.sentence for each in plan.experiments.values() for claim in each.claims}
    assert {name for own in plan.sentences.values() for name in own} <= tested


def test_questions_of_ours_say_so():
    claims = [claim for each in plan_of_all().experiments.values() for claim in each.claims]
    unsaid = [claim.id for claim in claims if not claim.sentence and claim.source[:4] != "ours"]
    assert not unsaid


# --- rows ---


SENTENCES = {
    "demo/1/s1": Sentence(id="demo/1/s1", place="section 1", text="It is faster."),
    "demo/1/s2": Sentence(id="demo/1/s2", place="section 1", text="Typically.", cases="most"),
    "demo/1/s3": Sentence(id="demo/1/s3", place="section 1", text="It can be.", cases="any"),
}


def claimed(name, sentence, outcomes, p=None, **more):
    """A claim with a case for each outcome, of experiment `name`."""
    whole = verdict(f"demo-{name}/it", "undecided", sentence=sentence, **more)
    cases = [
        verdict(f"demo-{name}/it", kind, f"step {n}", sentence=sentence, effect=effect(p=p), **more)
        for n, kind in enumerate(outcomes)
    ]
    return [whole, *cases]


@pytest.mark.parametrize(
    ("sentence", "outcomes", "p", "expected"),
    [
        ("demo/1/s1", [["reproduced"], ["reproduced", "not testable"]], 0.001, "reproduced"),
        ("demo/1/s1", [["reproduced"], ["smaller than claimed"]], 0.001, "smaller than claimed"),
        # Three cases are asked: 3 · 0.008 is below 2.5 %, and 3 · 0.009 is not.
        ("demo/1/s1", [["contradicted"], ["reproduced"] * 2], 0.008, "contradicted"),
        ("demo/1/s1", [["contradicted"], ["reproduced"] * 2], 0.009, "undecided"),
        # More than half of all five, though of one experiment's none.
        ("demo/1/s2", [["reproduced"] * 3, ["no difference"] * 2], 0.001, "reproduced"),
        ("demo/1/s2", [["reproduced"] * 2, ["no difference"] * 2], 0.001, "undecided"),
        # Any of three, which pays as well.
        ("demo/1/s3", [["contradicted"], ["reproduced", "no difference"]], 0.008, "reproduced"),
        ("demo/1/s3", [["contradicted"], ["reproduced", "no difference"]], 0.009, "undecided"),
        ("demo/1/s3", [["contradicted"], ["no difference"]], 0.001, "no difference"),
    ],
)
def test_a_sentence_is_one_row_whatever_claims_test_it(sentence, outcomes, p, expected):
    quantifier = SENTENCES[sentence].cases
    rows = [
        row
        for name, kinds in zip("ab", outcomes, strict=True)
        for row in claimed(name, sentence, kinds, p, cases=quantifier)
    ]
    whole, *cases = by_sentence(rows, SENTENCES, {})
    assert (whole.claim, whole.statement) == (sentence, SENTENCES[sentence].text)
    assert whole.outcome == expected
    assert [case.outcome for case in cases] == [kind for kinds in outcomes for kind in kinds]
    assert {case.claim for case in cases} == {sentence}
    assert tally([whole, *cases]).outcomes == {expected: 1}


def test_settings_are_counted_apart_and_questions_of_ours_stay():
    rows = [*claimed("a", "demo/1/s1", ["reproduced"]), *claimed("b", "demo/1/s1", ["undecided"])]
    rows += claimed("c", "", ["reproduced"], question="ours")
    settings = {"demo-a": "in the paper's setting", "demo-b": "on other data or times"}
    wholes = [row for row in by_sentence(rows, SENTENCES, settings) if row.is_whole]
    assert {row.claim: row.outcome for row in wholes} == {
        "demo-c/it": "undecided",
        "demo/1/s1, in the paper's setting": "reproduced",
        "demo/1/s1, on other data or times": "undecided",
    }


def test_claims_of_one_experiment_may_be_judged_in_two_settings():
    rows = [*claimed("a", "demo/1/s1", ["reproduced"]), *claimed("b", "demo/1/s1", ["undecided"])]
    here, elsewhere = "in the paper's setting", "on other data or times"
    settings = {"demo-a": here, "demo-b": here, "demo-b/i*": elsewhere}
    wholes = [row.claim for row in by_sentence(rows, SENTENCES, settings) if row.is_whole]
    assert wholes == [f"demo/1/s1, {here}", f"demo/1/s1, {elsewhere}"]


def test_a_claim_about_most_cases_is_one_case_of_a_sentence_about_all():
    rows = claimed("a", "demo/1/s1", ["reproduced", "reproduced", "undecided"], cases="most")
    rows[0] = replace(rows[0], outcome="reproduced")
    whole, case = by_sentence(rows, SENTENCES, {})
    assert (whole.outcome, case.outcome, case.case) == ("reproduced", "reproduced", "demo-a/it")


@pytest.mark.parametrize(("p", "expected"), [(0.008, "contradicted"), (0.009, "undecided")])
def test_kept_verdicts_are_counted_by_the_same_rule(tmp_path, p, expected):
    other = CLAIM | {"id": "other"}
    plan = build_plan(configuration(tmp_path, {"fedpage": [SENTENCE]}, [CLAIM, other]))
    kept = [
        KeptVerdict("demo-toy", "faster", "contradicted", "2026-01-01", p=p),
        KeptVerdict("demo-toy", "other", "reproduced", "2026-01-01", "2 reproduced"),
    ]
    found = sentence_outcomes(
        kept, plan.experiments, plan.sentences["fedpage"], {"demo-toy": "smaller"}
    )
    assert [(row.setting, row.outcome, row.claims) for row in found] == [
        ("smaller", expected, tuple(kept))
    ]


@pytest.mark.parametrize(("p", "expected"), [(0.012, "reproduced"), (0.013, "undecided")])
def test_that_any_kept_case_is_reproduced_pays_for_asking_all(tmp_path, p, expected):
    sentence, other = SENTENCE | {"cases": "any"}, CLAIM | {"id": "other"}
    plan = build_plan(configuration(tmp_path, {"fedpage": [sentence]}, [CLAIM, other]))
    kept = [
        KeptVerdict("demo-toy", "faster", "reproduced", "2026-01-01", p=p),
        KeptVerdict("demo-toy", "other", "no difference", "2026-01-01"),
    ]
    (row,) = sentence_outcomes(
        kept, plan.experiments, plan.sentences["fedpage"], {"demo-toy": "smaller"}
    )
    assert row.outcome == expected


def test_the_page_prints_a_sentence_once_with_our_readings_below(monkeypatch):
    monkeypatch.setattr("fedatlas.evaluation.sentences.claimed", lambda: (SENTENCES, {}))
    rows = [*claimed("a", "demo/1/s1", ["reproduced"]), *claimed("b", "demo/1/s1", ["undecided"])]
    page = verdicts_to_html(rows)
    assert page.count("“It is faster.”") == 1
    assert page.count("Our test: says demo-a/it") == page.count("Our test: says demo-b") == 1
