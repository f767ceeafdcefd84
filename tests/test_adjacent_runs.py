"""The ε of a pair of adjacent data sets: sums against runs of the updates as printed."""

from itertools import product
from math import inf, isnan, sin

import numpy as np
import pytest

from fedatlas.privacy.adjacent_runs import (
    ChangedAgent,
    differences,
    lowest_curvature_of_remark_4,
    pair_epsilon,
    refuted_from,
    sampled_pair_epsilon,
)
from fedatlas.privacy.schemes import TrackingSteps

FORMS = pytest.mark.parametrize("form", ["literal", "compact", "provable"])
# What agent 0 receives does not sum to 1, so that weights cannot be left out.
R = np.array([[0, 0.7, 0.5], [1, 0, 0], [0, 1, 0]])
C = np.array([[0, 0, 0.8], [1, 0, 0], [0.3, 1, 0]])
ALPHA, BETA, GAMMA = 0.3, 0.4, 0.25
K = 12


def agent(form, samples=1, noises=(160.0, 80.0), iterations=K, steps=(ALPHA, BETA, GAMMA)):
    state, tracker = (np.linspace(1, 1.5, iterations) * noise for noise in noises)
    return ChangedAgent(
        form, TrackingSteps(*steps, samples), float(R[0].sum()), float(C[0].sum()), state, tracker
    )


def replay(form, gradient, x_sent, y_sent):
    """Exact states and trackers of all agents, (iterations, n) each, by (4), (6) or (7), (8).

    gradient: of (agents' points, iteration). x_sent, y_sent: what was sent, (iterations, n).
    """
    x = np.zeros(3)
    g = gradient(x, 0)
    y, states, trackers = g.copy(), [], []
    for k in range(len(x_sent)):
        states.append(x)
        trackers.append(y)
        moved = np.empty(3)
        left = np.empty(3)
        for i in range(3):
            others = [j for j in range(3) if j != i]
            if form == "literal":
                moved[i] = (1 - ALPHA * sum(R[i])) * x[i] - GAMMA * y[i]
                moved[i] += ALPHA * sum(R[i, j] * x_sent[k, j] for j in others)
                left[i] = (1 - BETA * sum(C[i])) * y[i]
                left[i] += BETA * sum(C[i, j] * y_sent[k, j] for j in others)
            else:
                own = x[i] if form == "provable" else x_sent[k, i]
                gathered = sum(R[i, j] * (x_sent[k, j] - own) for j in others)
                step = y_sent[k, i] if form == "provable" else y[i]
                moved[i] = x[i] + ALPHA * gathered - GAMMA * step
                left[i] = y[i] - BETA * sum(C[j, i] for j in others) * y_sent[k, i]
                left[i] += BETA * sum(C[i, j] * y_sent[k, j] for j in others)
        g_next = gradient(moved, k + 1)
        x, y, g = moved, left + g_next - g, g_next
    return np.array(states), np.array(trackers)


def quadratic(curvature, centre):
    """Of agent 0 with this centre; others have 0.3."""
    return lambda x, k: curvature * x - np.array([centre, 0.3, 0.3])


@FORMS
@pytest.mark.parametrize("curvature", [0.0, 1.0, -1.0, -3.0])
def test_the_sum_is_that_of_two_runs_with_one_transcript(form, curvature):
    random = np.random.default_rng(5)
    x_sent, y_sent = random.laplace(scale=50, size=(2, K, 3))
    of = agent(form)
    (x, y), (x_other, y_other) = (
        replay(form, quadratic(curvature, centre), x_sent, y_sent) for centre in (0.5, -0.5)
    )
    apart = np.abs(x - x_other), np.abs(y - y_other)
    # Only agent 0 differs, and in the provable form only its trackers.
    assert max(each[:, 1:].max() for each in apart) == 0
    if form == "provable":
        assert apart[0].max() < 1e-9
        apart[0][:] = 0
    spent = (apart[0][:, 0] / of.state_noise + apart[1][:, 0] / of.tracker_noise).sum()
    assert pair_epsilon(of, 1.0, curvature) == pytest.approx(spent, rel=1e-9)


@FORMS
def test_no_transcript_tells_more_and_some_tell_as_much(form):
    """ln of the ratio of densities: at most ε, reached where all noise lies beyond both values."""
    of, curvature = agent(form), -1.0
    worlds = [quadratic(curvature, centre) for centre in (0.5, -0.5)]
    random = np.random.default_rng(6)
    moved_x, moved_y = differences(of, 1.0, lambda _: curvature)

    def ratio(x_sent, y_sent):
        (x, y), (x_other, y_other) = (replay(form, world, x_sent, y_sent) for world in worlds)
        told = (np.abs(y_sent - y_other) - np.abs(y_sent - y))[:, 0] / of.tracker_noise
        if form != "provable":  # sends states exactly
            told += (np.abs(x_sent - x_other) - np.abs(x_sent - x))[:, 0] / of.state_noise
        return told.sum()

    bound = pair_epsilon(of, 1.0, curvature)
    for _ in range(20):
        assert abs(ratio(*random.laplace(scale=100, size=(2, K, 3)))) <= bound + 1e-9
    # The first world's gradient is smaller by 1, and so are its values where Δ of a unit is > 0.
    far = [np.zeros((K, 3)) for _ in range(2)]
    far[0][:, 0], far[1][:, 0] = -1e6 * np.sign(moved_x), -1e6 * np.sign(moved_y)
    if form != "literal":  # its own value counts: keep what it is led to moderate
        far = [each * 1e-2 for each in far]
    assert ratio(*far) == pytest.approx(bound, rel=1e-5)


@pytest.mark.parametrize(
    ("curvature", "literal", "compact"),
    [
        (0, 0.0623, 0.606),
        (-1, 0.1185, 11.69),
        (-3, 3.242, 6090.9),
        (-6, 56_501.6, 6_600_248),
    ],
)
def test_the_setting_of_the_audit(curvature, literal, compact):
    for form, expected in (("literal", literal), ("compact", compact)):
        noises = np.full(20, 160.0), np.full(20, 80.0)
        of = ChangedAgent(form, TrackingSteps(0.3, 0.3, 0.3, 1), 1.0, 1.0, *noises)
        assert pair_epsilon(of, 1.0, curvature) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("form", ["literal", "compact"])
def test_neighbours_may_lead_states_to_where_the_nonconvex_loss_curves_most(form):
    """x² + 3 sin² x − c x: transcripts that steer two runs reach the sum."""
    of = agent(form)

    def world(centre):
        return lambda x, k: 2 * x + 3 * np.sin(2 * x) - np.array([centre, 0, 0])

    x_sent, y_sent = np.zeros((2, K, 3))
    for k in range(1, K):
        # Agent 1 sends in iteration k − 1 what puts the two states where cos(2x + Δ) = ∓1.
        x, other = (
            replay(form, world(centre), x_sent[: k + 1], y_sent[: k + 1])[0][k, 0]
            for centre in (0.5, -0.5)
        )
        distance = other - x
        target = (np.pi - distance) / 2 if sin(distance) / distance > 0 else -distance / 2
        x_sent[k - 1, 1] += (target - x) / (ALPHA * R[0, 1])
    (x, y), (x_other, y_other) = (
        replay(form, world(centre), x_sent, y_sent) for centre in (0.5, -0.5)
    )
    spent = np.abs(x - x_other)[:, 0] / of.state_noise
    spent += np.abs(y - y_other)[:, 0] / of.tracker_noise
    assert pair_epsilon(of, 1.0, lowest_curvature_of_remark_4) == pytest.approx(
        spent.sum(), rel=1e-6
    )


def test_the_lowest_curvature_is_that_of_the_function():
    points = np.linspace(-5, 5, 20_001)
    for distance in (0.3, 1.0, 2.5, 4.0, -1.0):
        slopes = (
            2 * distance + 3 * np.sin(2 * (points + distance)) - 3 * np.sin(2 * points)
        ) / distance
        assert lowest_curvature_of_remark_4(distance) == pytest.approx(slopes.min(), abs=1e-5)
    assert lowest_curvature_of_remark_4(0.0) == -4


@FORMS
@pytest.mark.parametrize("curvature", [0.0, -1.0])
def test_amplified_sums_are_those_of_all_draws_together(form, curvature):
    """Over every sequence of draws, weighed by its probability."""
    iterations, share = 8, 0.25
    of = agent(form, noises=(4.0, 2.0), iterations=iterations)
    sides = [np.sign(each) for each in differences(of, 1.0, lambda _: curvature)]
    total = 0.0
    for drawn in product((0, 1), repeat=iterations):
        zeros = np.zeros((iterations, 3))

        def gradient(x, k, drawn=drawn):
            moved = drawn[k] if k < iterations else 0
            return curvature * x + np.array([moved, 0.0, 0.0])

        x, y = replay(form, gradient, zeros, zeros)
        told = (sides[0] * x[:, 0] / of.state_noise + sides[1] * y[:, 0] / of.tracker_noise).sum()
        total += np.exp(told) * share ** sum(drawn) * (1 - share) ** (iterations - sum(drawn))
    found = sampled_pair_epsilon(of, 1.0, curvature, share)
    assert found == pytest.approx(np.log(total))
    assert sampled_pair_epsilon(of, 1.0, curvature, 1.0) == pytest.approx(
        pair_epsilon(of, 1.0, curvature)
    )


def test_one_release_is_amplified_as_theory_says():
    of = agent("compact", noises=(4.0, 2.0), iterations=1)
    assert sampled_pair_epsilon(of, 1.0, 0.0, 0.25) == pytest.approx(np.log1p(0.25 * np.expm1(0.5)))


def test_beyond_float64_the_loss_is_infinite():
    for form in ("literal", "compact"):
        of = agent(form, iterations=2000)
        assert pair_epsilon(of, 1.0, -1000.0) == inf
        assert sampled_pair_epsilon(of, 1.0, -1000.0, 0.5) == inf
    assert not isnan(pair_epsilon(agent("provable", iterations=2000), 1.0, -1000.0))


def test_where_a_claim_begins_to_fail():
    def spent(curvature):
        return 10 * abs(curvature) if curvature < 0 else curvature

    assert refuted_from(spent, 5.0, -100.0) == pytest.approx(-0.5)
    assert refuted_from(spent, 5.0, 100.0) == pytest.approx(5)
    assert refuted_from(spent, 500.0, 100.0) is None
    assert refuted_from(lambda _: 7.0, 5.0, -100.0) == 0
