"""Attacks on claimed budgets: they find a loss that is known, and never more than a true one."""

import numpy as np
import pytest

from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.audit_stands import AuditStandsTest, read_audit
from fedatlas.evaluation.comma_separated import to_csv
from fedatlas.evaluation.results import Results
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import PrivacyAudit
from fedatlas.studies.attacks import attack, tabulate_attacks

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


def attacked(algorithm, **options):
    defaults = {"iterations": 20, "samples": 1, "curvature": 0.0, "runs": 10_000, "seed": 3}
    return attack(algorithm, STATES, TRACKERS, **defaults | options)


@pytest.mark.parametrize("form", ["literal", "compact", "provable"])
def test_one_release_loses_what_is_claimed_and_the_attack_finds_it(form):
    # y_0 = g_0 alone is released with noise 1: Laplace's ε is exactly C/(m σ) = 1, and is reached.
    found = attacked(method(form, tracker_noise=1.0), iterations=1)
    assert next(iter(found.claimed.values())) == pytest.approx(1.0)
    assert 0.85 < found.lower_bound <= 1.0


def test_amplified_loss_of_one_release_is_found_too():
    # A quarter of the runs draw the sample: ln(1 + (e − 1)/4) = 0.357, against 1 without sampling.
    found = attacked(method("provable", tracker_noise=1.0), iterations=1, samples=4, runs=100_000)
    amplified, fresh = found.claimed.values()
    assert amplified == pytest.approx(np.log1p(np.expm1(1) / 4)) and fresh == pytest.approx(1)
    assert 0.25 < found.lower_bound <= amplified


@pytest.mark.parametrize(
    ("samples", "curvature"), [(1, 0.0), (3, 0.0), (1, 1.0), (3, -1.0), (1, -3.0)]
)
def test_the_provable_form_keeps_its_promise(samples, curvature):
    algorithm = method("provable", tracker_noise=2.0)
    found = attacked(algorithm, samples=samples, curvature=curvature)
    assert found.lower_bound <= min(found.claimed.values())


def test_bounds_that_leave_curvature_out_do_not_hold_where_there_is_some():
    # States grow apart by (1 + γ|h|)^k, of which no accounting of the paper knows.
    found = attacked(method("compact", state_noise=160.0, tracker_noise=80.0), curvature=-1.0)
    assert found.lower_bound > max(found.claimed.values())


@pytest.mark.parametrize("curvature", [0.0, -1.0, -6.0])
def test_a_bound_that_knows_the_curvature_holds(curvature):
    algorithm = method("literal", state_noise=160.0, tracker_noise=80.0)
    found = attacked(algorithm, curvature=curvature)
    bound = found.claimed["Lemmas 2 and 3, with the curvature"]
    assert found.lower_bound <= bound
    assert bound >= found.claimed["Lemmas 2 and 3"]


def test_without_curvature_they_do():
    for form in ("literal", "compact"):
        found = attacked(method(form))
        own = "form (7)/(8)" if form == "compact" else "form (4)/(6), by parts"
        assert found.lower_bound <= found.claimed[own] <= found.claimed["Lemmas 2 and 3"]


def test_equal_data_tell_nothing_apart():
    # C = 1e-12 apart: no attack may find what is not there.
    found = attacked(method("compact", gradient_bound=1e-12))
    assert found.lower_bound < 0.05


def test_more_confidence_shows_less():
    algorithm = method("compact", tracker_noise=1.0)
    usual, sure = (attacked(algorithm, iterations=1, confidence=c) for c in (0.95, 0.999))
    assert sure.lower_bound < usual.lower_bound


def test_the_attack_refuses_what_it_cannot_compute():
    with pytest.raises(FedatlasError, match="without noise there is nothing to attack"):
        attacked(method("compact", tracker_noise=0.0))
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


def test_table_and_verdicts(tmp_path):
    study = PrivacyAudit(samples=1, curvatures=(0.0, -2.0), runs=4000)
    rows = tabulate_attacks([specification("compact")], study)
    assert len(rows) == 2 * 2  # curvatures by accountings
    path = tmp_path / "privacy-audit.csv"
    path.write_text(to_csv(rows))
    results = Results({}, {}, 0.1, attacks=read_audit(path))
    flat, curved = AuditStandsTest(kind="audit_stands", run="compact").judge(results)
    assert flat.case == "curvature 0" and flat.outcome == "not testable"
    assert curved.case == "curvature -2" and curved.outcome == "contradicted"
    assert "Lemmas 2 and 3" in curved.evidence and "true ε ≥" in curved.evidence
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FedatlasError, match="expected the columns run, curvature"):
        read_audit(path)
