"""Claims about what parties learn, judged by the audit's table."""

from dataclasses import asdict, fields

import numpy as np
import pytest

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.study_value import StudyValueTest
from fedatlas.evaluation.comma_separated import to_csv
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.study_files import LEAKS_COLUMNS, read_leaks
from fedatlas.schema.objectives import LinearObjective
from fedatlas.studies.leaks import AttackResult, find_leaks


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Results:
    draw = np.random.default_rng(0)
    labels = np.where(draw.random(50) < 0.5, 1.0, -1.0)
    objective = LinearObjective(name="logistic_l2", weight=1e-4)
    found = find_leaks(objective, labels, 0 * labels, draw.normal(size=50), 4, 2)
    path = tmp_path_factory.mktemp("leaks") / "leaks.csv"
    path.write_text(to_csv([asdict(finding) for finding in found]))
    return Results({}, {}, 0.1, leaks=read_leaks(path))


def judged(results: Results, attack: str, who: str = ""):
    return list(StudyValueTest(kind="leak_stands", attack=attack, who=who).judge(results))


def test_columns_are_those_of_the_study():
    assert tuple(field.name for field in fields(AttackResult)) == LEAKS_COLUMNS


def test_a_successful_attack_contradicts(results):
    (sign,) = judged(results, "the sign of ϑ")
    assert sign.outcome == "contradicted" and sign.case == "" and ": 1, share" in sign.evidence


def test_a_failed_attack_shows_nothing(results):
    (alone,) = judged(results, "what was seen of a secure sum", "one party")
    assert alone.outcome == "not testable" and "an attack can only refute" in alone.evidence


def test_several_attackers_are_cases(results):
    found = judged(results, "what was seen of a secure sum")
    assert [finding.case for finding in found][:2] == ["one party alone", "2 colluding parties"]


def test_an_attack_that_the_audit_lacks_is_named(results):
    with pytest.raises(FedatlasError, match="no attack of the audit begins with 'a guess'"):
        judged(results, "a guess")
    with pytest.raises(FedatlasError, match="needs the leaks"):
        judged(Results({}, {}, 0.1), "the sign")


def test_algebra_is_not_testable():
    (found,) = StudyValueTest(kind="beyond_data", reason="algebra").judge(Results({}, {}, 0.1))
    assert (found.outcome, found.evidence) == ("not testable", "algebra")
