"""The best constant predictor, and verdicts on runs that are no better."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, f1_score, log_loss, mean_squared_error, roc_auc_score

from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.constants import ConstantRow, Constants, read_constants
from fedatlas.schema.models import validated
from fedatlas.schema.objectives import Objective
from fedatlas.schema.partitions import Partition
from fedatlas.shards.writing import write_shards
from fedatlas.studies.constants import Predictor, best_constants, tabulate_constants
from judging import verdict, verdicts
from prepared_files import write_prepared
from trace_factory import auroc_trace, make_trace, vertical_trace

quick = settings(max_examples=40, deadline=None)
SIGNS = st.lists(st.sampled_from([-1.0, 1.0]), min_size=2, max_size=30).map(np.array)
NUMBERS = st.lists(st.floats(-4, 4).map(lambda x: round(x, 2)), min_size=3, max_size=20)


def objective(name: str, **keys: Any) -> Any:
    return validated(Objective, {"name": name} | keys, "here")  # type: ignore[type-var]


def constants_of(loss: Any, label: np.ndarray, test: Any = ()) -> dict[str, float]:
    return best_constants(loss, label, np.full(len(label), 1 / len(label)), np.array(test))


def dummies(label: np.ndarray) -> list[np.ndarray]:
    """The predictions of every constant classifier."""
    x = np.zeros((len(label), 1))
    return [
        DummyClassifier(strategy="constant", constant=int(each)).fit(x, label).predict(x)
        for each in np.unique(label)
    ]


@quick
@given(SIGNS, SIGNS)
def test_no_constant_classifier_is_better(label, test):
    found = constants_of(objective("binary_cross_entropy", model="linear"), label, test)
    for rows, own in (("train", label), ("test", test)):
        guesses = [*dummies(own), np.ones(len(own))]
        best = max(accuracy_score(own, guess) for guess in guesses)
        assert found[f"{rows}_accuracy"] == pytest.approx(best)
        best = max(f1_score(own, guess, zero_division=0) for guess in guesses)
        assert found[f"{rows}_f1"] == pytest.approx(best)
        if len({*own}) == 2:
            assert found[f"{rows}_auroc"] == roc_auc_score(own, np.zeros(len(own)))
    x = np.zeros((len(label), 1))
    shares = DummyClassifier(strategy="prior").fit(x, label).predict_proba(x)
    expected = log_loss(label, shares, labels=np.unique(label)) if len({*label}) == 2 else 0
    assert found["objective"] == pytest.approx(expected, abs=1e-12)
    assert constants_of(objective("logistic_l2", weight=0.1), label)["objective"] == (
        pytest.approx(found["objective"])
    )


@quick
@given(st.lists(st.integers(0, 8), min_size=8, max_size=30).map(np.array))
def test_top_5_accuracy_is_that_of_the_best_five_classes(label):
    found = constants_of(objective("cross_entropy", model="linear"), label.astype(float))
    classes = np.unique(label)
    assert ("train_top5_accuracy" in found) == (len(classes) > 5)
    if len(classes) > 5:
        best = max(np.isin(label, five).mean() for five in combinations(classes, 5))
        assert found["train_top5_accuracy"] == pytest.approx(best)


@quick
@given(NUMBERS.map(np.array))
def test_no_constant_number_is_nearer(label):
    x = np.zeros((len(label), 1))
    guess = DummyRegressor().fit(x, label).predict(x)
    found = constants_of(objective("ridge_regression", weight=0.1), label)
    if not np.isin(label, (-1.0, 1.0)).all():
        assert found["train_rmse"] == pytest.approx(mean_squared_error(label, guess) ** 0.5)
    assert found["objective"] == pytest.approx(mean_squared_error(label, guess), abs=1e-12)
    of_network = constants_of(objective("squared_error", model="linear"), label)
    assert of_network["objective"] == found["objective"]
    assert of_network["train_rmse"] == pytest.approx(mean_squared_error(label, guess) ** 0.5)
    robust = constants_of(objective("robust_regression"), label)["objective"]
    dense = np.linspace(label.min(), label.max(), 20_001)[:, None]
    best = np.log1p((dense - label) ** 2 / 2).mean(axis=1).min()
    assert best - 1e-6 <= robust <= best + 1e-9


SHARED_OUT = {
    "horizontal": {"clients": 7, "assignment": "by_class"},
    "vertical": {"parties": 3, "active": 1},
    "tiered": {"cut": {"columns": 2}, "clients": 4},
}


@pytest.mark.parametrize("kind", SHARED_OUT)
def test_labels_are_those_of_the_shards(tmp_path, kind):
    """By seed where splits differ; a mean over clients counts the rows of small ones for more."""
    random = np.random.default_rng(3)
    label = np.where(random.random(61) < 0.3, 1.0, -1.0)
    samples = Samples(np.arange(61), label, random.normal(size=(61, 4)))
    write_prepared(tmp_path / "train.parquet", samples)
    shards = {}
    for seed in range(4):
        spec = validated(
            Partition,  # type: ignore[type-var]
            {"kind": kind, "test": 0.25, "seed": seed} | SHARED_OUT[kind],
            "here",
        )
        folder = tmp_path / "shards" / str(seed)
        folder.mkdir(parents=True)
        files = [folder / f"silo-{number}.parquet" for number in range(spec.silos)]
        write_shards(tmp_path / "train.parquet", spec, files, folder / "manifest.json")
        shards[seed] = f"{seed}/silo-0.parquet"
    run = Predictor(
        shards=shards,
        objective=objective("logistic_l2", weight=0.1),
        over_clients=kind == "horizontal",
    )
    tabulate_constants({"a": run}, tmp_path / "shards", tmp_path / "constants.csv")
    found = read_constants(tmp_path / "constants.csv")
    train, test = (found.of("a", f"{rows}_accuracy", range(4)) for rows in ("train", "test"))
    assert train is not None and test is not None and found.of("b", "objective", [0]) is None
    held = 61 - round(0.25 * 61)
    negatives = int((label < 0).sum())
    # The share of -1 in both parts of any split adds up to that of all rows.
    np.testing.assert_allclose(train * held + test * (61 - held), negatives)
    assert len({*train}) > 1
    entropy = -(train * np.log(train) + (1 - train) * np.log(1 - train))
    own = found.of("a", "objective", range(4))
    assert np.allclose(own, entropy) == (kind != "horizontal")


def known(run: str = "a", **values: float) -> Constants:
    return Constants([ConstantRow(run, name, value) for name, value in values.items()])


def test_other_seeds_than_the_tables_have_the_median():
    rows = [ConstantRow("a", "test_f1", value, seed) for seed, value in enumerate((0.1, 0.3, 0.5))]
    found = Constants(rows).of("a", "test_f1", [2, 0, 9])
    assert found is not None and found.tolist() == [0.5, 0.1, 0.3]


def flat(objective: float, start: float = 0.693) -> Any:
    """Six seeds whose objective falls from the start; it is the gradient's square."""
    ends = np.full(6, objective) + 1e-3 * np.arange(6)
    return make_trace(np.sqrt(np.linspace(np.full(6, start), ends, 5).T))


@pytest.mark.parametrize(
    ("end", "constant", "outcome"),
    [
        (0.25, 0.443, "reproduced"),
        (0.397, 0.443, "undecided"),  # the border, 0.443/1.11, is 0.399
        (0.43, 0.443, "not testable"),
        (0.50, 0.443, "not testable"),  # falls, but not even as far as a constant
        (0.50, 2.0, "reproduced"),
        (0.68, 0.443, "smaller than claimed"),  # whatever a constant has
    ],
)
def test_what_converges_gets_further_than_a_constant(end, constant, outcome):
    test = {"kind": "falls", "run": "a", "smallest_effect": 1.11}
    found = verdict(test, constants=known(objective=constant), a=flat(end))
    assert found.outcome == outcome
    assert ("best constant predictor 0.443" in found.evidence) == (
        constant < 0.6 and outcome != "smaller than claimed"
    )
    if outcome == "not testable":
        assert verdict(test, a=flat(end)).outcome == "reproduced"  # nothing is known


def test_what_diverges_is_not_held_against_a_constant():
    test = {"kind": "diverges", "run": "a", "smallest_effect": 1.05}
    assert verdict(test, constants=known(objective=0.4), a=flat(0.9)).outcome == "reproduced"


@pytest.mark.parametrize(("constant", "outcome"), [(0.85, "reproduced"), (0.93, "not testable")])
def test_a_better_run_must_be_better_than_a_constant(constant, outcome):
    test = {"kind": "better_final", "first": "a", "second": "b", "measurement": "test_auroc"}
    runs = {"a": auroc_trace([[0.5, 0.93]] * 6), "b": auroc_trace([[0.5, 0.9]] * 6)}
    found = verdict(test, selected_by="train_auroc", constants=known(test_auroc=constant), **runs)
    assert found.outcome == outcome and f"best constant predictor {constant}" in found.evidence
    # What is lost is lost, however little was learnt.
    lost = test | {"first": "b", "second": "a"}
    assert verdict(lost, selected_by="train_auroc", constants=known(), **runs).outcome == (
        "contradicted"
    )


@pytest.mark.parametrize(
    ("constant", "outcome"),
    [(0.85, "contradicted"), (0.92, "contradicted"), (0.93, "not testable")],
)
def test_two_runs_that_learnt_nothing_are_not_compared(constant, outcome):
    test = {"kind": "better_final", "first": "a", "second": "b", "measurement": "test_auroc"}
    runs = {
        name: auroc_trace([[0.5, end]] * 6, run=name) for name, end in (("a", 0.9), ("b", 0.93))
    }
    constants = Constants([ConstantRow(name, "test_auroc", constant) for name in runs])
    found = verdict(test, selected_by="train_auroc", constants=constants, **runs)
    assert found.outcome == outcome
    assert ("no better than a constant: a, b" in found.evidence) == (outcome == "not testable")


@pytest.mark.parametrize(("settled", "outcome"), [(False, "reproduced"), (True, "not testable")])
def test_what_runs_come_to_in_the_end_is_that_of_runs_which_learnt(settled, outcome):
    test = {"kind": "order", "first": "a", "second": "b", "relation": "faster"}
    test |= {"measurement": "objective", "cost": "round", "settled": settled}
    constants = Constants([ConstantRow(name, "objective", 0.443) for name in "ab"])
    found = verdict(test, constants=constants, a=flat(0.25), b=flat(0.44))
    assert found.outcome == outcome


@pytest.mark.parametrize(("constant", "outcome"), [(0.7, "reproduced"), (0.95, "not testable")])
def test_what_is_shown_of_a_run_that_converges_must_be_better_too(constant, outcome):
    """Its objective falls far below that of a constant."""
    test = {"kind": "falls", "run": "a", "smallest_effect": 1.05, "shown": "train_accuracy"}
    constants = Constants(
        [ConstantRow("a", "objective", 0.6), ConstantRow("a", "train_accuracy", constant)]
    )
    found = verdict(test, constants=constants, a=flat(0.25))
    assert found.outcome == outcome and f"best constant predictor {constant}" in found.evidence


@pytest.mark.parametrize(("constant", "outcome"), [(0.5, "reproduced"), (0.31, "not testable")])
def test_a_target_must_lie_beyond_a_constant(constant, outcome):
    """The objective is 0.3 more than the sub-optimality, and so is f* known: a target of 0.01."""
    falling = np.tile(np.logspace(-1, -6, 21), (6, 1))
    runs = {"a": vertical_trace(falling**1.5), "b": vertical_trace(falling)}
    test = {
        "kind": "cost_to_target",
        "first": "a",
        "second": "b",
        "relation": "faster",
        "measurement": "suboptimality",
        "target": 0.01,
        "cost": "update_epoch",
    }
    found = verdict(test, selected_by="objective", constants=known(objective=constant), **runs)
    assert found.outcome == outcome
    if outcome == "not testable":
        assert "≤ 0.01 is reached by predicting a constant, which has 0.01" in found.evidence


def test_a_model_that_is_worse_than_a_constant_at_best_has_no_constant_to_beat():
    """Without an intercept f* may lie above what a constant has."""
    falling = np.tile(np.logspace(-1, -6, 21), (6, 1))
    test = {"kind": "falls", "run": "a", "measurement": "suboptimality", "smallest_effect": 2}
    found = verdicts(
        test,
        selected_by="objective",
        constants=known(objective=0.2),
        a=vertical_trace(falling),
    )
    assert found[0].outcome == "reproduced" and "constant" not in found[0].evidence


def test_printed_accuracies_stand_beside_a_constant():
    test = {"kind": "published_measurement", "run": "a", "measurement": "test_auroc", "value": 0.9}
    trace = auroc_trace(np.linspace([0.5] * 6, 0.9 + 1e-3 * np.arange(6), 3).T)
    found = verdict(test, selected_by="train_auroc", constants=known(test_auroc=0.93), a=trace)
    assert "published 0.9 of 1 trial; best constant predictor 0.93" in found.evidence


def test_a_table_that_is_none_is_named(tmp_path: Path):
    (tmp_path / "constants.csv").write_text("run,value\na,1\n")
    with pytest.raises(FedatlasError, match=r"constants\.csv: expected the columns"):
        read_constants(tmp_path / "constants.csv")
