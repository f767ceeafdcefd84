"""Quadratics of declared constants: all are exact, and methods see them as least squares."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedatlas
from fedatlas.data.formats import dataset_of
from fedatlas.data.formats.quadratics import Quadratics, make_functions, rows_of
from fedatlas.errors import FedatlasError

DECLARED = {
    "seed": 3, "clients": 5, "smoothness": 4.0, "convexity": 0.5, "hessian_dissimilarity": 0.7,
    "gradient_dissimilarity": 0.3, "distance": 2.0,
}  # fmt: skip
ENTRY = {
    "name": "quadratics", "title": "t",
    "homepage": "https://a.org", "licence": "l", "citation": "c",
    "format": "quadratics", "task": "regression", "features": 6, "quadratics": DECLARED,
    "splits": {"train": {}},
}  # fmt: skip


def from_rows(samples, clients):
    """A_i, b_i and c_i, from the rows alone."""
    d = samples.features.shape[1]
    rows, labels = samples.features.reshape(clients, d, d), samples.label.reshape(clients, d)
    hessians = 2 / d * np.einsum("ija,ijb->iab", rows, rows)
    return hessians, 2 / d * np.einsum("ija,ij->ia", rows, labels), (labels**2).mean(1)


@settings(max_examples=40)
@given(
    st.integers(0, 99), st.integers(2, 9), st.integers(3, 12), st.floats(1e-3, 1),
    st.floats(0.01, 1), st.floats(0, 5),
)  # fmt: skip
def test_every_declared_constant_is_exact(seed, clients, features, convexity, part, zeta):
    made = Quadratics(
        seed=seed, clients=clients, smoothness=2.0, convexity=convexity,
        hessian_dissimilarity=part * (2 - convexity) / 2, gradient_dissimilarity=zeta, distance=3,
    )  # fmt: skip
    hessians, targets, _ = from_rows(rows_of(make_functions(made, features)), clients)
    mean, best = hessians.mean(0), np.linalg.solve(hessians.mean(0), targets.mean(0))
    own, whole = np.linalg.eigvalsh(hessians), np.linalg.eigvalsh(mean)
    apart = np.linalg.norm(hessians - mean, 2, axis=(1, 2)).max()
    slopes = hessians @ best - targets
    found = [own.max(), own.min(), whole.max(), whole.min(), apart, np.linalg.norm(best)]
    expected = [2, convexity, 2, convexity, made.hessian_dissimilarity, 3]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose((slopes**2).sum(1).mean() ** 0.5, zeta, atol=1e-10)


def test_runs_reach_the_closed_form():
    samples = dataset_of(ENTRY, "here").read("train", [])
    hessians, targets, constants = from_rows(samples, 5)
    best = np.linalg.solve(hessians.mean(0), targets.mean(0))
    least = constants.mean() - targets.mean(0) @ best / 2
    trace = fedatlas.train(
        "fedavg", (samples.features, samples.label), rounds=60, optimum=True,
        partition={"kind": "horizontal", "assignment": "consecutive", "clients": 5},
        objective={"name": "least_squares"},
        clients_per_round=5, local_steps=1, local_step_size=0.4)  # fmt: skip
    value = trace.objective[0] - trace.suboptimality[0]
    np.testing.assert_allclose(value, least, atol=1e-10)
    x, expected = np.zeros(6), []
    for _ in range(61):
        apart = x - best
        expected.append(least + apart @ hessians.mean(0) @ apart / 2)
        x = x - 0.4 * hessians.mean(0) @ apart
    np.testing.assert_allclose(trace.objective[0], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"convexity": 5}, "'convexity' must be at most 'smoothness'"),
        ({"hessian_dissimilarity": 2}, r"at most \(L − μ\)/2 = 1.75"),
        ({"clients": 1}, "a single client does not differ"),
        ({"features": 2}, "'features' must be at least 3"),
        ({"splits": {"train": {}, "test": {}}}, "the split train alone"),
        ({"standardise": True}, "quadratics are not scaled"),
    ],
)
def test_constants_that_cannot_be_are_refused(changes, told):
    own = {key: value for key, value in changes.items() if key in DECLARED}
    entry = ENTRY | {key: value for key, value in changes.items() if key not in own}
    with pytest.raises(FedatlasError, match=told):
        dataset_of(entry | {"quadratics": DECLARED | own}, "here")


def test_equal_functions_differ_in_nothing():
    made = Quadratics(seed=1, clients=3, smoothness=2, convexity=2)
    hessians, targets, _ = from_rows(rows_of(make_functions(made, 4)), 3)
    np.testing.assert_allclose(hessians, [2 * np.eye(4)] * 3, atol=1e-12)
    np.testing.assert_allclose(targets, [targets[0]] * 3, atol=1e-12)
