"""TDCD's Theorem 1: its constants, its step, its bound, and how errors scale."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from pydantic import ValidationError

from fedatlas.algorithms.tdcd import Tdcd
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.evaluation.claims.slope import SlopeTest
from fedatlas.federations.tiered.hubs import TieredCounters, TieredNetwork
from fedatlas.theorems import theorems_on
from fedatlas.theory.constants import TierConstants, constants_of
from fedatlas.theory.theorems import Course
from judging import verdict
from reference import PARTS, slope
from reference_vertical import regulariser_gradient
from test_linear_silos import Toy, make_toy, objective_of
from trace_factory import make_trace

NAMES = ["logistic_l2", "logistic_nonconvex", "robust_regression"]
SPREAD = np.array([0.96, 0.98, 0.99, 1.01, 1.02, 1.04])


def sample_gradients(toy: Toy, name: str, x: np.ndarray) -> np.ndarray:
    """(M, d) of the losses, without the regulariser."""
    slopes = [slope(name, float(a @ x), b) for a, b in zip(toy.X, toy.y, strict=True)]
    return np.array(slopes)[:, None] * toy.X


def of_regulariser(name: str, x: np.ndarray) -> np.ndarray:
    return regulariser_gradient(PARTS[name][1], objective_of(name).regularisation_weight, x)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("name", NAMES)
def test_constants_bound_gradients_and_deviations_at_all_points(name, layout):
    toy = make_toy(layout, silos=3, clients=1, samples=12)
    constants: TierConstants = constants_of(toy.samples, objective_of(name))
    random, blocks = np.random.default_rng(0), np.cumsum([0, *toy.widths])
    assert constants.deviations is not None
    closest = 0.0
    for _ in range(300):
        x = random.normal(size=toy.X.shape[1]) * 10 ** random.uniform(-3, 1)
        y = x + random.normal(size=len(x)) * 10 ** random.uniform(-4, 1)
        here, there = (sample_gradients(toy, name, one) for one in (x, y))
        extra = of_regulariser(name, x) - of_regulariser(name, y)
        apart = np.linalg.norm(x - y)
        whole = np.linalg.norm((here - there).mean(0) + extra) / apart
        assert whole <= constants.loss_smoothness * (1 + 1e-9)
        closest = max(closest, whole / constants.loss_smoothness)
        deviations = here - here.mean(0)
        for silo, (first, end) in enumerate(pairwise(blocks)):
            partial = (here - there + extra)[:, first:end]
            assert np.linalg.norm(partial, axis=1).max() / apart <= constants.partial_smoothness
            assert (deviations[:, first:end] ** 2).sum(1).mean() <= constants.deviations[silo]
    assert closest > 0.2
    assert constants.smoothness == max(constants.loss_smoothness, constants.partial_smoothness)
    assert toy.engine(name).smoothness == pytest.approx(constants.smoothness)


def test_variance_is_that_of_minibatches_without_replacement():
    constants = constants_of(make_toy(clients=1, samples=12).samples, objective_of(NAMES[0]))
    values = np.random.default_rng(0).normal(size=12)
    constants = replace(constants, clients=(1,), deviations=(values.var(),))
    means = [values[RoundRandom(seed).sample(12, 5)].mean() for seed in range(4000)]
    assert constants.variance(5) == pytest.approx(np.var(means), rel=0.08)
    assert constants.variance(12) == 0  # all samples
    both = replace(constants, clients=(1, 3), deviations=(2.0, 4.0))
    assert both.variance(6) == pytest.approx(6 / 11 * (2 / 6 + 3 * 4 / 6))


def test_a_loss_without_a_steepest_slope_has_no_bound():
    constants = constants_of(make_toy(clients=1).samples, objective_of("ridge_regression"))
    assert constants.deviations is None
    (found,) = theorems_on(tdcd(1e-9), constants, Course(10))
    assert found.bound is None
    assert found.covers


def tdcd(step: float, local_steps: int = 3, batch: int = 5) -> Tdcd:
    return Tdcd(step_size=step, local_steps=local_steps, batch_size=batch)


CONSTANTS = TierConstants((1, 1), 101, 2.0, 4.0, (3.0, 1.0), gap=0.6, optimum=0.1)


def test_theorem_1_in_numbers():
    """L = 2, L_max = 4, Q = 3: η ≤ 1/96. Σ σ² = (96/100) 4/5; at η = 0.01 ηQ is 0.03."""
    (found,) = theorems_on(tdcd(0.01), CONSTANTS, Course(50))
    assert (found.steps[0].bound, found.covers) == (pytest.approx(1 / 96), True)
    variance = 0.96 * 4 / 5
    floor = 4 * (0.03 * 2 + 4 * 0.03**2 * 16 + 8 * 0.03**3 * 2 * 16) * variance
    assert found.bound is not None
    assert found.bound.after(found.epochs) == pytest.approx(4 * 0.6 / (0.03 * 50) + floor)


def test_too_large_a_step_is_not_covered_and_shows_the_bound_of_the_largest():
    (large,) = theorems_on(tdcd(0.02), CONSTANTS, Course(50))
    (largest,) = theorems_on(tdcd(1 / 96), CONSTANTS, Course(50))
    assert not large.covers
    assert large.bound == largest.bound


def test_shards_that_clients_keep_are_not_covered_whatever_the_minibatch():
    constants = replace(CONSTANTS, clients=(1, 2))
    for batch in (5, 101):
        (found,) = theorems_on(tdcd(1e-3, batch=batch), constants, Course(50))
        assert found.lacks == "E g_kj = ∇_j L (8)"


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_covered_run_stays_below_its_bound(name):
    toy = make_toy(silos=2, clients=1, samples=30)
    engine, objective = toy.engine(name), objective_of(name)
    constants = constants_of(toy.samples, objective)
    method = tdcd(1 / (24 * constants.smoothness), 3, 10)
    counters, random = TieredCounters(), RoundRandom(0)
    network, problem = TieredNetwork((1, 1), counters), engine.counting(counters)
    state, squares = method.start(problem, network, engine.start(0)), []
    for number in range(60):
        squares.append(engine.measure(state.models)["gradient_norm"] ** 2)
        state = method.round(state, problem, network, random.at(number))
    (found,) = theorems_on(method, constants, Course(60))
    assert found.covers and found.bound is not None
    assert np.mean(squares) <= found.bound.after(60)


# ---------------------------------------------------------------------------------- error scaling


def runs(power: float, lost: int = 0, later: float | None = None):
    """Runs of 16, 64 and 256 rounds whose gradient norms are R^(power/2) all along.

    later: the power from 64 rounds on, if it is another.
    """
    found = {}
    for name, rounds in zip("abc", (16, 64, 256), strict=True):
        early, late = min(rounds, 64), max(rounds / 64, 1)
        level = early ** (power / 2) * late ** ((power if later is None else later) / 2)
        values = np.repeat(SPREAD[:, None] * level, 5, 1)
        values[:lost, 3:] = np.nan
        found[name] = make_trace(values, schedule=np.linspace(0, rounds, 5).astype(int))
    return found


def scaling(power: float, **more):
    return {
        "kind": "error_scaling",
        "series": tuple("abc"),
        "size": "rounds",
        "power": power,
    } | more


@pytest.mark.parametrize(
    ("true", "claimed", "expected"),
    [(-0.5, -0.5, "reproduced"), (-1, -0.5, "reproduced"), (-0.2, -0.5, "contradicted")],
)
def test_errors_against_the_theorems_power(true, claimed, expected):
    found = verdict(scaling(claimed), **runs(true))
    assert found.outcome == expected
    assert found.effect.estimate == pytest.approx(claimed - true, abs=1e-9)
    assert "rounds = 16" in found.evidence


def test_a_rate_that_still_steepens_is_not_contradicted():
    found = verdict(scaling(-0.5), **runs(-0.2, later=-0.3))
    assert found.outcome == "not testable"
    assert "from one to the next slopes are -0.2, -0.3" in found.evidence
    assert verdict(scaling(-0.5), **runs(-0.3, later=-0.2)).outcome == "contradicted"


def test_errors_at_the_end_are_not_squared():
    found = verdict(scaling(-0.25, averaged=False), **runs(-0.5))
    assert found.effect.estimate == pytest.approx(0, abs=1e-9)


def test_a_diverged_seed_counts_against_the_claim():
    assert verdict(scaling(-0.5), **runs(-1)).outcome == "reproduced"
    assert verdict(scaling(-0.5), **runs(-1, lost=2)).outcome == "undecided"


def test_a_series_needs_two_runs():
    with pytest.raises(ValidationError, match="at least 2"):
        SlopeTest(**scaling(-0.5, series=("a",)))
