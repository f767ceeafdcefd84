"""The vertical oracle and the linear model below it: values, gradients, measurements."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import accuracy_score, mean_squared_error
from threadpoolctl import threadpool_limits

import reference_vertical as reference
from fedatlas.arithmetic.kernels.formulas import LinearModel
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.problem import PartyProblem
from fedatlas.federations.vertical.shards import PartyRows, PartySamples
from prepared_files import as_dense
from reference import PARTS, objective_of

WEIGHT = 0.1

every_objective = pytest.mark.parametrize("name", PARTS)
both_layouts = pytest.mark.parametrize("layout", ["dense", "sparse"])
few_examples = settings(max_examples=50, deadline=None, derandomize=True)


def make_rows(
    name: str, layout: str, n: int = 11, d: int = 6, seed: int = 0, parties: int = 3
) -> PartyRows:
    """Rows, some of them empty; ±1 labels where the loss needs them."""
    random = np.random.default_rng(seed)
    features = np.where(random.random((n, d)) < 0.7, random.normal(size=(n, d)), 0.0)
    features[0] = 0.0
    label = random.normal(size=n)
    if name.startswith("logistic"):
        label = np.where(label > 0, 1.0, -1.0)
    starts = np.linspace(0, d, parties + 1).astype(int)
    return PartyRows(sparse.csr_array(features) if layout == "sparse" else features, label, starts)


def problem_of(name: str, rows: PartyRows, test: PartyRows | None = None) -> PartyProblem:
    return PartyProblem(PartySamples(rows, test, {"dataset": "toy"}), objective_of(name))


# ----------------------------------------------------------------------- values and gradients


@every_objective
@both_layouts
@few_examples
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.0, 0.1, 1.0, 3.0]))
def test_value_gradient_and_derivatives_match_the_reference(name, layout, seed, scale):
    rows = make_rows(name, layout, seed=seed)
    w = scale * np.random.default_rng(seed + 1).normal(size=6)
    loss, regulariser = PARTS[name]
    X, y, problem = as_dense(rows), rows.label, problem_of(name, rows)
    rest = (loss, regulariser, WEIGHT)
    value, gradient = LinearModel(rows.features, y, objective_of(name)).value_and_gradient(w)
    assert value == pytest.approx(reference.objective(X, y, w, *rest), rel=1e-13)
    expected = reference.gradient(X, y, w, *rest)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-13)
    measured = problem.measure(w)
    assert measured["objective"] == value
    assert measured["gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-12)
    derivatives = problem.derivatives(X @ w)
    expected = [reference.loss_derivative(loss, *pair) for pair in zip(X @ w, y, strict=True)]
    np.testing.assert_allclose(derivatives, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(
        problem.data_gradient(derivatives),
        reference.data_gradient(X, y, w, loss),
        rtol=1e-12,
        atol=1e-14,
    )


@pytest.mark.parametrize("name", ["logistic_l2", "logistic_nonconvex"])
def test_margins_of_any_size_neither_overflow_nor_vanish_early(name):
    rows = PartyRows(np.ones((2, 1)), np.array([1.0, -1.0]), np.array([0, 1]))
    model = LinearModel(rows.features, rows.label, objective_of(name))
    for margin in (0.0, 30.0, 700.0, 1e4, 1e300):
        with np.errstate(all="raise"):
            total, slopes = model.losses(np.array([margin, margin]))
        assert total == pytest.approx(margin + 2 * np.log1p(np.exp(-margin)))
        assert slopes[1] == pytest.approx(1 / (1 + np.exp(-margin)))
        assert slopes[0] == pytest.approx(-np.exp(-min(margin, 700)) / (1 + np.exp(-margin)))


@both_layouts
def test_smoothness_is_that_of_the_longest_row(layout):
    """test_problems.py has the constants of all objectives."""
    rows = make_rows("ridge_regression", layout)
    longest = (as_dense(rows) ** 2).sum(axis=1).max()
    assert problem_of("ridge_regression", rows).smoothness == pytest.approx(2 * longest + WEIGHT)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="BLAS has one thread only")
def test_gradients_do_not_depend_on_threads():
    # The mean of SVRG and SAGA; margins only decide what is measured.
    rows = make_rows("ridge_regression", "dense", n=24_000, d=90)
    problem = problem_of("ridge_regression", rows)
    gradients = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            gradients.append(problem.data_gradient(rows.label))
    np.testing.assert_array_equal(*gradients)


# ------------------------------------------------------------------------------- measurements


@every_objective
@pytest.mark.parametrize("layouts", list(itertools.product(["dense", "sparse"], repeat=2)))
def test_measurements_match_scikit_learn(name, layouts):
    rows = make_rows(name, layouts[0], n=40)
    test = make_rows(name, layouts[1], n=25, seed=1)
    problem = problem_of(name, rows, test)
    assert problem.samples == 40
    assert problem.dimension == 6
    for seed in range(3):
        w = np.random.default_rng(seed).normal(size=6)
        measured = problem.measure(w)
        for split, part in (("train", rows), ("test", test)):
            margins = as_dense(part) @ w
            if name.startswith("logistic"):
                told = np.where(margins > 0, 1.0, -1.0)
                assert measured[f"{split}_accuracy"] == accuracy_score(part.label, told)
            else:
                expected = mean_squared_error(part.label, margins) ** 0.5
                assert measured[f"{split}_rmse"] == pytest.approx(expected, rel=1e-13)
        kind = "accuracy" if name.startswith("logistic") else "rmse"
        assert set(measured) == {
            "objective", "gradient_norm", f"train_{kind}", f"test_{kind}",
        }  # fmt: skip


@every_objective
def test_without_test_rows_none_are_measured(name):
    measured = problem_of(name, make_rows(name, "dense")).measure(np.zeros(6))
    assert not [key for key in measured if key.startswith("test")]


def test_at_zero_everything_is_told_negative():
    rows = make_rows("logistic_l2", "dense", n=30)
    measured = problem_of("logistic_l2", rows).measure(np.zeros(6))
    assert measured["train_accuracy"] == (rows.label < 0).mean()
    assert measured["objective"] == pytest.approx(np.log(2))


# ----------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("name", ["logistic_l2", "logistic_nonconvex"])
@pytest.mark.parametrize("label", [0.0, 2.0, 0.5, np.nan])
@pytest.mark.parametrize("split", ["train", "test"])
def test_labels_other_than_plus_and_minus_one_are_refused(name, label, split):
    rows = {"train": make_rows(name, "dense"), "test": make_rows(name, "dense", seed=1)}
    rows[split].label[4] = label
    message = rf"objective '{name}' needs labels ±1, but data set 'toy' has others, such as"
    with pytest.raises(FedatlasError, match=message) as caught:
        problem_of(name, rows["train"], rows["test"])
    assert str(label).removesuffix(".0") in str(caught.value)


@pytest.mark.parametrize("name", ["ridge_regression", "robust_regression"])
def test_regression_takes_any_labels_and_tells_classes(name):
    rows = make_rows(name, "dense")
    assert "train_rmse" in problem_of(name, rows).measure(np.zeros(6))
    rows.label[:] = np.where(rows.label > 0, 1.0, -1.0)
    assert "train_accuracy" in problem_of(name, rows).measure(np.zeros(6))
