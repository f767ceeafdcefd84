"""Optima: against scikit-learn and closed forms, with a true bound of the gap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import reference_vertical as reference
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import Optimum, read_optimum, write_optimum
from fedatlas.training.solver import ACCURACY, solve

both_layouts = pytest.mark.parametrize("layout", ["dense", "sparse"])
few_examples = settings(max_examples=30, deadline=None, derandomize=True)


def make_rows(
    layout: str, n: int = 60, d: int = 8, seed: int = 0, labels: str = "classes"
) -> PartyRows:
    random = np.random.default_rng(seed)
    features = np.where(random.random((n, d)) < 0.6, random.normal(size=(n, d)), 0.0)
    score = features @ random.normal(size=d) + random.normal(size=n)
    label = np.where(score > 0, 1.0, -1.0) if labels == "classes" else score
    starts = np.array([0, d // 2, d])
    return PartyRows(sparse.csr_array(features) if layout == "sparse" else features, label, starts)


def dense_of(rows: PartyRows) -> np.ndarray:
    return rows.features.toarray() if sparse.issparse(rows.features) else rows.features


def value(rows: PartyRows, w: np.ndarray, loss: str, regulariser: str, weight: float) -> float:
    return reference.objective(dense_of(rows), rows.label, w, loss, regulariser, weight)


def ridge_in_closed_form(rows: PartyRows, weight: float) -> np.ndarray:
    """(2/n XᵀX + λI) w = 2/n Xᵀy."""
    X, n = dense_of(rows), len(rows)
    matrix = 2 / n * X.T @ X + weight * np.eye(X.shape[1])
    return np.linalg.solve(matrix, 2 / n * X.T @ rows.label)


@both_layouts
@pytest.mark.parametrize("weight", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_logistic_regression_matches_scikit_learn(layout, weight, seed):
    rows = make_rows(layout, seed=seed)
    other = LogisticRegression(
        C=1 / (len(rows) * weight), fit_intercept=False, solver="newton-cholesky", tol=1e-13,
        max_iter=1000,
    )  # fmt: skip
    trusted = other.fit(dense_of(rows), rows.label).coef_[0]
    w, found = solve(rows, LinearObjective(name="logistic_l2", weight=weight))
    least = value(rows, trusted, "logistic", "l2", weight)
    assert found.objective == pytest.approx(least, abs=1e-12)
    assert found.objective == pytest.approx(value(rows, w, "logistic", "l2", weight), abs=1e-14)
    np.testing.assert_allclose(w, trusted, atol=1e-5)
    assert found.gap is not None
    assert found.gap <= ACCURACY
    assert found.objective - least <= found.gap + 1e-15


@both_layouts
@few_examples
@given(
    seed=st.integers(0, 1000),
    weight=st.sampled_from([1e-6, 1e-4, 0.1, 10.0]),
    n=st.integers(1, 40),
    d=st.integers(2, 12),
)
def test_ridge_regression_matches_its_closed_form(layout, seed, weight, n, d):
    rows = make_rows(layout, n, d, seed, "real")
    trusted = ridge_in_closed_form(rows, weight)
    least = value(rows, trusted, "square", "l2", weight)
    w, found = solve(rows, LinearObjective(name="ridge_regression", weight=weight))
    assert found.objective == pytest.approx(least, abs=1e-10)
    assert found.objective >= least - 1e-13
    assert found.gap is not None
    # ‖w − w*‖² λ/2 is no more than the gap, by strong convexity
    assert weight / 2 * float(((w - trusted) ** 2).sum()) <= found.gap * (1 + 1e-6) + 1e-16
    assert found.objective - least <= found.gap + 1e-14


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e8])
@pytest.mark.parametrize("name", ["logistic_l2", "ridge_regression"])
def test_badly_scaled_features_are_solved_or_refused(name, scale):
    rows = make_rows("dense", labels="classes")
    rows.features[:, ::2] *= scale
    objective = LinearObjective(name=name, weight=1e-6)
    try:
        _, found = solve(rows, objective)
    except FedatlasError as error:
        assert "more than 1e-10: are the features badly scaled?" in str(error)
        assert str(error).startswith(f"optimum of {objective.slug}: ")
        return
    assert found.gap is not None
    assert found.gap <= ACCURACY
    if name == "ridge_regression":
        least = value(rows, ridge_in_closed_form(rows, 1e-6), "square", "l2", 1e-6)
        assert found.objective == pytest.approx(least, abs=2e-10)


def test_what_is_not_solved_is_refused():
    rows = make_rows("dense")
    rows.features[:] *= np.logspace(-8, 8, 8)
    with pytest.raises(FedatlasError, match=r"f − f\* up to .*are the features badly scaled\?"):
        solve(rows, LinearObjective(name="logistic_l2", weight=1e-9))


@both_layouts
@pytest.mark.parametrize("name", ["logistic_nonconvex", "robust_regression"])
def test_others_end_at_a_stationary_point_below_the_start(layout, name):
    rows = make_rows(layout, labels="classes" if name == "logistic_nonconvex" else "real")
    weight = None if name == "robust_regression" else 1e-3
    loss, regulariser = ("robust", "none") if weight is None else ("logistic", "nonconvex")
    w, found = solve(rows, LinearObjective(name=name, weight=weight))
    rest = (loss, regulariser, weight or 0.0)
    assert found.gap is None
    assert found.objective == pytest.approx(value(rows, w, *rest), abs=1e-14)
    assert found.objective < value(rows, np.zeros(8), *rest)
    gradient = reference.gradient(dense_of(rows), rows.label, w, *rest)
    assert found.gradient_norm == pytest.approx(np.linalg.norm(gradient), abs=1e-12)
    assert found.gradient_norm < 1e-8


def test_layouts_and_repetitions_agree():
    objective = LinearObjective(name="logistic_l2", weight=1e-3)
    first, again = (solve(make_rows("sparse"), objective) for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    assert first[1] == again[1]
    dense = solve(make_rows("dense"), objective)[1]
    assert dense.objective == pytest.approx(first[1].objective, abs=1e-12)


# ------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("gap", [None, 3.25e-13])
def test_what_is_written_is_read(tmp_path, gap):
    optimum = Optimum(objective=0.1 + 0.2, gradient_norm=1e-300, gap=gap, solver="a solver")
    write_optimum(optimum, tmp_path / "deep" / "f.json")
    found = read_optimum(tmp_path / "deep" / "f.json")
    assert found.model_copy(update={"digest": None}) == optimum
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"f.json"}
    content = (tmp_path / "deep" / "f.json").read_bytes()
    write_optimum(optimum, tmp_path / "deep" / "f.json")
    assert (tmp_path / "deep" / "f.json").read_bytes() == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as JSON: .*Make it again"),
        (b'{"objective": 1', "cannot be read as JSON"),
        (b"\xff\xfe\x00", "cannot be read as JSON"),
        (None, "cannot be read as JSON: .*No such file"),
        (b'{"objective": 1}', "missing key 'gap'"),
        (b"[]", ".*must be a mapping"),
        (b'{"objective": NaN, "gradient_norm": 0, "gap": null, "solver": ""}', ".*value nan"),
    ],
)
def test_a_damaged_or_missing_file_is_refused_by_name(tmp_path, content, message):
    if content is not None:
        (tmp_path / "f.json").write_bytes(content)
    with pytest.raises(FedatlasError, match=rf"f\.json: {message}"):
        read_optimum(tmp_path / "f.json")


@pytest.mark.parametrize("key", ["objective", "gradient_norm", "gap", "digest"])
def test_a_file_with_another_digit_is_refused(tmp_path, key):
    file = tmp_path / "f.json"
    optimum = Optimum(objective=0.4061, gradient_norm=2e-9, gap=4e-17, solver="a solver")
    write_optimum(optimum, file)
    text = file.read_text()
    place = text.index(f'"{key}":') + len(key) + 3 + (key == "digest")
    digit = next(n for n in range(place, len(text)) if text[n] in "123456789")
    other = str(int(text[digit]) % 9 + 1)
    file.write_text(text[:digit] + other + text[digit + 1 :])
    with pytest.raises(FedatlasError, match=r"f\.json: is damaged or was changed"):
        read_optimum(file)
