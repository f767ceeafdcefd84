"""Attacks on claimed budgets: they find a loss that is known, and never more than a true one."""

import numpy as np
import pytest

from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.study_value import StudyValueTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.tables import read_attacks, to_csv
from fedatlas.privacy.accountants import PrivacyContext
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import PrivacyAudit
from fedatlas.studies.privacy_audit import attack, claimed_epsilon, tabulate_pairs

STATES = np.array([[0, 1.0, 0], [1, 0, 0], [0, 1, 0]])
TRACKERS = np.array([[0, 0, 1.0], [1, 0, 0], [0, 1, 0]])


def method(form, samples=1, state_noise=40.0, tracker_noise=20.0, horizon=30, **others):
    scheme = {
        "name": "constant",
        "alpha": 0.3,
        "beta": 0.3,
        "gamma": 0.3,
        "samples": samples,
        "state_noise_scale": state_noise,
        "tracker_noise_scale": tracker_noise,
    }
    clipping = "l1" if form == "provable" else "none"
    return DpGradientTracking(
        **{"scheme": scheme, "horizon": horizon, "form": form, "clipping": clipping} | others
    )


def attacked(algorithm, iterations=20, samples=1, curvature=0.0, runs=10_000, **options):
    """ε that are claimed, by accounting, and the lower bound that an attack shows."""
    sizes = {"iterations": iterations, "samples": samples, "curvature": curvature, "runs": runs}
    context = PrivacyContext(samples, 1, STATES, TRACKERS)
    claimed = claimed_epsilon(algorithm, context, iterations, abs(curvature))
    found = attack(algorithm, STATES, TRACKERS, **sizes, seed=3, **options)
    return claimed, found.lower_bound


@pytest.mark.parametrize("form", ["literal", "compact", "provable"])
def test_one_release_loses_what_is_claimed_and_the_attack_finds_it(form):
    # y_0 = g_0 alone is released with noise 1: Laplace's ε is exactly C/(m σ) = 1, and is reached.
    claimed, shown = attacked(method(form, tracker_noise=1.0), iterations=1)
    assert next(iter(claimed.values())) == pytest.approx(1.0)
    assert 0.85 < shown <= 1.0


def test_amplified_loss_of_one_release_is_found_too():
    # A quarter of the runs draw the sample: ln(1 + (e − 1)/4) = 0.357, against 1 without sampling.
    algorithm = method("provable", tracker_noise=1.0)
    claimed, shown = attacked(algorithm, iterations=1, samples=4, runs=100_000)
    amplified, fresh = claimed.values()
    assert amplified == pytest.approx(np.log1p(np.expm1(1) / 4)) and fresh == pytest.approx(1)
    assert 0.25 < shown <= amplified


@pytest.mark.parametrize(
    ("samples", "curvature"), [(1, 0.0), (3, 0.0), (1, 1.0), (3, -1.0), (1, -3.0)]
)
def test_the_provable_form_keeps_its_promise(samples, curvature):
    algorithm = method("provable", tracker_noise=2.0)
    claimed, shown = attacked(algorithm, samples=samples, curvature=curvature)
    assert shown <= min(claimed.values())


def test_bounds_that_leave_curvature_out_do_not_hold_where_there_is_some():
    # States grow apart by (1 + γ|h|)^k, of which no accounting of the paper knows.
    algorithm = method("compact", state_noise=160.0, tracker_noise=80.0)
    claimed, shown = attacked(algorithm, curvature=-1.0)
    assert shown > max(claimed.values())


@pytest.mark.parametrize("curvature", [0.0, -1.0, -6.0])
def test_a_bound_that_knows_the_curvature_holds(curvature):
    algorithm = method("literal", state_noise=160.0, tracker_noise=80.0)
    claimed, shown = attacked(algorithm, curvature=curvature)
    bound = claimed["Lemmas 2 and 3, with the curvature"]
    assert shown <= bound and bound >= claimed["Lemmas 2 and 3"]


def test_without_curvature_they_do():
    for form, own in (("literal", "form (4)/(6), by parts"), ("compact", "form (7)/(8)")):
        claimed, shown = attacked(method(form))
        assert shown <= claimed[own] <= claimed["Lemmas 2 and 3"]


def test_equal_data_tell_nothing_apart():
    # C = 1e-12 apart: no attack may find what is not there.
    assert attacked(method("compact", gradient_bound=1e-12))[1] < 0.05


def test_more_confidence_shows_less():
    algorithm = method("compact", tracker_noise=1.0)
    usual, sure = (attacked(algorithm, iterations=1, confidence=c)[1] for c in (0.95, 0.999))
    assert sure < usual


def test_the_attack_refuses_what_it_cannot_compute():
    with pytest.raises(FedatlasError, match="draws 1 of 2 samples"):
        attacked(method("compact"), samples=2)


def specification(form):
    return RunSpec.model_validate(
        {
            "paper": "dpgt",
            "experiment": "dpgt-audit",
            "run": form,
            "point": "only",
            "dataset": "digits",
            "split": "train",
            "partition": {"kind": "horizontal", "clients": 3},
            "graphs": {
                "states": {"kind": "edges", "edges": [[1, 0, 1], [0, 1, 1], [1, 2, 1]]},
                "trackers": {"kind": "directed_ring", "weights": "received"},
            },
            "objective": {"name": "cross_entropy", "model": "cnn_8x8"},
            "algorithm": "dp_gradient_tracking",
            "hyper_parameters": method(form, state_noise=160.0, tracker_noise=80.0).model_dump(),
            "rounds": 20,
            "record_every": 20,
            "seeds": [0],
        }
    )


def rows_of(form, **study):
    return tabulate_pairs([specification(form)], PrivacyAudit(**study))


@pytest.mark.parametrize("form", ["literal", "compact", "provable"])
def test_an_attack_never_shows_more_than_the_sum(form):
    rows = rows_of(form, samples=1, curvatures=(0.0, -3.0), runs=4000)
    for row in rows:
        assert row.known == "exact" and row.audited_epsilon <= row.pair_epsilon
    if form != "provable":  # and where a run of so many can show it, not much less
        assert rows[-1].audited_epsilon > 0.3 * min(rows[-1].pair_epsilon, 7)


def test_the_provable_form_loses_what_it_claims_and_no_more():
    for samples, known in ((1, 20 / 80), (4, 20 * np.log1p(np.expm1(1 / 80) / 4))):
        for row in rows_of("provable", samples=samples, curvatures=(0.0, -6.0)):
            assert row.pair_epsilon == pytest.approx(known) and row.known == "exact"
            assert row.verdict == "not refuted" and row.refuted_below is None
        assert row.runs is None and row.audited_epsilon is None


def test_from_which_curvature_on_claims_fail():
    for form, expected in (("literal", -2.7), ("compact", -0.5)):
        (row,) = (
            row for row in rows_of(form, curvatures=(0.0,)) if row.accounting == "Lemmas 2 and 3"
        )
        limit = row.refuted_below
        assert limit == pytest.approx(expected, abs=0.1) and row.refuted_above > 5
        for curvature, verdict in ((limit * 0.999, "not refuted"), (limit * 1.001, "does not")):
            first, *_ = rows_of(form, curvatures=(curvature,))
            assert first.verdict.startswith(verdict)


def test_sampling_hides_little_where_states_gather_what_was_drawn():
    (whole, *_), (sampled, *_) = (
        rows_of("compact", samples=samples, curvatures=(-3.0,)) for samples in (1, 10)
    )
    # Nearly all of the loss comes of a few draws: what is saved is their ln 10 each.
    assert sampled.claimed_epsilon == whole.claimed_epsilon
    assert 0.98 * whole.pair_epsilon < sampled.pair_epsilon < whole.pair_epsilon
    assert (sampled.samples, sampled.drawn, sampled.known) == (10, 1, "exact")


def test_table_and_verdicts(tmp_path):
    study = PrivacyAudit(samples=1, curvatures=(0.0, -2.0), remark_4=True, runs=4000)
    rows = tabulate_pairs([specification("compact")], study)
    assert len(rows) == 3 * 2  # losses by accountings
    path = tmp_path / "privacy-audit.csv"
    path.write_text(to_csv([row._asdict() for row in rows]))
    results = Results({}, {}, attacks=read_attacks(path))
    flat, curved, nonconvex = StudyValueTest(kind="audit_stands", run="compact").judge(results)
    assert flat.case == "curvature 0" and flat.outcome == "not testable"
    assert curved.case == "curvature -2" and curved.outcome == "contradicted"
    assert "Lemmas 2 and 3" in curved.evidence and "2000 runs" in curved.evidence
    assert "refute it at curvatures below -0." in flat.evidence
    assert nonconvex.case == "x² + 3 sin² x" and "at least" in nonconvex.evidence
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FedatlasError, match="expected the columns run, case"):
        read_attacks(path)


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ({"samples": 2}, "draws 2 of 1 samples"),
        ({"tracker_noise_scale": 0.0}, "without noise there is nothing to attack"),
    ],
)
def test_runs_that_cannot_be_attacked_are_refused(scheme, message):
    spec = specification("compact")
    scheme = {"scheme": spec.hyper_parameters["scheme"] | scheme}
    spec = spec.model_copy(update={"hyper_parameters": spec.hyper_parameters | scheme})
    with pytest.raises(FedatlasError, match=message):
        tabulate_pairs([spec], PrivacyAudit(samples=1, curvatures=(0.0,)))
