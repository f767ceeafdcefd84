"""FMGDA's constants on a linear scorer and what Corollary 1 covers, by the paper's formulas."""

from dataclasses import replace
from math import log, sqrt

import numpy as np
import pytest
from scipy.optimize import minimize

import reference_min_max as reference
from fedatlas.algorithms.fmgda import Fmgda
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import AucObjective
from fedatlas.theorems import theorems_on
from fedatlas.theory.auc import MinMaxConstants, min_max_constants
from fedatlas.theory.theorems import Course

WORKERS, SAMPLES, FEATURES = 4, 30, 3
OBJECTIVE = AucObjective(name="auc_min_max", model="linear", scores="linear", stationarity=True)


class LinearScorer:
    """h = m · (x, 1), in the place of the reference's network."""

    def scores(self, m, x):
        return np.hstack([x, np.ones((len(x), 1))]) @ m

    def gradient(self, m, x, slopes):
        return slopes @ np.hstack([x, np.ones((len(x), 1))])


def made(sizes: tuple[int, ...] = (SAMPLES,) * WORKERS) -> ClientSamples:
    random = np.random.default_rng(1)
    label = np.where(random.random(sum(sizes)) < 0.6, 1.0, -1.0)
    scale = np.repeat(np.linspace(0.5, 2.0, len(sizes)), sizes)[:, None]
    rows = scale * random.normal(size=(sum(sizes), FEATURES)) + 0.4 * label[:, None]
    return ClientSamples(Samples.numbered(label, rows), np.cumsum([0, *sizes]), {}, None)


def gradients(data: ClientSamples, theta: np.ndarray, w: float) -> np.ndarray:
    """(n, d + 4) of every sample, in (m, intercept, a, b, w), by the reference."""
    x, y = data.samples.features, data.samples.label
    p = float((y > 0).mean())
    found = []
    for row in range(len(y)):
        at = theta[:-2], theta[-2], theta[-1], w
        of_theta, of_w = reference.auc_gradients(
            *at, x[row : row + 1], y[row : row + 1], p, LinearScorer()
        )
        found.append([*of_theta, of_w])
    return np.array(found)


def test_smoothness_holds_between_random_points_and_is_met():
    data = made()
    known = min_max_constants(data, OBJECTIVE)
    random = np.random.default_rng(0)
    largest = 0.0
    for _ in range(40):
        theta, other = random.normal(size=(2, FEATURES + 3))
        w = float(random.normal())
        apart = gradients(data, theta, w) - gradients(data, other, w)
        squares = (apart[:, :-1] ** 2).sum(1).reshape(WORKERS, SAMPLES).mean(1)
        ratio = float(np.sqrt(squares.max()) / np.linalg.norm(theta - other))
        largest = max(largest, ratio)
        moved = gradients(data, theta, w) - gradients(data, theta, w + 1)
        for part in (moved[:, :-1], moved[:, -1:]):
            squares = (part**2).sum(1).reshape(WORKERS, SAMPLES).mean(1)
            assert np.sqrt(squares.max()) <= known.smoothness * (1 + 1e-9)
    # Its samples' steepest directions differ, and a direction has one of them only.
    assert 0.3 * known.smoothness < largest <= known.smoothness


def test_concavity_deviation_and_heterogeneity():
    data = made()
    known = min_max_constants(data, OBJECTIVE)
    at_start = gradients(data, np.zeros(FEATURES + 3), 0.0).reshape(WORKERS, SAMPLES, -1)
    means = at_start.mean(1)
    deviation = max(((at_start[i] - means[i]) ** 2).sum(1).mean() for i in range(WORKERS))
    apart = max(np.linalg.norm(one - other) for one in means for other in means)
    assert known.deviation == pytest.approx(sqrt(deviation))
    assert known.heterogeneity == pytest.approx(apart)
    p = float((data.samples.label > 0).mean())
    assert known.concavity == pytest.approx(2 * p * (1 - p))


def test_the_gap_is_what_a_minimiser_finds():
    data = made()
    x, y = data.samples.features, data.samples.label
    p, net = float((y > 0).mean()), LinearScorer()

    def outer(theta: np.ndarray) -> float:
        w = reference.best_w(net.scores(theta[:-2], x), y)
        return reference.auc_value(theta[:-2], theta[-2], theta[-1], w, x, y, p, net)

    start = np.zeros(FEATURES + 3)
    found = minimize(outer, start + 0.1)
    expected = outer(start) - found.fun
    assert min_max_constants(data, OBJECTIVE).gap == pytest.approx(expected, rel=1e-5)


def test_other_scorers_and_unequal_workers_are_refused():
    with pytest.raises(FedatlasError, match="need the model 'linear' with 'scores: linear'"):
        min_max_constants(made(), OBJECTIVE.model_copy(update={"scores": "sigmoid"}))
    with pytest.raises(FedatlasError, match="workers hold 3 to 4 samples"):
        min_max_constants(made((3, 4)), OBJECTIVE)


KNOWN = MinMaxConstants(
    workers=16, smoothness=3.0, concavity=0.5, deviation=1.4, heterogeneity=0.1, gap=0.15,
    distance=0.0,
)  # fmt: skip
# κ = 6, L = 21, q = 10: η_0 = 1/2520.
C = 0.5 / (6 * 21)
ALPHA = (1 / (20 * 10 * 256) + 60 / (4 * 16)) / 120**2


def method(**changes: float) -> Fmgda:
    primal = sqrt(11 / 2880) / 36 * C / 2520
    values = {"primal_step_size": 0.999 * primal, "dual_step_size": 0.999999 * C / 2520}
    momenta = {"primal_momentum": ALPHA, "dual_momentum": ALPHA}
    return Fmgda(local_steps=10, batch_size=4, **(values | momenta | changes))


def test_corollary_1_as_printed_covers_tiny_steps():
    printed, proof = theorems_on(method(), KNOWN, Course(100))
    assert (printed.covers, printed.lacks) == (True, "")
    assert printed.steps[1].bound == pytest.approx(C / 2520)
    assert printed.steps[0].factor == pytest.approx(0.999, rel=1e-5)
    # The proof wants c ≥ 0.0977 μ/L_f² = 0.0054, above c < μ/(6L) = 0.004 (errata FM-1).
    assert not proof.covers
    assert proof.lacks == "c ≥ 0.0054, which no c < 0.004 is"
    assert proof.steps[0].bound / printed.steps[0].bound == pytest.approx(0.0344 / 0.0618, rel=1e-2)


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({"primal_momentum": 0.1}, "α = 6.5e-05"),
        ({"dual_momentum": 0.1}, "β = 6.5e-05"),
        ({"constant_iterations": 50}, "steps that fall after 4.42e+08 iterations"),
        ({"constant_iterations": 5000}, ""),  # longer than the run
        ({"initial_batch_size": 4}, "B = b q"),
    ],
)
def test_conditions_are_named(changes, lacks):
    printed, _ = theorems_on(method(**changes), KNOWN, Course(100))
    assert printed.lacks == lacks


def test_the_bound_is_above_that_of_the_corollary():
    """(11) at T = 1000, N = 16, q = 10, written out; ours replaces (NT)^(−2/3) by q/T."""
    (printed, _), n, t, q, b = theorems_on(method(), KNOWN, Course(100)), 16, 1000, 10, 4
    variance, cubed = 1.4**2, (n * t) ** (2 / 3)
    start = 2 * 0.15 / (method().primal_step_size * 2520)
    expected = (20 * 21 * q / t + 21 / cubed) * start
    expected += (20 * q / t + 20 / cubed) * variance * (1 + 50 * 9 / 0.25)
    later = 5 * variance / 0.25 + variance / 20 + variance / (10 * b) + 0.1**2 / 4
    expected += later * 2 * log(t + 1) * (144 * 2000 * q / (b**2 * t) + 14400 / (b**2 * cubed))
    promised = printed.bound.after(printed.epochs)
    assert expected <= promised <= 2 * expected
    # One worker of the same constants has run past N²q³ = 1000 iterations.
    alone = theorems_on(method(), replace(KNOWN, workers=1), Course(200))[0]
    assert alone.bound is None
