"""Objectives with a term that has no gradient: proximal maps, f*, what methods reduce to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from sklearn.linear_model import ElasticNet, Lasso

import fedatlas
from fedatlas.arithmetic.nonsmooth import nonsmooth_value, prox
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.losses import L1, Box, GroupLasso
from fedatlas.schema.objectives import LinearObjective
from fedatlas.training.solver import solve
from small_federations import small

TERMS = [
    L1(name="l1", weight=0.3),
    GroupLasso(name="group_lasso", weight=0.4, size=3),
    Box(name="box", lower=-0.5, upper=1.0),
]
LASSO_TERM = {"name": "l1", "weight": 0.1}


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(1)
    features = random.standard_normal((60, 8)) * np.linspace(0.3, 2, 8)
    label = features @ [1.5, 0, 0, -1, 0, 0.4, 0, 0] + random.standard_normal(60)
    return features, label


def solved(rows, name, term, **more):
    objective = LinearObjective(name=name, nonsmooth=term, **more)
    return solve(PartyRows(*rows, np.array([0, rows[0].shape[1]])), objective)


numbers = st.floats(-3, 3)


@given(
    st.sampled_from(TERMS), st.lists(numbers, min_size=7, max_size=7), st.floats(0, 4), st.data()
)
def test_no_point_is_better_than_the_proximal_one(term, v, step, data):
    v = np.array(v)
    found = prox(term, v, step)
    np.testing.assert_array_equal(prox(term, np.stack([v, -v]), step)[0], found)

    def cost(x):
        return step * nonsmooth_value(term, x) + (x - v) @ (x - v) / 2

    least = cost(found)
    for place in range(7):
        for moved in (-1e-3, 1e-3, data.draw(numbers)):
            other = found.copy()
            other[place] += moved
            if isinstance(term, Box) and other[place] != np.clip(other[place], -0.5, 1.0):
                continue
            assert cost(other) >= least - 1e-12


@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_the_lasso_and_the_elastic_net_are_those_of_scikit_learn(rows, ridge):
    """Which minimises 1/(2n) ‖Xw − y‖² + a·r ‖w‖₁ + a (1 − r)/2 ‖w‖², half of ours."""
    name, more = ("ridge_regression", {"weight": 2 * ridge}) if ridge else ("least_squares", {})
    x, found = solved(rows, name, LASSO_TERM, **more)
    alpha = 0.05 + ridge
    asked = {"fit_intercept": False, "tol": 1e-14, "max_iter": 100_000}
    net = ElasticNet(alpha, l1_ratio=0.05 / alpha, **asked) if ridge else Lasso(alpha, **asked)
    np.testing.assert_allclose(x, net.fit(*rows).coef_, atol=3e-6)
    assert 0 <= found.gap < 1e-11 and (x == 0).any()
    value = np.mean((rows[0] @ x - rows[1]) ** 2) + 0.1 * np.abs(x).sum() + ridge * x @ x
    assert abs(value - found.objective) < 1e-12


def test_a_box_and_groups_are_solved(rows):
    features, label = rows
    x, found = solved(rows, "least_squares", {"name": "box", "lower": -0.5, "upper": 0.7})
    expected = lsq_linear(features, label, (-0.5, 0.7), tol=1e-14).x
    np.testing.assert_allclose(x, expected, atol=1e-6)
    assert found.gap < 1e-11
    term = GroupLasso(name="group_lasso", weight=0.8, size=3)
    x, found = solved(rows, "least_squares", term)
    slope = 2 * features.T @ (features @ x - label) / 60
    for group in (slice(0, 3), slice(3, 6), slice(6, 8)):  # the conditions of optimality
        size = np.linalg.norm(x[group])
        if size:
            np.testing.assert_allclose(slope[group], -0.8 * x[group] / size, atol=1e-7)
        else:
            assert np.linalg.norm(slope[group]) <= 0.8
    assert found.gap < 1e-11 and not all(x)


def test_a_loss_without_a_curvature_is_solved_by_shorter_steps(rows, tmp_path, monkeypatch):
    from outside_project import open_project, whole_files

    open_project(tmp_path, whole_files("adding/objective"), monkeypatch)
    counts = np.random.default_rng(0).poisson(np.exp(rows[0] @ np.full(8, 0.2))).astype(float)
    x, found = solved((rows[0], counts), "poisson", LASSO_TERM)
    slope = rows[0].T @ (np.exp(rows[0] @ x) - counts) / 60
    assert found.gap < 1e-11
    np.testing.assert_allclose(slope[x != 0], -0.1 * np.sign(x[x != 0]), atol=1e-6)
    assert (np.abs(slope) <= 0.1 + 1e-6).all()


STEPS = {"clients_per_round": 4, "local_steps": 3, "local_step_size": 0.02, "global_step_size": 1.5}


def trained(method, rows, objective, **more):
    asked = {"partition": {"kind": "horizontal", "clients": 4}, "objective": objective} | STEPS
    return fedatlas.train(method, rows, **asked | more)


def test_gradient_descent_with_a_prox_reaches_the_optimum(rows):
    """One local step: FedMiD then takes two proximal steps a round, dual averaging one."""
    lasso = {"name": "least_squares", "nonsmooth": LASSO_TERM}
    steps = {"local_steps": 1, "global_step_size": 1.0, "local_step_size": 0.1}
    trace = trained("fed_dual_avg", rows, lasso, rounds=1500, optimum=True, **steps)
    assert trace.suboptimality[0, -1] < 1e-9 and trace.gradient_norm[0, -1] < 1e-4
    assert trace.gradient_norm[0, 0] > 1


def test_without_such_a_term_fedmid_is_fedavg(rows):
    ridge = {"name": "ridge_regression", "weight": 0.1}
    both = [trained(name, rows, ridge, rounds=5).objective for name in ("fedmid", "fedavg")]
    np.testing.assert_allclose(*both, rtol=1e-13)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "vfb2_sgd", "gaussian_gradient_descent"])
def test_methods_without_proximal_steps_refuse_it(method):
    from fedatlas.algorithms import build_algorithm

    objective = {"name": "logistic_l2", "weight": 0.1, "nonsmooth": LASSO_TERM}
    told = "'objective.nonsmooth', value 'l1': .* takes gradients, .* such as fedmid"
    with pytest.raises(FedatlasError, match=told):
        build_algorithm(small(method, objective=objective))
