"""What passive parties of VFB² learn: labels from ϑ, margins from ϑ, shares by collusion."""

from math import comb, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.arithmetic.kernels import formulas
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.study_value import StudyValueTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.tables import read_leaks, to_csv
from fedatlas.schema.losses import Loss
from fedatlas.schema.objectives import LinearObjective
from fedatlas.studies.leaks import (
    derivatives,
    find_collusion,
    find_leaks,
    labels_at_zero,
    labels_from_first_snapshot,
    labels_from_sign,
    scores_from_derivative,
)

N = 20_000
SIGNS = st.sampled_from([-1.0, 1.0])


def random_signs(share: float = 0.3) -> np.ndarray:
    return np.where(np.random.default_rng(1).random(N) < share, 1.0, -1.0)


def random_margins(scale: float = 3.0) -> np.ndarray:
    return np.random.default_rng(2).normal(0, scale, N)


def zero_margin(loss: Loss, labels: np.ndarray) -> np.ndarray:
    return derivatives(loss, np.zeros(len(labels)), labels)


@pytest.mark.parametrize("loss", [Loss.SQUARE, Loss.ROBUST, Loss.LOGISTIC])
def test_derivatives_are_those_that_training_sends(loss: Loss):
    margins, labels = random_margins(20)[:500], random_signs()[:500]
    if loss is not Loss.LOGISTIC:
        labels = labels * np.linspace(0, 9, 500)
    code = formulas.loss_code(loss)
    trained = [
        formulas.loss_derivative.py_func(code, z, y) for z, y in zip(margins, labels, strict=True)
    ]
    np.testing.assert_allclose(derivatives(loss, margins, labels), trained, rtol=1e-14, atol=0)


def test_a_loss_that_no_attack_knows_is_refused_and_not_taken_for_another():
    unknown = SimpleNamespace(name="HUBER")
    with pytest.raises(FedatlasError, match="HUBER"):
        derivatives(unknown, np.zeros(1), np.ones(1))


# --- the sign of ϑ ---


@given(SIGNS, st.floats(-1e4, 1e4))
def test_the_sign_tells_every_label_of_the_logistic_loss(label: float, margin: float):
    """Errata VF-1, also where ϑ underflows."""
    labels = np.array([label])
    assert labels_from_sign(derivatives(Loss.LOGISTIC, np.array([margin]), labels), labels) == 1


@pytest.mark.parametrize("loss", [Loss.SQUARE, Loss.ROBUST])
def test_the_sign_tells_little_of_a_good_regression(loss: Loss):
    random = np.random.default_rng(3)
    labels = random.random(N)
    margins = labels + random.normal(0, 0.05, N)
    assert labels_from_sign(derivatives(loss, margins, labels), labels) == pytest.approx(
        0.5, abs=0.02
    )
    # Against ±1 labels a random model leaves something to the sign, but not all.
    told = labels_from_sign(derivatives(loss, random_margins(), random_signs()), random_signs())
    assert 0.55 < told < 0.75


def test_labels_that_are_all_one_sign_are_compared_as_they_are():
    labels = np.ones(4)
    assert labels_from_sign(derivatives(Loss.LOGISTIC, np.zeros(4), labels), labels) == 1


# --- the size of ϑ ---


def test_the_size_tells_every_margin_of_the_logistic_loss():
    margins, labels = random_margins(), random_signs()
    told = scores_from_derivative(derivatives(Loss.LOGISTIC, margins, labels))
    assert np.abs(told - margins).max() < 1e-8


@given(SIGNS, st.floats(-1e4, 1e4))
def test_margins_are_told_as_far_as_rounding_of_the_derivative_allows(label: float, margin: float):
    z = np.array([margin])
    (told,) = scores_from_derivative(derivatives(Loss.LOGISTIC, z, np.array([label])))
    if label * margin > 746 or label * margin < -38:
        assert told == np.copysign(np.inf, margin)
    elif -36 < label * margin < 700:
        # |ϑ| is rounded by half a unit in its last place: 1 - |ϑ| = 1/(1 + e^{-yz}) feels it.
        error = 1e-15 * max(np.exp(-label * margin), 1 + abs(margin))
        assert told == pytest.approx(margin, rel=0, abs=3 * error)


# --- all ϑ at the start ---


@given(st.floats(-sqrt(2), sqrt(2)))
def test_the_start_tells_labels_of_every_loss(label: float):
    labels = np.array([label])
    assert labels_at_zero(Loss.SQUARE, zero_margin(Loss.SQUARE, labels)) == labels
    (told,) = labels_at_zero(Loss.ROBUST, zero_margin(Loss.ROBUST, labels))
    # The derivative of ϑ with respect to y is zero at √2.
    assert told == pytest.approx(label, rel=0, abs=1e-9 if abs(label) < 1.41 else 1e-7)
    sign = np.array([1.0 if label > 0 else -1.0])
    assert labels_at_zero(Loss.LOGISTIC, zero_margin(Loss.LOGISTIC, sign)) == sign


@given(st.floats(1.5, 1e6), SIGNS)
def test_beyond_root_two_the_robust_loss_tells_the_label_or_two_over_it(size: float, sign: float):
    labels = np.array([sign * size])
    (told,) = labels_at_zero(Loss.ROBUST, zero_margin(Loss.ROBUST, labels))
    assert told == pytest.approx(2 / labels[0], rel=1e-9)


@pytest.mark.parametrize("loss", Loss)
def test_the_first_snapshot_discloses_all_labels(loss: Loss):
    labels = random_signs() if loss is Loss.LOGISTIC else np.random.default_rng(4).random(N)
    share, rmse = labels_from_first_snapshot(loss, zero_margin(loss, labels), labels)
    assert share == 1
    assert rmse < 1e-12


def test_recovery_counts_what_is_not_recovered():
    labels = np.array([0.5, 1.0, 2.0, 4.0])
    share, rmse = labels_from_first_snapshot(Loss.ROBUST, zero_margin(Loss.ROBUST, labels), labels)
    assert share == 0.5
    assert rmse == pytest.approx(sqrt((1**2 + 3.5**2) / 4))


# --- collusion ---


@pytest.mark.parametrize("parties", [3, 4, 5, 8, 12])
def test_one_party_alone_unmasks_nothing(parties: int):
    alone, pairs, *_ = found = list(find_collusion(parties))
    most = parties - 1 if parties <= 8 else 3
    for size, finding in enumerate(found, 1):
        assert f"the {comb(parties, size)} groups" in finding.measured
    assert len(found) == most
    assert (alone.value, alone.verdict) == (0, "stands") and "at most 0 shares" in alone.measured
    assert pairs.value > 0


def test_two_pairs_of_four_parties_unmask_the_other_two():
    """The paper's parties 2 and 3, and 1 and 4; with other roots other pairs succeed, by hand."""
    alone, pairs, triples = find_collusion(4)
    assert (alone.value, pairs.value, triples.value) == (0, 2 / 6, 1)
    assert "at most 2 shares" in pairs.measured
    assert "(0 and 3 unmask 1 and 2 in sums of 0)" in pairs.learns
    _, all_roots, *_ = find_collusion(4, active=4)
    assert all_roots.value == 4 / 6


def test_unmasked_shares_tell_the_only_feature_of_a_party():
    """Where a share is unmasked, as between two parties, Lemma 1 does not protect features.

    ϑ and i of every update are known, so the weight is w = Σ c_i x_i with known c. The shares
    o = w x then give w² = Σ c_i o_i, and x = o / w, up to the sign of w.
    """
    random, step, weight = np.random.default_rng(6), 0.1, 1e-4
    hidden, own, labels = random.normal(size=300), random.normal(size=300), random_signs()[:300]
    w, v, c = 0.0, 0.0, np.zeros(300)
    for i in random.integers(300, size=2000):
        (sent,) = derivatives(Loss.LOGISTIC, w * hidden[[i]] + v * own[[i]], labels[[i]])
        w -= step * (sent * hidden[i] + weight * w)
        v -= step * (sent * own[i] + weight * v)
        c = (1 - step * weight) * c
        c[i] -= step * sent
    snapshot = derivatives(Loss.LOGISTIC, w * hidden + v * own, labels)
    shares = scores_from_derivative(snapshot) - v * own
    told = shares / sqrt(c @ shares)
    assert np.abs(told - np.copysign(1, w) * hidden).max() < 1e-11


# --- the audit ---


def by_attack(objective: LinearObjective, labels, margins, parties=8, active=3, start=None):
    start = np.zeros(len(labels)) if start is None else start
    findings = find_leaks(objective, labels, start, margins, parties, active)
    return {f"{f.attack.split(',')[0]}: {f.who}": f for f in findings}


def test_the_logistic_loss_hides_neither_labels_nor_margins():
    objective = LinearObjective(name="logistic_l2", weight=1e-4)
    found = by_attack(objective, random_signs(), random_margins())
    verdicts = {attack: (finding.value, finding.verdict) for attack, finding in found.items()}
    sign, size, start = (
        "the sign of ϑ: any passive party",
        "the size of ϑ: any passive party",
        "ϑ of all samples at the start: any passive party",
    )
    assert verdicts[sign] == (1, "does not stand")
    assert "0.697" in found[sign].measured
    assert verdicts[size][0] < 1e-8
    assert verdicts[size][1] == "does not stand"
    assert verdicts[start] == (1, "does not stand")
    seen = "what was seen of a secure sum: "
    assert verdicts[f"{seen}one party alone"] == (0, "stands")
    assert verdicts[f"{seen}2 colluding parties"] == (5 / 28, "stands")
    assert verdicts[f"{seen}7 colluding parties"] == (1, "stands")
    assert len(found) == 10


@pytest.mark.parametrize("name", ["robust_regression", "ridge_regression"])
def test_regression_gives_labels_away_at_the_start_only(name):
    objective = LinearObjective(name=name, weight=1e-4 if name == "ridge_regression" else None)
    random = np.random.default_rng(5)
    labels = random.random(N)
    margins = labels + random.normal(0, 0.05, N)
    found = by_attack(objective, labels, margins)
    start = "ϑ of all samples at the start: any passive party"
    assert found["the sign of ϑ: any passive party"].verdict == "stands"
    assert found[start].verdict == "does not stand"
    assert not any("the size" in attack for attack in found)
    moved = by_attack(objective, labels, margins, start=random.normal(0, 1, N))
    assert moved[start].verdict == "stands"


def test_two_parties_have_no_secret_share():
    objective = LinearObjective(name="robust_regression")
    found = by_attack(objective, np.ones(2), np.zeros(2), parties=2, active=1)
    alone = found["what was seen of a secure sum: one party alone"]
    assert (alone.value, alone.verdict) == (1, "does not stand")
    with pytest.raises(FedatlasError, match="parties: 1"):
        by_attack(objective, np.ones(2), np.zeros(2), parties=1, active=1)


def test_margins_beyond_float64_are_left_out_and_counted():
    objective = LinearObjective(name="logistic_l2", weight=1e-4)
    found = by_attack(objective, np.ones(3), np.array([2.0, 800.0, -50.0]))
    size = found["the size of ϑ: any passive party"]
    assert size.value < 1e-14
    assert "1 of 3 samples" in size.measured


# --- claims about what parties learn ---


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Results:
    draw = np.random.default_rng(0)
    labels = np.where(draw.random(50) < 0.5, 1.0, -1.0)
    objective = LinearObjective(name="logistic_l2", weight=1e-4)
    found = find_leaks(objective, labels, 0 * labels, draw.normal(size=50), 4, 2)
    path = tmp_path_factory.mktemp("leaks") / "leaks.csv"
    path.write_text(to_csv([finding._asdict() for finding in found]))
    return Results({}, {}, leaks=read_leaks(path))


def judged(results: Results, attack: str, who: str = ""):
    return list(StudyValueTest(kind="leak_stands", attack=attack, who=who).judge(results))


def test_a_successful_attack_contradicts(results):
    (sign,) = judged(results, "the sign of ϑ")
    assert sign.outcome == "contradicted" and sign.case == "" and ": 1, share" in sign.evidence


def test_a_failed_attack_shows_nothing(results):
    (alone,) = judged(results, "what was seen of a secure sum", "one party")
    assert alone.outcome == "not testable" and "an attack can only refute" in alone.evidence


def test_several_attackers_are_cases(results):
    found = judged(results, "what was seen of a secure sum")
    assert [finding.case for finding in found][:2] == ["one party alone", "2 colluding parties"]


def test_attacks_by_the_same_parties_are_cases_by_their_names(results):
    rows = [
        row | {"attack": f"{row['attack']}, {how}", "who": "two parties"}
        for row in results.leaks[:1]
        for how in ("once", "twice")
    ]
    found = judged(Results({}, {}, leaks=rows), rows[0]["attack"].removesuffix(", once"))
    assert [finding.case for finding in found] == [row["attack"] for row in rows]


def test_an_attack_that_the_audit_lacks_is_named(results):
    with pytest.raises(FedatlasError, match="no attack of the audit begins with 'a guess'"):
        judged(results, "a guess")
    with pytest.raises(FedatlasError, match="needs the study 'leaks'"):
        judged(Results({}, {}), "the sign")


def test_algebra_is_not_testable():
    (found,) = StudyValueTest(kind="beyond_data", reason="algebra").judge(Results({}, {}))
    assert (found.outcome, found.evidence) == ("not testable", "algebra")
