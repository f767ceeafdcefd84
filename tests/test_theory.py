"""Theorems beside runs: constants, step bounds, promises, and their table."""

from dataclasses import replace
from itertools import pairwise
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest

from fedatlas.algorithms.fedpage import FedPage
from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.bounds import (
    COLUMNS,
    LAST_SQUARED_GRADIENT,
    SQUARED_GRADIENT,
    SUBOPTIMALITY,
    Row,
    bounded_values,
    read_theory,
)
from fedatlas.evaluation.tables import to_csv
from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import LinearObjective
from fedatlas.theorems import theorems_on as all_theorems_on
from fedatlas.theory.constants import Constants, constants_of
from fedatlas.theory.theorems import Course
from judging import verdict
from reference import PARTS
from reference_vertical import gradient as reference_gradient
from trace_factory import make_trace

ROOT = Path(__file__).parents[1]
OBJECTIVES = {
    "robust_regression": LinearObjective(name="robust_regression"),
    "logistic_nonconvex": LinearObjective(name="logistic_nonconvex", weight=0.1),
    "logistic_l2": LinearObjective(name="logistic_l2", weight=0.1),
    "ridge_regression": LinearObjective(name="ridge_regression", weight=0.1),
}
CLIENTS, SAMPLES, DIMENSION = 6, 4, 3


def clients(sizes=(SAMPLES,) * CLIENTS, seed: int = 0) -> ClientSamples:
    random = np.random.default_rng(seed)
    # Clients differ, so that the average smoothness is not that of the worst sample.
    scale = np.repeat(np.linspace(0.2, 2.0, len(sizes)), sizes)[:, None]
    rows = scale * random.normal(size=(sum(sizes), DIMENSION))
    label = np.where(random.random(sum(sizes)) < 0.5, 1.0, -1.0)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return ClientSamples(Samples.numbered(label, rows), offsets, {}, None)


def client_gradient(name: str, weight: float, data: ClientSamples, client: int, x) -> np.ndarray:
    own = slice(data.offsets[client], data.offsets[client + 1])
    X, y = data.samples.features[own], data.samples.label[own]
    return reference_gradient(X, y, x, *PARTS[name], weight)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_both_smoothness_constants_bound_gradients_at_all_points(name):
    objective, data = OBJECTIVES[name], clients()
    constants = constants_of(data, objective)
    random, largest, worst = np.random.default_rng(1), 0.0, 0.0
    for _ in range(300):
        x = random.normal(size=DIMENSION) * 10 ** random.uniform(-3, 1)
        y = x + random.normal(size=DIMENSION) * 10 ** random.uniform(-4, 1)
        moved = [
            client_gradient(name, objective.regularisation_weight, data, client, x)
            - client_gradient(name, objective.regularisation_weight, data, client, y)
            for client in range(CLIENTS)
        ]
        norms = np.linalg.norm(moved, axis=1) / np.linalg.norm(x - y)
        largest = max(largest, sqrt((norms**2).mean()))
        worst = max(worst, norms.max())
    assert largest <= constants.average_smoothness <= constants.smoothness
    assert worst <= constants.smoothness
    # A bound that were twice too large would double the rounds that a theorem needs.
    assert constants.average_smoothness < 2.5 * largest


def test_the_gap_and_the_distance_of_a_convex_objective():
    data = clients()
    ridge = constants_of(data, OBJECTIVES["ridge_regression"])
    a, b = data.samples.features, data.samples.label
    # ∇f = 2 Aᵀ(Ax − b)/n + λ x = 0
    best = np.linalg.solve(2 * a.T @ a / len(b) + 0.1 * np.eye(DIMENSION), 2 * a.T @ b / len(b))
    optimum = ((a @ best - b) ** 2).mean() + 0.05 * best @ best
    assert ridge.distance == pytest.approx(np.linalg.norm(best), rel=1e-6)
    assert ridge.optimum == pytest.approx(optimum) and ridge.gap == pytest.approx(1 - optimum)
    robust = constants_of(data, OBJECTIVES["robust_regression"])
    assert robust.gap == pytest.approx(log(1.5)) and not robust.convex
    assert (robust.clients, robust.samples) == (CLIENTS, SAMPLES)


@pytest.mark.parametrize("sizes", [(2, 3, 3), (1, 9, 4)])
def test_clients_of_unequal_size_count_equally(sizes):
    data, weight = clients(sizes), 0.1
    ridge = constants_of(data, OBJECTIVES["ridge_regression"])
    a, b = data.samples.features, data.samples.label
    parts = [slice(*ends) for ends in pairwise(data.offsets)]
    # ∇f = 1/N Σ_i 2 A_iᵀ(A_i x − b_i)/M_i + λ x = 0
    curvature = np.mean([2 * a[i].T @ a[i] / len(b[i]) for i in parts], axis=0)
    pull = np.mean([2 * a[i].T @ b[i] / len(b[i]) for i in parts], axis=0)
    best = np.linalg.solve(curvature + weight * np.eye(DIMENSION), pull)
    losses = np.mean([((a[i] @ best - b[i]) ** 2).mean() for i in parts])
    assert ridge.distance == pytest.approx(np.linalg.norm(best), rel=1e-6)
    assert ridge.optimum == pytest.approx(losses + weight / 2 * best @ best)
    assert (ridge.samples, ridge.gap) == (None, pytest.approx(1 - ridge.optimum))
    found = theorems_on(fedpage(2, 1), ridge)
    assert all(one.lacks == "clients that hold equally many samples" for one in found)


def theorems_on(method, constants: Constants):
    return all_theorems_on(method, constants, Course(rounds=100))


def constants(n: int, *, convex: bool = False) -> Constants:
    return Constants(n, 10, 1.0, 1.0, 0.4, 2.0 if convex else None, 0.1 if convex else None)


def fedpage(s: int, k: int, **more) -> FedPage:
    declared = {"clients_per_round": s, "local_steps": k, "global_step_size": 1e-3}
    return FedPage(**declared | {"local_step_size": 1e-9} | more)


# η·L of Theorem 4.2: as printed, and what its proof covers, worked out apart.
@pytest.mark.parametrize(
    ("n", "s", "printed", "corrected"),
    [
        (3250, 10, 0.1253, 0.0920),
        (4800, 10, 0.1055, 0.0769),
        (325, 1, 0.0433, 0.0310),
        (10, 1, 0.2080, 0.1566),
    ],
)
def test_global_steps_of_theorem_4_2(n, s, printed, corrected):
    found = theorems_on(fedpage(s, 10), constants(n))
    assert [(each.name, each.version) for each in found] == [
        ("Theorem 4.2", "as printed"),
        ("Theorem 4.2", "corrected"),
    ]
    assert [each.steps[0].bound for each in found] == pytest.approx([printed, corrected], abs=5e-5)
    # The proof needs 1/(2η) − L/2 − 3η/(2pS) (1 − p/3) L² ≥ 0.
    p = s / n
    for each, holds in zip(found, (False, True), strict=True):
        eta = each.steps[0].bound
        assert (1 / (2 * eta) - 1 / 2 - 3 * eta / (2 * p * s) * (1 - p / 3) >= 0) == holds
    assert printed / corrected < sqrt(2)
    assert found[0].steps[1].bound == pytest.approx(sqrt(2) * p / (24 * sqrt(s) * 10))
    assert found[1].bound.constant == pytest.approx(4 * 0.4 / 1e-3)


def test_global_steps_of_theorem_4_1():
    printed, corrected = theorems_on(fedpage(10, 1), constants(3250))
    assert (printed.name, corrected.name) == ("Theorem 4.1",) * 2
    assert printed.steps[0].bound == pytest.approx(0.199, abs=5e-4)
    eta, p = corrected.steps[0].bound, 10 / 3250
    assert eta == pytest.approx(0.149, abs=5e-4)
    assert 1 / (2 * eta) - 1 / 2 - eta * (1 - p) / (2 * p * 10) >= 0  # the proof's
    assert len(corrected.steps) == 1  # η_l plays no part
    assert corrected.bound.of == SQUARED_GRADIENT
    assert corrected.bound.constant == pytest.approx(2 * 0.4 / 1e-3)


def test_the_step_of_theorem_5_1_meets_its_proof_with_equality():
    *_, found = theorems_on(fedpage(10, 1), constants(3250, convex=True))
    assert (found.name, found.bound.of) == ("Theorem 5.1", SUBOPTIMALITY)
    eta, p, s = found.steps[0].bound, 10 / 3250, 10
    delta, lam, c = 1 / (s**0.25 * p**0.75), 1 / sqrt(s * p), sqrt(s * p)
    # w of section E.1, the factor of Σ ‖xʳ⁺¹ − xʳ‖², which must not be positive.
    of_errors = eta * (1 + delta) / (2 * lam) + eta * (1 - p) * c / (2 * p)
    w = (
        (1 + delta) * (eta * (lam + 1) - 1) / 2
        + eta * (1 - p) / (2 * c * p)
        + of_errors * (1 - p) / (p * s)
    )
    assert w == pytest.approx(0, abs=1e-12 * (1 + delta))
    assert found.bound.constant == pytest.approx(2.0**2 / (2 * 1e-3) + delta * 0.4)


def test_theorem_5_2_has_no_constants():
    *_, found = theorems_on(fedpage(10, 10), constants(3250, convex=True))
    assert found.name == "Theorem 5.2" and found.bound is None and not found.covers


@pytest.mark.parametrize(
    ("more", "lacks"),
    [
        ({}, ""),
        ({"full_round_probability": 10 / 3250}, ""),
        ({"first_batch_size": 10}, ""),
        ({"full_round_probability": 0.1}, "p = S/N"),
        ({"full_round_probability": {100: 0.1}}, "p = S/N"),
        ({"first_batch_size": 5}, "b2 = M"),
        ({"full_batch_size": 5, "first_batch_size": 5}, "b1 = M, b2 = M"),
    ],
)
def test_conditions_besides_steps_are_named(more, lacks):
    found = theorems_on(fedpage(10, 1, **more), constants(3250))
    assert all((lacks in each.lacks) and (each.covers == (not lacks)) for each in found)


def test_steps_beyond_a_bound_are_promised_what_the_bound_gives():
    _, found = theorems_on(fedpage(10, 1, global_step_size=0.3), constants(3250))
    (step,) = found.steps
    assert step.factor == pytest.approx(0.3 / step.bound) and not found.covers
    assert found.bound.constant == pytest.approx(2 * 0.4 / step.bound)


def test_scaffolds_bound_is_on_the_product_of_its_steps():
    method = Scaffold(clients_per_round=20, local_steps=10, local_step_size=1e-5)
    (found,) = theorems_on(method, constants(3250))
    assert found.steps[0].bound == pytest.approx((20 / 3250) ** (2 / 3) / 24)
    assert found.covers and found.bound is None
    slow = Scaffold(
        clients_per_round=20, local_steps=10, local_step_size=1e-5, global_step_size=0.5
    )
    assert theorems_on(slow, constants(3250))[0].lacks == "η_g ≥ 1"


def test_running_means_are_areas_between_records():
    trace = make_trace([[1.0, 0.5, 0.1], [2.0, np.nan, np.nan]], schedule=[0, 10, 40])
    squares = np.array([1.0, 0.25, 0.01])
    by_hand = [1.0, 10 * 0.625 / 10, (10 * 0.625 + 30 * 0.13) / 40]
    means = bounded_values(trace, SQUARED_GRADIENT)
    np.testing.assert_allclose(means[0], by_hand)
    assert np.isinf(means[1]).all()
    above = bounded_values(trace, SUBOPTIMALITY, 0.1)
    np.testing.assert_allclose(above[0, 0], trace["objective"].values[0, 0] - 0.1)
    assert squares[0] == means[0, 0]


def test_a_damaged_table_is_named(tmp_path):
    path = tmp_path / "theory.csv"
    path.write_text(to_csv([], COLUMNS))
    assert read_theory(path) == []
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FedatlasError, match=r"theory\.csv: expected the columns run, point"):
        read_theory(path)


def test_a_run_with_one_local_step_is_warned_by_the_average_smoothness():
    data, objective = clients(), OBJECTIVES["robust_regression"]
    problem = CompiledEngine(data, objective)
    found = constants_of(data, objective)
    assert problem.average_smoothness == found.average_smoothness < problem.smoothness
    page = FedPage(clients_per_round=2, local_steps=1, global_step_size=1.0)
    (bound,) = page.step_bounds(problem)
    (_, corrected) = theorems_on(page, found)
    assert corrected.steps == (bound,)


def bounded(trace, constant: float, **more):
    """The verdict on a theorem that bounds the mean of ‖∇f‖² over R rounds by constant/R."""
    rounds = float(trace["round"].values[0, -1])
    row = Row(
        *("run", trace.attrs["point"], "Theorem 9", "as printed", True, "", "", 1.0),
        **{"bounds": SQUARED_GRADIENT, "cost": "round", "spent": rounds, "counted": "rounds"},
        **{"epochs": rounds, "promised": constant / rounds, "constant": constant},
    )
    test = {"kind": "bound_holds", "run": "run", "theorem": "Theorem 9"}
    return verdict(test, run=trace, theory=[replace(row, **more)])


@pytest.fixture(scope="module")
def falling():
    """‖∇f‖² is 1/(1 + r/10) at round r = 0, 10, 20, 30, a little more or less by seed."""
    spread = np.linspace(0.99, 1.01, 6)[:, None]
    return make_trace(spread / np.sqrt(1 + np.arange(4.0)))


def means_of(trace):
    """The mean over seeds and rounds of ‖∇f‖², by areas of trapezoids, after 10, 20 and 30."""
    squares = (trace["gradient_norm"].values ** 2).mean(axis=0)
    areas = np.cumsum(5 * (squares[1:] + squares[:-1]))
    return areas / [10, 20, 30]


def test_a_run_below_its_bound_proves_nothing_and_says_how_near_it_comes(falling):
    rounds = np.array([10, 20, 30])
    constant = 1.5 * (means_of(falling) * rounds).max()
    found = bounded(falling, constant)
    assert found.outcome == "not testable" and "a run can only refute" in found.evidence
    factors = constant / rounds / means_of(falling)
    assert factors.argmin() == 2  # the mean falls more slowly than 1/R
    assert f"{factors.min():.3g} times what was measured" in found.evidence


def test_a_record_above_the_bound_contradicts_it_though_the_end_is_below(falling):
    levels = falling["gradient_norm"].values.copy()
    levels[:, 1] *= 3
    squares = (levels**2).mean(axis=0)
    assert squares[1] > 2 > 1 > squares[-1]
    found = bounded(make_trace(levels), 0.0, bounds=LAST_SQUARED_GRADIENT, floor=1.0, promised=1.0)
    assert found.outcome == "contradicted" and "at 10 rounds" in found.evidence
    assert found.effect.low == pytest.approx(-np.log10((levels[:, 1] ** 2).max()))
    assert found.effect.estimate < found.effect.high < 0


def test_what_the_typical_seed_does_not_show_is_undecided(falling):
    levels = falling["gradient_norm"].values.copy()
    levels[0] *= 10
    wild = make_trace(levels)
    between = 30 * np.sqrt(means_of(wild)[2] * means_of(falling)[2])
    assert bounded(wild, between).outcome == "undecided"


def test_a_bound_speaks_of_covered_steps_only(falling):
    steps = {"step": 0.3, "largest_step": 0.1, "step_factor": 3.0}
    outside = bounded(falling, 1e-9, covered=False, lacks="p = S/N", **steps)
    assert outside.outcome == "not covered"
    assert outside.evidence.startswith("outside the conditions of Theorem 9 (as printed): p = S/N ")
    assert "p = S/N and step 0.3, 3 times the largest that is covered, 0.1" in outside.evidence
    with pytest.raises(FedatlasError, match="theorem 'Theorem 9': the study of 'run' knows Theor"):
        bounded(falling, 1.0, theorem="Theorem 8")
