"""Local DSGD, EXTRA, NIDS, GT-SARAH and SGP: what they reduce to, what is exact, what they send."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.choco_sgd import ChocoSgd
from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.algorithms.extra import Extra
from fedatlas.algorithms.gt_sarah import GtSarah
from fedatlas.algorithms.local_dsgd import LocalDsgd
from fedatlas.algorithms.nids import Nids
from fedatlas.algorithms.sgp import Sgp
from fedatlas.arithmetic.randomness import Draws
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from small_federations import RING, small
from test_decentralised_methods import AGENTS, AVERAGING, DIRECTED, FEATURES, R, Run, Toy, W

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

ROUNDS, RIDGE, STEP = 12, "ridge_regression", 0.05
LARGE = {"step_size": 0.1, "coupling": 0.6}
PUSHED = 0.9 * R / R.sum(0).max()  # weights sent, unequal, which sum to at most 0.9
both_engines = pytest.mark.parametrize("objective", [RIDGE, "cross_entropy"])


def run_of(method: Algorithm, toy: Toy, graph: np.ndarray = W) -> Run:
    return Run(method, toy, Draws(), graphs=(graph, None))


def points(method: Algorithm, toy: Toy, graph: np.ndarray = W, rounds: int = ROUNDS) -> np.ndarray:
    """Agents' models after every round, (rounds + 1, n, d)."""
    run = run_of(method, toy, graph).rounds(rounds)
    return np.array([toy.engine.numpy(method.point(state, None)) for state in run.states])


def together(toy: Toy) -> Toy:
    """The same, all agents starting from one model."""
    toy.x0 = np.tile(toy.x0[:1], (AGENTS, 1))
    return toy


def gradients(toy: Toy, x: np.ndarray) -> np.ndarray:
    """∇f_i(x_i) over all samples of every agent, (n, d)."""
    of, rows = toy.gradient(), [range(*toy.offsets[i : i + 2]) for i in range(AGENTS)]
    return np.array([of(i, x[i], rows[i]) for i in range(AGENTS)])


def optimum(toy: Toy) -> np.ndarray:
    """Of the agents' mean of ridge regression, whose gradients are affine; (d,)."""

    def gradient(x: np.ndarray) -> np.ndarray:
        return gradients(toy, np.tile(x, (AGENTS, 1))).mean(0)

    at_zero = gradient(np.zeros(FEATURES))
    hessian = np.array([gradient(unit) - at_zero for unit in np.eye(FEATURES)])
    return np.linalg.solve(hessian, -at_zero)


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)
    assert abs(found[-1] - found[0]).max() > 0.05


# ------------------------------------------------------------------------------- reductions


@both_engines
def test_local_dsgd_with_one_step_is_choco_without_compression(objective: str) -> None:
    toy = Toy(objective)
    shared = {"coupling": 1.0, "step_size": STEP, "samples": 3}
    whole = {"kind": "top_k", "share": 1}
    dsgd = points(LocalDsgd(**shared, local_steps=1), toy)
    assert_same(dsgd, points(ChocoSgd(**shared, compressor=whole), toy))


@both_engines
def test_sgp_on_a_graph_with_doubly_stochastic_weights_is_dsgd(objective: str) -> None:
    toy, shared = Toy(objective), {"coupling": 0.7, "step_size": STEP, "samples": 3}
    assert_same(points(Sgp(**shared), toy), points(LocalDsgd(**shared, local_steps=1), toy))


@both_engines
@pytest.mark.parametrize(
    "method",
    [
        Nids(coupling=1, step_size=STEP),
        LocalDsgd(step_size=STEP, local_steps=1),
    ],
)
def test_on_a_complete_graph_they_are_gradient_descent(method: Algorithm, objective: str) -> None:
    toy = together(Toy(objective))
    x = toy.x0
    for found in points(method, toy, AVERAGING):
        np.testing.assert_allclose(found, x, rtol=0, atol=1e-11)
        x = np.tile(x[0] - STEP * gradients(toy, x).mean(0), (AGENTS, 1))


@pytest.mark.parametrize(
    "method",
    [
        LocalDsgd(step_size=STEP, local_steps=1),
        Extra(step_size=STEP),
        Nids(step_size=STEP),
        GtSarah(step_size=STEP, inner_steps=0),
        Sgp(step_size=STEP, coupling=0.9),
    ],
)
def test_agents_with_the_same_samples_descend_as_one(method: Algorithm) -> None:
    toy = Toy(RIDGE, np.full(AGENTS, 6), alike=True)
    x = toy.x0
    for found in points(method, toy):
        np.testing.assert_allclose(found, x, rtol=0, atol=1e-11)
        x = x - STEP * gradients(toy, x)


@both_engines
@pytest.mark.parametrize(
    "method",
    [LocalDsgd(step_size=STEP, local_steps=1), Extra(step_size=STEP), Nids(step_size=STEP)],
)
def test_the_mean_steps_along_the_mean_gradient(method: Algorithm, objective: str) -> None:
    toy = together(Toy(objective))
    x = points(method, toy)
    expected = [STEP * gradients(toy, now).mean(0) for now in x[:-1]]
    np.testing.assert_allclose(x[:-1].mean(1) - x[1:].mean(1), expected, rtol=0, atol=1e-11)


def test_extra_is_dgd_with_a_correction_that_sums_up() -> None:
    """Equation (2.13): xᵏ⁺¹ = W xᵏ − α ∇f(xᵏ) + Σ_{t<k} (W − W̃) xᵗ."""
    toy, weights = Toy(RIDGE), 0.7 * W + np.diag(1 - 0.7 * W.sum(1))
    half = (np.eye(AGENTS) + weights) / 2
    x = points(Extra(coupling=0.7, step_size=STEP), toy)
    for k in range(ROUNDS):
        correction = (weights - half) @ x[:k].sum(0)
        expected = weights @ x[k] - STEP * gradients(toy, x[k]) + correction
        np.testing.assert_allclose(x[k + 1], expected, rtol=0, atol=1e-11)


@both_engines
@pytest.mark.parametrize("inner", [{"inner_steps": 0}, {"inner_steps": 2, "samples": 6}])
def test_gt_sarah_over_all_samples_is_gradient_tracking(inner: Any, objective: str) -> None:
    """With DP-GT without noise, where that draws all samples."""
    toy = Toy(objective, np.full(AGENTS, 6))
    scheme = {"name": "constant", "alpha": 0.7, "beta": 0.7, "gamma": STEP, "samples": 6}
    scheme |= {"state_noise_scale": 0, "tracker_noise_scale": 0}
    tracking = DpGradientTracking(horizon=ROUNDS, scheme=scheme, clipping="none")
    expected = Run(tracking, toy, Draws(), graphs=(W, W)).rounds(ROUNDS).all("x")
    assert_same(points(GtSarah(coupling=0.7, step_size=STEP, **inner), toy), expected)


def test_trackers_of_gt_sarah_have_the_mean_of_the_estimates() -> None:
    run = run_of(GtSarah(step_size=STEP, inner_steps=3, samples=2), Toy()).rounds(ROUNDS)
    y, v = run.all("y"), run.all("v")
    np.testing.assert_allclose(y.mean(1), v.mean(1), rtol=0, atol=1e-11)
    sizes = [len(taken[0]) for taken in run.problem.taken]  # inner steps ask at two points
    assert sizes[:8] == [7, 2, 2, 2, 2, 2, 2, 7]


def test_sgp_pushes_all_that_there_is() -> None:
    """Σ_i x_i moves along the gradients alone, Σ_i w_i is n; weights tend to P's fixed point."""
    toy, method = Toy(), Sgp(coupling=1, step_size=STEP)
    run = run_of(method, toy, PUSHED).rounds(200)
    x, w = run.all("x"), run.all("w")
    taken = np.array([gradients(toy, now / own) for now, own in zip(x, w, strict=True)])
    steps = x[:-1].sum(1) - x[1:].sum(1)
    np.testing.assert_allclose(steps, STEP * taken[:-1].sum(1), rtol=0, atol=1e-11)
    whole = np.eye(AGENTS) - np.diag(PUSHED.sum(0)) + PUSHED
    np.testing.assert_allclose(w[1], whole @ w[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(whole @ w[-1], w[-1], rtol=0, atol=1e-9)
    assert w[-1].sum() == pytest.approx(AGENTS) and abs(w[-1] - 1).max() > 0.2


# --------------------------------------------------------------------------------- exactness


@pytest.mark.parametrize(
    ("method", "exact"),
    [
        (Extra(**LARGE), True),
        (Nids(step_size=0.1), True),
        (GtSarah(**LARGE, inner_steps=0), True),
        (GtSarah(**LARGE, inner_steps=3, samples=3), True),
        (LocalDsgd(**LARGE, local_steps=1), False),
        (LocalDsgd(**LARGE, local_steps=3), False),
        (Sgp(**LARGE), False),
    ],
)
def test_exact_methods_reach_the_optimum_of_unequal_agents(method: Algorithm, exact: bool) -> None:
    toy = Toy()
    last = points(method, toy, rounds=600)[-1]
    apart = np.linalg.norm(last - optimum(toy), axis=1)
    assert apart.max() < 1e-7 if exact else apart.min() > 1e-3


def test_sgp_meets_near_the_optimum_of_all_on_an_unbalanced_graph() -> None:
    """Agents count equally there whatever the graph, and the closer the smaller the step."""
    toy, apart = Toy(), []
    for step in (0.1, 0.02):
        last = points(Sgp(step_size=step, coupling=1), toy, PUSHED, round(20 / step))[-1]
        apart.append(np.linalg.norm(last - optimum(toy), axis=1).max())
    assert 4 * apart[1] < apart[0] < 0.3


# ------------------------------------------------------------------------------ what is counted


@pytest.mark.parametrize(
    ("method", "numbers", "samples"),
    [
        (LocalDsgd(step_size=STEP, local_steps=4, samples=2), FEATURES, 8 * AGENTS),
        (Extra(step_size=STEP), FEATURES, 42),
        (Nids(step_size=STEP), FEATURES, 42),
        (GtSarah(step_size=STEP, inner_steps=2, samples=2), 2 * FEATURES, 14 + 8 / 3 * AGENTS),
        (Sgp(coupling=0.8, step_size=STEP, samples=2), FEATURES + 1, 2 * AGENTS),
    ],
)
def test_what_a_round_costs(method: Algorithm, numbers: int, samples: float) -> None:
    count, edges = run_of(method, Toy()).rounds(6).counters, np.count_nonzero(W)
    assert count.messages == 6 * edges and count.sequential_messages == 6
    assert count.bytes_sent == 6 * edges * numbers * 8
    assert count.gradient_evaluations == pytest.approx(6 * samples)


# ------------------------------------------------------------------------------ what is refused

PATH = {"states": {"kind": "directed_path", "weights": "sent"}}


@pytest.mark.parametrize(
    ("algorithm", "hyper", "changes", "message"),
    [
        ("extra", {}, {"graphs": DIRECTED}, r"EXTRA uses one graph: remove 'graphs\.trackers'"),
        ("sgp", {}, {"graphs": DIRECTED}, r"SGP uses one graph: remove 'graphs\.trackers'"),
        ("nids", {}, {"graphs": PATH}, r"needs symmetric weights"),
        ("extra", {"coupling": 1.6}, {}, r"'coupling', value 1\.6: .* the weight 1\.067"),
        ("nids", {"coupling": 0.9}, {}, r"'coupling', value 0\.9: exceeds 1/\(1 − λ\) = 0\.829"),
        ("sgp", {}, {"graphs": PATH}, r"ways from every agent to every other"),
        ("sgp", {"coupling": 1}, {}, r"'coupling', value 1: agent 0 sends 1 of what it has"),
        ("sgp", {"coupling": 1.5}, {"graphs": RING}, r"agent 0 sends 1 of what it has"),
    ],
)
def test_graphs_and_couplings_that_do_not_fit_are_refused(
    algorithm: str, hyper: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(FedatlasError, match=rf"(?s)^test-small/.*{message}"):
        build_algorithm(small(algorithm, hyper, **changes))


@pytest.mark.parametrize("given", [{"inner_steps": 2}, {"inner_steps": 0, "samples": 2}])
def test_gt_sarah_needs_samples_for_inner_steps_alone(given: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="minibatches are for inner steps: declare both"):
        GtSarah(step_size=0.1, **given)
